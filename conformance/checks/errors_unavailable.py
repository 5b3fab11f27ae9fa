"""503 no_available_workers: workers serve the model, and none of them can be asked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from conformance.checks.routes_support import (
    NOBODYS_MODEL,
    check_plain_json,
    each_path,
    error_of,
    expect_code,
    expect_equal,
    expect_status,
    expect_success,
    send,
)
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause, engines
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Proof, Worker
    from fake_workers.journal import Entry
    from fake_workers.script import Wire

OUTAGE_BOUND_S = 15.0
HEALTHY_MODEL = "conformance-vllm"
MOST_FAILURES, MOST_SUCCESSES = 12, 6
OPEN_S, ASKED_AGAIN_BOUND_S = 1.0, 6.0  # of configuration breaker-short
EARLY_S = 0.01

# The tokenspeed worker of configuration `outage` loses its health to whichever check comes first, for good.
outage = engines("tokenspeed")


async def lose(gateway: Gateway, worker: Worker) -> Proof:
    """Take the worker's health away and wait until the gateway stops asking it; returns proof that it serves others.

    Disproved when the worker is still asked after `OUTAGE_BOUND_S`.
    """
    await worker.control.set_worker(worker.name, health=500)
    deadline = time.monotonic() + OUTAGE_BOUND_S
    while True:
        script = worker.script()
        await gateway.chat(script)
        if not await worker.control.entries(script.marker, at_least=0, within_s=0.0):
            return await gateway.proof(worker, CHAT, {"model": HEALTHY_MODEL})
        if time.monotonic() > deadline:
            raise Disproved(
                "unhealthy worker still asked",
                f"{worker.name} fails its health checks for {OUTAGE_BOUND_S:g} s and is still asked",
            )
        await asyncio.sleep(0.1)


@outage
@clause("codes.no_available_workers.unhealthy.status")
async def test_unhealthy_means_503(gateway: Gateway, worker: Worker) -> None:
    """When the model's only worker fails its health checks, the answer is 503."""
    await lose(gateway, worker)
    expect_status(await gateway.chat(worker.script()), 503)


@outage
@clause("codes.no_available_workers.unhealthy.code")
async def test_unhealthy_has_its_code(gateway: Gateway, worker: Worker) -> None:
    """When the model's only worker fails its health checks, the code is no_available_workers."""
    await lose(gateway, worker)
    expect_code(await gateway.chat(worker.script()), "no_available_workers")


@outage
@clause("codes.no_available_workers.unhealthy.never_dispatched")
@each_path()
async def test_unhealthy_is_left_alone(gateway: Gateway, worker: Worker, path: str) -> None:
    """No request reaches a worker that fails its health checks, while others are served."""
    proof = await lose(gateway, worker)
    script = worker.script()
    await send(gateway, path, script)
    await script.never_seen(because=proof)


@outage
@clause("errors.envelope.type_service_unavailable")
async def test_type_is_service_unavailable(gateway: Gateway, worker: Worker) -> None:
    """The type of a 503 is Service Unavailable."""
    await lose(gateway, worker)
    answer = expect_status(await gateway.chat(worker.script()), 503)
    expect_equal("another type", error_of(answer).get("type"), "Service Unavailable")


@outage
@pytest.mark.parametrize(
    "path",
    [
        case("codes.no_available_workers.completions", COMPLETIONS, name="completions"),
        case("codes.no_available_workers.embeddings", EMBEDDINGS, name="embeddings"),
    ],
)
async def test_unhealthy_on_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """Completions and embeddings answer 503 no_available_workers too."""
    await lose(gateway, worker)
    answer = expect_status(await send(gateway, path, worker.script()), 503)
    expect_code(answer, "no_available_workers")


@outage
@clause("codes.no_available_workers.streaming")
async def test_unhealthy_for_a_stream(gateway: Gateway, worker: Worker) -> None:
    """Who asked for a stream gets the 503 as plain JSON."""
    await lose(gateway, worker)
    answer = expect_status(await gateway.chat(worker.script(), stream=True), 503)
    check_plain_json(answer)
    expect_code(answer, "no_available_workers")


@outage
@clause("codes.no_available_workers.not_for_unknown_models")
async def test_unknown_model_stays_404(gateway: Gateway, worker: Worker) -> None:
    """A model nobody serves is not found, also while somebody else's worker is out."""
    await lose(gateway, worker)
    expect_status(await gateway.chat(worker.script(), model=NOBODYS_MODEL), 404)


@outage
@clause("codes.no_available_workers.other_models_served")
async def test_other_models_are_served(gateway: Gateway, worker: Worker) -> None:
    """One model's outage is no other model's: a request for a healthy worker's model is served."""
    await lose(gateway, worker)
    script = worker.script()
    expect_success(await gateway.chat(script, model=HEALTHY_MODEL))
    await script.only()


@outage
@clause("response_headers.retry_after.not_on_no_available_workers")
async def test_no_available_workers_asks_for_no_wait(gateway: Gateway, worker: Worker) -> None:
    """The 503 for want of workers carries no Retry-After."""
    await lose(gateway, worker)
    answer = expect_status(await gateway.chat(worker.script()), 503)
    expect_equal("Retry-After sent", answer.headers.get_all("retry-after"), [])


class Tripped(NamedTuple):
    """An open breaker: the first answer given without the worker, proof, and what it failed before, if anything."""

    answer: Exchange
    proof: Proof
    failed: list[Entry]


