"""Probes of the gateway itself: health, liveness, readiness."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

import spec
from conformance.checks.stream_support import is_json
from conformance.harness import CHAT, clause

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

TURN_BOUND_S = 20.0
"""How long a gateway whose health checks run each second may take to notice; the check fails after that."""


async def probed_until(gateway: Gateway, path: str, status: int) -> Exchange:
    """Probe until the path answers with this status, and return that answer; the last one if the time is up."""
    deadline = time.monotonic() + TURN_BOUND_S
    while (probe := await gateway.get(path, key=None)).status != status and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody signals a gateway's opinion; it has to be asked
        await asyncio.sleep(0.1)
    return probe


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/health", marks=pytest.mark.clause("health.up")),
        pytest.param("/liveness", marks=pytest.mark.clause("health.liveness")),
        pytest.param("/readiness", marks=pytest.mark.clause("health.readiness.ready")),
    ],
)
async def test_probe_of_a_working_gateway(gateway: Gateway, worker: Worker, path: str) -> None:
    """Each probe of a gateway with workers answers 200."""
    await gateway.proof(worker, CHAT, {})
    assert (await gateway.get(path)).status == 200


@clause("health.readiness.json")
async def test_readiness_is_json(gateway: Gateway) -> None:
    """Readiness answers in JSON and says ready."""
    probe = await gateway.get("/readiness")
    assert is_json(probe)
    assert probe.json["status"] == "ready"
    assert spec.schemas.problems("Ready", probe.json) == []


@clause("health.readiness.counts")
async def test_readiness_counts_workers(gateway: Gateway) -> None:
    """Readiness counts as many healthy workers, and as many in all, as this configuration has."""
    probe = (await gateway.get("/readiness")).json
    count = len(gateway.environment.workers)
    assert (probe["healthy_workers"], probe["total_workers"]) == (count, count)


@clause("health.readiness.no_workers")
async def test_not_ready_without_workers(gateway: Gateway) -> None:
    """Readiness of a gateway without workers answers 503."""
    assert (await gateway.get("/readiness")).status == 503


@clause("health.readiness.no_workers_json")
async def test_not_ready_says_so(gateway: Gateway) -> None:
    """Readiness of a gateway without workers says in JSON that it is not ready."""
    probe = await gateway.get("/readiness")
    assert probe.json["status"] == "not ready"
    assert spec.schemas.problems("NotReady", probe.json) == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/health", marks=pytest.mark.clause("health.up_without_workers")),
        pytest.param("/liveness", marks=pytest.mark.clause("health.liveness_without_workers")),
    ],
)
async def test_gateway_lives_without_workers(gateway: Gateway, path: str) -> None:
    """A gateway without workers is not ready, and is up and alive."""
    assert not (await gateway.get("/readiness")).succeeded
    assert (await gateway.get(path)).status == 200


@clause("health.readiness.unhealthy", "health.up_when_unhealthy")
async def test_all_workers_unhealthy(gateway: Gateway, worker: Worker) -> None:
    """While every worker fails its health checks, readiness is 503 and health 200; with their recovery both are 200."""
    names = [each.name for each in gateway.environment.workers]
    assert (await probed_until(gateway, "/readiness", 200)).status == 200
    try:
        for name in names:
            await worker.control.set_worker(name, health=500)
        assert (await probed_until(gateway, "/readiness", 503)).status == 503
        assert (await gateway.get("/health")).status == 200
    finally:
        for name in names:
            await worker.control.set_worker(name, health=200)
    assert (await probed_until(gateway, "/readiness", 200)).status == 200


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/health", marks=pytest.mark.clause("health.public.health")),
        pytest.param("/liveness", marks=pytest.mark.clause("health.public.liveness")),
        pytest.param("/readiness", marks=pytest.mark.clause("health.public.readiness")),
    ],
)
async def test_probes_need_no_key(gateway: Gateway, path: str) -> None:
    """A probe without a key is answered where chat is not."""
    chat = await gateway.post(CHAT, {"model": gateway.model, "messages": [{"role": "user", "content": "hi"}]}, key=None)
    assert chat.status == 401, f"this configuration needs a key: {chat.brief()}"
    assert (await gateway.get(path, key=None)).status == 200


@clause("health.not_forwarded")
async def test_probes_cost_no_inference(gateway: Gateway, worker: Worker) -> None:
    """A probe with a marker in its query and in a header reaches no worker, while a chat request with one does."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    for path in ("/health", "/liveness", "/readiness"):
        probe = await gateway.get(f"{path}?probe={script.marker}", headers=[("x-request-id", script.marker)])
        assert probe.status == 200
    await script.never_seen(because=proof)
