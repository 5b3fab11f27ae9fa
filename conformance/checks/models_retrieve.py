"""Retrieving one model, where a gateway offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from conformance.checks.models_list import entries, entry_of
from conformance.checks.stream_support import ALL_ENGINES
from conformance.harness import clause, engines
from conformance.harness.gateway import MODELS

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker


@engines(*ALL_ENGINES)
@clause("models.retrieve.known")
async def test_served_model(gateway: Gateway, worker: Worker) -> None:
    """A served model's own path gives its entry of the list."""
    listed = entry_of(await entries(gateway), worker)
    retrieved = await gateway.get(f"{MODELS}/{worker.model}")
    assert retrieved.succeeded
    assert retrieved.json == listed


@clause("models.retrieve.unknown")
async def test_unknown_model(gateway: Gateway) -> None:
    """A model nobody serves is answered with 404, while a served one is found under its path."""
    assert (await gateway.get(f"{MODELS}/{gateway.model}")).status == 200
    assert (await gateway.get(f"{MODELS}/conformance-nobody-serves-this")).status == 404


@clause("models.retrieve.slash")
async def test_name_with_a_slash(gateway: Gateway, worker: Worker) -> None:
    """A model whose name has a slash is found under its path, the slash encoded."""
    assert "/" in worker.model, "this configuration needs a model with a slash in its name"
    retrieved = await gateway.get(f"{MODELS}/{quote(worker.model, safe='')}")
    assert retrieved.succeeded
    assert retrieved.json["id"] == worker.model


@clause("models.retrieve.alias")
async def test_alias(gateway: Gateway) -> None:
    """An alias's path gives the entry of the model it stands for."""
    retrieved = await gateway.get(f"{MODELS}/{gateway.alias}")
    assert retrieved.succeeded
    assert retrieved.json["id"] == gateway.alias_of
