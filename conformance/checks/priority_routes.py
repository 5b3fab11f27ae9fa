"""The priority scheduler beyond chat completions: all inference routes, what comes before it, and what resizes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import GO, PRIORITY, Crowd, left_or_done
from conformance.checks.admission_scenes import PLACES, SLOTS
from conformance.checks.keepalive_support import PATIENCE_S
from conformance.checks.routes_support import NOBODYS_MODEL, each_path, expect_code, expect_equal, expect_status
from conformance.checks.stream_support import stream_of
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause, engines
from fake_workers import wire
from fake_workers.script import Hold

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Worker

CODE, FULL = "scheduler_queue_full", 429
RATE_PERIOD_S = 1.0  # of configuration priority-rate, whose burst is SLOTS

scheduler = engines("sglang")  # an engine that says how many requests it runs at a time


@scheduler
@each_path("completions", "embeddings")
@clause("admission.scheduler.every_route")
async def test_every_route_needs_a_slot(gateway: Gateway, worker: Worker, path: str) -> None:
    """Requests of this route take the places of their class, are sent away when there is none, and are served."""
    async with Crowd(gateway, worker) as crowd:
        (first, _) = await crowd.fill(SLOTS, says="system")
        waiting = await crowd.queue(PLACES, says="bulk", path=path)
        answer = await (await crowd.send(says="bulk")).answer()
        expect_code(expect_status(answer, FULL), CODE)
        await first.finish()
        await (await crowd.next_to_run(waiting)).finish()


@scheduler
@each_path("completions", "embeddings")
@clause("rate_limiting.scheduler_preempted.every_route")
async def test_every_route_makes_room(gateway: Gateway, worker: Worker, path: str) -> None:
    """Requests of this route make room for class system chat, and its own of class system are made room for."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="bulk", path=path)
        preemptor = await crowd.send(says="system", path=path)
        await preemptor.must_run("nobody made room")
        victim = await left_or_done(running)
        await victim.script.peer_left()
        await preemptor.finish()


@pytest.mark.parametrize(
    "body", [b"{", {"temperature": 9}, {"model": NOBODYS_MODEL}], ids=["no-json", "field", "unknown-model"]
)
@scheduler
@clause("admission.scheduler.before_parse")
async def test_places_are_looked_at_first(gateway: Gateway, worker: Worker, body: dict[str, Any] | bytes) -> None:
    """While the queue of its class is full, a request with a wrong body is sent away for want of a place."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="system")
        await crowd.queue(PLACES, says="bulk")
        whole = body if isinstance(body, bytes) else gateway.chat_body(**body)
        expect_code(expect_status(await gateway.post(CHAT, whole, [(PRIORITY, "bulk")]), FULL), CODE)


@scheduler
@clause("admission.scheduler.slots_follow_workers")
async def test_slots_follow_the_workers(gateway: Gateway, worker: Worker) -> None:
    """A worker more is a slot more: one that waited is dispatched when it is added, and no second one."""
    own = own_fleet(own_model(), slots=1, engine="sglang")
    async with own as fleet, Registry(gateway) as registry, Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="system")
        waiting = await crowd.queue(PLACES, says="system")
        await registry.add(fleet.urls[0])
        served = await crowd.next_to_run(waiting)
        (other,) = [guest for guest in waiting if guest is not served]
        await other.must_wait("more run than there are slots")


@scheduler
@clause("rate_limiting.scheduler_preempted.not_after_ping")
async def test_who_was_pinged_is_left_alone(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Streams whose clients have had a keepalive, and nothing else, are served whole, though class system arrives."""
    silent = stream_of(Hold(name=GO), wire.DONE)
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="bulk", stream=True, answers=[silent])
        await asyncio.gather(*(guest.began(b": ping", noise.allow(PATIENCE_S)) for guest in running))
        waiting, _ = await crowd.queue(PLACES, says="system")
        await waiting.must_wait("more run than there are slots")
        for guest in running:
            if not (await guest.finish()).ended_with_done:
                raise Disproved("preempted after its first byte", f"not served whole: {guest.exchange.brief()}")
        await waiting.must_run("not served after waiting")


# -- requests a second


@scheduler
@clause("admission.scheduler.request_rate.refused")
async def test_the_rate_holds_with_the_scheduler(gateway: Gateway, worker: Worker) -> None:
    """Requests that end at once, but come faster than the rate, are sent away as if their class's queue were full."""
    answer = await _until_refused(gateway, worker)
    expect_code(answer, CODE)
    expect_equal("another Retry-After", answer.headers.get_all("retry-after"), ["2"])


@scheduler
@clause("admission.scheduler.request_rate.bounded")
async def test_the_rate_of_the_scheduler_is_kept(gateway: Gateway, worker: Worker) -> None:
    """Once one was refused, requests are served as fast as the rate allows, whatever their class, and no faster."""
    refused = await _until_refused(gateway, worker)
    served: list[Exchange] = []
    for number in range(200):
        answer = await gateway.chat(worker.script(), headers=[(PRIORITY, ("system", "bulk")[number % 2])])
        if answer.status == 200:
            served.append(answer)
            if len(served) == 2:
                break
        await asyncio.sleep(0.02)
    expect_equal("served after a refusal", len(served), 2)
    # One token may have come since the refusal; the next one takes a period.
    assert served[1].times.ended is not None
    assert served[1].times.ended - refused.times.started >= RATE_PERIOD_S


async def _until_refused(gateway: Gateway, worker: Worker) -> Exchange:
    """Send requests one after the other until one is refused; Disproved when none is."""
    for _ in range(4 * SLOTS):
        answer = await gateway.chat(worker.script())
        if answer.status != 200:
            return expect_status(answer, FULL)
    raise Disproved("not refused", f"{4 * SLOTS} requests in a row are served, where the rate is one a second")
