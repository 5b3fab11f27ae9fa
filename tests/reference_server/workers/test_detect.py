"""Detection: what the answers of a worker's information endpoints make of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.settings import HealthSettings, Settings
from reference_server.workers.detect import DetectionError, Detector
from reference_server.workers.worker import ModelInfo, WorkerSpec

if TYPE_CHECKING:
    from reference_server.workers.upstream import UpstreamClient

StartWorker = Any  # fixtures of conftest.py, which cannot be imported
Kit = Any

SETTINGS = Settings(api_key="of-gateway", health=HealthSettings(timeout_s=0.3))


def _models(*cards: dict[str, Any]) -> bytes:
    return json.dumps({"object": "list", "data": list(cards)}).encode()


@pytest.mark.parametrize(
    ("owner", "pages", "runtime"),
    [
        ("sglang", (), "sglang"),
        ("nvidia", (), "sglang"),
        ("vllm", (), "vllm"),
        ("self_hosted", (), "generic"),
        ("self_hosted", ("/version",), "vllm"),
        ("self_hosted", ("/server_info",), "sglang"),
        ("self_hosted", ("/version", "/server_info"), "vllm"),
        (None, (), "generic"),
        (7, (), "generic"),
    ],
)
async def test_the_engine_is_told_by_its_owner_field_then_by_its_endpoints(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, *, owner: object, pages: tuple[str, ...], runtime: str
) -> None:
    """The owner of the first model decides; an unknown owner leaves it to the information endpoints."""
    worker = await start_worker(model="")
    worker.pages = {page.encode(): kit.response(b"{}") for page in pages}
    worker.pages[b"/v1/models"] = kit.response(_models({"id": "m", "owned_by": owner}))
    assert (await Detector(SETTINGS, client).detect(WorkerSpec(url=worker.url))).runtime == runtime


async def test_every_listed_model_is_registered_in_the_workers_order(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """A worker that lists several models serves all of them."""
    worker = await start_worker(model="")
    cards = [{"id": "b", "owned_by": "vllm", "max_model_len": 4096}, {"id": "a"}, {"id": ""}, {"no": "id"}, "text"]
    worker.pages[b"/v1/models"] = kit.response(_models(*cards))  # type: ignore[arg-type] # a worker may send anything
    facts = await Detector(SETTINGS, client).detect(WorkerSpec(url=worker.url))
    assert [model.id for model in facts.models] == ["b", "a"]
    assert facts.models[0].details["context_length"] == 4096
    assert facts.labels["max_model_len"] == "4096"


async def test_labels_are_what_an_engine_says_flat_and_as_text(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """Labels are text as it is and other values as JSON; what is open or nested is left out."""
    worker = await start_worker(model="")
    worker.pages = {
        b"/v1/models": kit.response(_models({"id": "m", "owned_by": "sglang", "max_model_len": 8})),
        b"/get_server_info": kit.response(b'{"version":"0.5","tp_size":2,"dp_size":null,"model_path":{"a":1}}'),
        b"/model_info": kit.response(b'{"is_generation":true,"architectures":["L"],"tokenizer_path":"","other":1}'),
    }
    facts = await Detector(SETTINGS, client).detect(WorkerSpec(url=worker.url))
    assert facts.labels == {
        "version": "0.5",
        "tp_size": "2",
        "is_generation": "true",
        "architectures": '["L"]',
        "max_model_len": "8",
    }


USELESS_LISTS = {
    "empty": b'{"data":[]}',
    "no list": b'{"data":{"id":"m"}}',
    "no object": b'["m"]',
    "no json": b"<html>",
    "deep": b"[" * 100_000,
    "half a character": b'{"data":[{"id":"\\ud800"}]}',
    "no utf-8": b'{"data":[{"id":"\xff"}]}',
}


@pytest.mark.parametrize("name", USELESS_LISTS)
async def test_a_worker_that_names_no_model_is_not_ready(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, name: str
) -> None:
    """A model list nobody can use means the worker is not ready, unless models were registered with it."""
    worker = await start_worker(model="")
    worker.pages[b"/v1/models"] = kit.response(USELESS_LISTS[name])
    detector = Detector(SETTINGS, client)
    with pytest.raises(DetectionError, match="lists no model"):
        await detector.detect(WorkerSpec(url=worker.url))
    facts = await detector.detect(WorkerSpec(url=worker.url, models=(ModelInfo("given"),)))
    assert (facts.runtime, facts.models) == ("generic", ())


@pytest.mark.parametrize("status", [204, 302, 404, 500, 503])
async def test_only_success_is_health(client: UpstreamClient, start_worker: StartWorker, kit: Kit, status: int) -> None:
    """A health endpoint that answers anything but success is not healthy."""
    worker = await start_worker(model="m")
    worker.pages[b"/health"] = b"HTTP/1.1 204 No Content\r\n\r\n" if status == 204 else kit.response(b"", status)
    assert await Detector(SETTINGS, client).is_alive(WorkerSpec(url=worker.url)) == (status == 204)


async def test_health_must_come_in_time(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """A health endpoint that takes longer than its time is not healthy."""
    worker = await start_worker(kit.saying_then_waiting(b""))
    assert not await Detector(SETTINGS, client).is_alive(WorkerSpec(url=worker.url))
    assert worker.seen[0].line == b"GET /health HTTP/1.1"


@pytest.mark.parametrize(("key", "sent"), [(None, "Bearer of-gateway"), ("of-worker", "Bearer of-worker")])
async def test_probes_carry_a_key_except_for_health(
    client: UpstreamClient, start_worker: StartWorker, key: str | None, sent: str
) -> None:
    """Information endpoints are asked with the worker's key, else the gateway's; health is asked with none."""
    worker = await start_worker(model="m")
    await Detector(SETTINGS, client).detect(WorkerSpec(url=worker.url, api_key=key))
    seen = {probe.line.split()[1].decode(): dict(probe.headers).get("authorization") for probe in worker.probes}
    assert seen == {"/health": None, "/v1/models": sent, "/version": sent}
