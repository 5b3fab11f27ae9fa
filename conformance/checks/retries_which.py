"""What is tried again: passing trouble of a worker, and nothing else.

A script's first answer goes to the first attempt and its second to the next, so what the client gets says which attempt
answered, and the journal says how many there were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import COMPLETION, each_path, expect_equal, expect_status, send
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Close, Hold, Reply, Reset, Wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted, Worker

TROUBLE = {"error": {"message": "not now", "type": "scripted", "param": None, "code": "of_the_worker"}}


def mended(worker: Worker, first: Wire) -> Scripted:
    """A script whose first attempt fails and whose next one succeeds."""
    return worker.script(first, Reply())


async def expect_mended(answer: Exchange, script: Scripted) -> None:
    """The client sees the success of the second attempt, and there was no third."""
    expect_status(answer, 200)
    expect_equal("another number of attempts", len(await script.received(2)), 2)


async def expect_final(answer: Exchange, script: Scripted, status: int) -> None:
    """The client sees the first attempt's answer, and there was no other attempt."""
    expect_status(answer, status)
    await script.only()


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
@clause("retries.passing_trouble")
async def test_passing_trouble_is_tried_again(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker that is busy, timed out or cut off itself is asked again, and its success is the client's."""
    script = mended(worker, wire.json(status, TROUBLE))
    await expect_mended(await gateway.chat(script), script)


@each_path("completions", "embeddings")
@clause("retries.every_route")
async def test_every_route_tries_again(gateway: Gateway, worker: Worker, path: str) -> None:
    """Completions and embeddings are tried again as chat completions are."""
    script = mended(worker, wire.json(503, TROUBLE))
    await expect_mended(await send(gateway, path, script), script)


@pytest.mark.parametrize("status", [429, 503])
@clause("retries.streams")
async def test_a_stream_is_tried_again(gateway: Gateway, worker: Worker, status: int) -> None:
    """Who asked for a stream gets that of the second attempt, whole."""
    script = mended(worker, wire.json(status, TROUBLE))
    chat = await gateway.chat(script, stream=True)
    await expect_mended(chat, script)
    assert chat.ended_with_done


@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
@clause("retries.no_answer")
async def test_a_worker_that_hangs_up_is_tried_again(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A worker that ends the connection without an answer is asked again."""
    script = mended(worker, Wire(steps=[end]))
    await expect_mended(await gateway.chat(script), script)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 418, 422, 451, 499])
@clause("retries.not_for_refusals")
async def test_a_refusal_is_final(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker that refuses the request is not asked again: it would refuse it once more."""
    script = mended(worker, wire.json(status, TROUBLE))
    await expect_final(await gateway.chat(script), script, status)


@pytest.mark.parametrize("status", [501, 505, 507, 520, 529, 599])
@clause("retries.not_for_other_failures")
async def test_other_failures_are_final(gateway: Gateway, worker: Worker, status: int) -> None:
    """A server error that does not say that it will pass is the client's."""
    script = mended(worker, wire.json(status, TROUBLE))
    await expect_final(await gateway.chat(script), script, status)


@pytest.mark.parametrize("status", [200, 201])
@clause("retries.not_for_answers")
async def test_an_answer_is_final(gateway: Gateway, worker: Worker, status: int) -> None:
    """A success is no reason to ask again."""
    script = mended(worker, wire.json(status, COMPLETION))
    await expect_final(await gateway.chat(script), script, status)


@clause("retries.internal_error_same_worker")
async def test_an_internal_error_is_final_at_a_lonely_worker(gateway: Gateway, worker: Worker) -> None:
    """A 500 of the only worker of a model is the client's: the same worker would most likely fail again."""
    script = mended(worker, wire.json(500, TROUBLE))
    await expect_final(await gateway.chat(script), script, 500)


@clause("retries.internal_error_other_worker")
async def test_an_internal_error_is_tried_elsewhere(gateway: Gateway, worker: Worker) -> None:
    """A 500 of one of two workers is answered by the other."""
    script = mended(worker, wire.json(500, TROUBLE))
    await expect_mended(await gateway.chat(script), script)
    first, second = await script.received(2)
    assert first.worker != second.worker


@pytest.mark.parametrize("others", [0, 1, 2])
@clause("retries.prefers_another_worker")
async def test_another_worker_is_preferred(gateway: Gateway, worker: Worker, others: int) -> None:
    """The second attempt goes to the worker that has not failed, however many requests came between the two."""
    script = worker.script(Wire(steps=[Hold(name="failing"), *wire.json(503, TROUBLE).steps]), Reply())
    async with gateway.open_chat(script) as live:
        assert await script.reached("failing")
        for _ in range(others):  # whoever takes the workers in turn has moved on by so many places
            expect_status(await gateway.chat(worker.script()), 200)
        await script.release("failing")
        await expect_mended(await live.rest(), script)
    first, second = await script.received(2)
    assert first.worker != second.worker


@clause("retries.dead_worker")
async def test_a_dead_worker_is_replaced(gateway: Gateway) -> None:
    """While one of two workers takes no connections, each of six requests is answered by the other."""
    model = own_model()
    async with own_fleet(model, model) as fleet, Registry(gateway) as registry:
        for url in fleet.urls:
            await registry.add(url)
        expect_status(await registry.chat(model), 200)
        await fleet.workers["own0"].set_listening(listening=False)
        for _ in range(6):
            expect_status(await registry.chat(model), 200)


@clause("retries.disabled")
async def test_retries_can_be_disabled(gateway: Gateway, worker: Worker) -> None:
    """With retries switched off, the first failure is the client's."""
    script = mended(worker, wire.json(503, TROUBLE))
    await expect_final(await gateway.chat(script), script, 503)