async def trip(gateway: Gateway, worker: Worker) -> Tripped:
    """Fail request after request until the gateway stops asking the worker.

    Every check of the configuration only ever fails this worker, so they may share it. Disproved when the worker is
    asked `MOST_FAILURES` times in a row, six times as often as the breaker allows.
    """
    failed: list[Entry] = []
    for _ in range(MOST_FAILURES):
        script = worker.script(wire.json(500, {"error": "scripted failure"}))
        answer = await gateway.chat(script)
        entries = await script.look()
        if not entries:
            return Tripped(answer, await gateway.proof(worker, CHAT, {"model": HEALTHY_MODEL}), failed)
        failed += entries
    raise Disproved(
        "failing worker still asked", f"{worker.name} failed {MOST_FAILURES} requests in a row and is still asked"
    )


breaker = engines("sglang")


@breaker
@clause("codes.no_available_workers.breaker.status")
async def test_open_breaker_means_503(gateway: Gateway, worker: Worker) -> None:
    """Once the breaker of the model's only worker is open, the answer is 503."""
    tripped = await trip(gateway, worker)
    expect_status(tripped.answer, 503)


@breaker
@clause("codes.no_available_workers.breaker.code")
async def test_open_breaker_has_its_code(gateway: Gateway, worker: Worker) -> None:
    """Once the breaker of the model's only worker is open, the code is no_available_workers."""
    tripped = await trip(gateway, worker)
    expect_code(tripped.answer, "no_available_workers")


@breaker
@clause("codes.no_available_workers.breaker.never_dispatched")
@each_path()
async def test_open_breaker_keeps_requests_away(gateway: Gateway, worker: Worker, path: str) -> None:
    """Behind an open breaker the worker hears of no request on any route, while other models are served."""
    proof = (await trip(gateway, worker)).proof
    script = worker.script(wire.json(500, {"error": "scripted failure"}))
    await send(gateway, path, script)
    await script.never_seen(because=proof)


@breaker
@clause("codes.no_available_workers.breaker.other_models_served")
async def test_open_breaker_is_the_workers_own(gateway: Gateway, worker: Worker) -> None:
    """While one model's worker has an open breaker another model's worker is asked."""
    await trip(gateway, worker)
    script = worker.script()
    expect_success(await gateway.chat(script, model=HEALTHY_MODEL))
    await script.only()


@pytest.mark.parametrize("status", [400, 404, 422])
@clause("codes.no_available_workers.breaker.refusals_not_counted")
async def test_refusals_open_no_breaker(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker that refuses request after request is still asked: it works, and the requests were wrong."""
    for _ in range(MOST_FAILURES):
        script = worker.script(wire.json(status, {"error": "scripted refusal"}))
        expect_status(await gateway.chat(script), status)
        await script.only()


@engines("tokenspeed")
@clause("codes.no_available_workers.breaker.success_resets")
async def test_a_success_resets_the_count(gateway: Gateway, worker: Worker) -> None:
    """A worker that fails every other request is still asked: its failures do not follow each other."""
    for _ in range(MOST_FAILURES):
        failed = worker.script(wire.json(500, {"error": "scripted failure"}))
        expect_status(await gateway.chat(failed), 500)
        await failed.only()
        served = worker.script()
        expect_success(await gateway.chat(served))
        await served.only()


async def asked_again(gateway: Gateway, worker: Worker, *answers: Wire) -> tuple[Exchange, Entry]:
    """Send requests until the worker is asked again; Disproved when it takes many times as long as it should."""
    deadline = time.monotonic() + ASKED_AGAIN_BOUND_S
    while time.monotonic() < deadline:
        script = worker.script(*answers)
        answer = await gateway.chat(script)
        if await script.look():
            return answer, await script.only()
        expect_status(answer, 503)
        await asyncio.sleep(0.05)
    raise Disproved("never asked again", f"for {ASKED_AGAIN_BOUND_S:g} s the worker has not been asked again")


async def close(gateway: Gateway, worker: Worker) -> None:
    """Let the worker succeed until its breaker has no reason to be half-open any more."""
    for _ in range(MOST_SUCCESSES):
        expect_success(await gateway.chat(worker.script()))


@breaker
@clause("codes.no_available_workers.breaker.asked_again")
async def test_a_breaker_lets_try_again(gateway: Gateway, worker: Worker) -> None:
    """A second after its last failure the worker is asked again, not earlier, and goes on being asked."""
    await asked_again(gateway, worker)  # a check before this one may have left it open
    await close(gateway, worker)
    last = (await trip(gateway, worker)).failed[-1]
    answer, entry = await asked_again(gateway, worker)
    expect_success(answer)
    assert entry.received_at - last.received_at >= OPEN_S - EARLY_S
    await close(gateway, worker)


@breaker
@clause("codes.no_available_workers.breaker.opens_again")
async def test_a_breaker_opens_again(gateway: Gateway, worker: Worker) -> None:
    """When the first request that is tried fails, the next one is answered without the worker."""
    proof = (await trip(gateway, worker)).proof
    answer, _ = await asked_again(gateway, worker, wire.json(500, {"error": "scripted failure"}))
    expect_status(answer, 500)
    script = worker.script()
    expect_status(await gateway.chat(script), 503)
    await script.never_seen(because=proof)
