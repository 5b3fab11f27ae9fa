"""A gateway with no key configured asks nobody for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.routes_support import NOBODYS_KEY, expect_success, per_route, send
from conformance.harness import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@per_route("auth.open.{}_without_key")
async def test_open_gateway_serves_without_a_key(gateway: Gateway, worker: Worker, path: str) -> None:
    """With no key configured, a request without credentials reaches a worker and is answered."""
    script = worker.script()
    expect_success(await send(gateway, path, script, key=None))
    await script.only()


@clause("auth.open.any_key_served")
async def test_open_gateway_serves_with_any_key(gateway: Gateway, worker: Worker) -> None:
    """With no key configured, client libraries may send whatever they are made to send."""
    script = worker.script()
    expect_success(await gateway.chat(script, key=NOBODYS_KEY))
    await script.only()


@clause("auth.open.admin_without_key")
async def test_open_gateway_lists_its_workers(gateway: Gateway, worker: Worker) -> None:
    """With no key configured, the list of workers is open too."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get("/workers", key=None))
