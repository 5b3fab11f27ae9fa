"""The priority scheduler: who makes room for whom, and what becomes of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import GO, WINDOW_S, Crowd, left_or_done
from conformance.checks.admission_scenes import PLACES, SLOTS
from conformance.checks.routes_support import expect_status
from conformance.checks.stream_support import chunk, felt_after_s
from conformance.harness.errors import Disproved
from conformance.harness.marks import case, clause, engines
from fake_workers import wire
from fake_workers.script import Chunk, End, Hold, Reply, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Worker

SILENT = Reply(hold_before={-1: GO})
CANCELLED_BOUND_S = 1.0

scheduler = engines("sglang")  # an engine that says how many requests it runs at a time


@pytest.mark.parametrize("says", ["system", "interactive"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@scheduler
@clause("rate_limiting.scheduler_preempted.preemptor_served")
async def test_who_preempts_is_served(gateway: Gateway, worker: Worker, says: str, stream: bool) -> None:
    """With every slot taken by class bulk, which has said nothing yet, a higher class is dispatched and served."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="bulk", stream=stream, answers=[SILENT])
        preemptor = await crowd.send(says=says)
        await preemptor.must_run("nobody made room")
        await preemptor.finish()


@scheduler
@clause("rate_limiting.scheduler_preempted.worker_cancelled")
async def test_the_worker_of_the_preempted_is_told(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker's connection of the preempted request is closed, though its answer has not begun."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="bulk")
        preemptor = await crowd.send(says="system")
        victim = await left_or_done(running)
        entry = await victim.script.peer_left()
        assert felt_after_s(entry, preemptor.exchange.times.started) <= noise.allow(CANCELLED_BOUND_S)


@scheduler
@clause("rate_limiting.scheduler_preempted.one_victim")
async def test_one_arrival_costs_one_request(gateway: Gateway, worker: Worker) -> None:
    """Of two that could make room for one arrival, one does; the other is served, and no slot is added."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="bulk")
        preemptor = await crowd.send(says="system")
        await preemptor.must_run("nobody made room")
        victim = await left_or_done(running)
        (other,) = [guest for guest in running if guest is not victim]
        (waiting, _) = await crowd.queue(PLACES, says="default")
        await waiting.must_wait("more run than there are slots")
        await other.finish()
        await preemptor.finish()


@scheduler
@clause("rate_limiting.scheduler_preempted.before_first_token")
async def test_who_has_begun_is_left_alone(gateway: Gateway, worker: Worker) -> None:
    """Who has said nothing makes room for class system; whose client has the first token is served whole."""
    async with Crowd(gateway, worker) as crowd:
        silent = await crowd.run(says="bulk", stream=True, answers=[SILENT])
        speaking = await crowd.run(says="bulk", stream=True)
        await speaking.began()
        first = await crowd.send(says="system")
        await first.must_run("nobody made room")
        if await left_or_done([silent, speaking]) is speaking:
            raise Disproved("preempted after its first token", f"the one that spoke: {speaking.exchange.brief()}")
        second, _ = await crowd.queue(PLACES, says="system")
        await second.must_wait("more run than there are slots")
        answer = await speaking.finish()
        assert answer.ended_with_done
        assert (await speaking.script.only()).peer_closed_at is None
        await second.must_run("not served after waiting")


@pytest.mark.parametrize(
    ("runs", "arrives"),
    [
        case("rate_limiting.scheduler_preempted.lower_class_only", "system", "system"),
        case("rate_limiting.scheduler_preempted.lower_class_only", "system", "interactive"),
        case("rate_limiting.scheduler_preempted.lower_class_only", "interactive", "interactive"),
        case("rate_limiting.scheduler_preempted.may_preempt", "bulk", "default"),
        case("rate_limiting.scheduler_preempted.may_preempt", "default", "default"),
        case("rate_limiting.scheduler_preempted.lower_class_only", "default", "bulk"),
        case("rate_limiting.scheduler_preempted.lower_class_only", "bulk", "bulk"),
    ],
)
@scheduler
async def test_who_makes_room_for_nobody(gateway: Gateway, worker: Worker, runs: str, arrives: str) -> None:
    """They wait, as many as there are places, and those that run are served, though they have said nothing yet."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says=runs)
        waiting = await crowd.queue(PLACES, says=arrives)
        for guest in waiting:
            await guest.must_wait("dispatched over the limit", WINDOW_S / 2)
        for guest in running:
            await guest.finish()


@pytest.mark.parametrize(
    ("order", "victim"),
    [
        case("rate_limiting.scheduler_preempted.lowest_class", ("bulk", "default"), 0, name="older"),
        case("rate_limiting.scheduler_preempted.lowest_class", ("default", "bulk"), 1, name="newer"),
        case("rate_limiting.scheduler_preempted.most_recent", ("bulk", "bulk"), 1, name="same"),
        case("rate_limiting.scheduler_preempted.most_recent", ("interactive", "interactive"), 1, name="high"),
    ],
)
@scheduler
async def test_who_makes_room(gateway: Gateway, worker: Worker, order: tuple[str, str], victim: int) -> None:
    """It is the one of the lowest class, and among equals the one admitted last; the other is served."""
    async with Crowd(gateway, worker) as crowd:
        running = [await crowd.run(says=each) for each in order]
        await (await crowd.send(says="system")).must_run("nobody made room")
        if await left_or_done(running) is not running[victim]:
            raise Disproved("another one made room", f"of {' and '.join(order)}, in this order, the other made room")
        await running[1 - victim].finish()


@scheduler
@clause("rate_limiting.scheduler_preempted.never_empty_success")
async def test_no_empty_success(gateway: Gateway, worker: Worker) -> None:
    """One whose worker has sent a head but no token is told 503, or is served to its end: no 200 without content."""
    opened = Wire(
        steps=[wire.sse_head(), Hold(name=GO), Chunk(data=wire.event(chunk("one"))), Chunk(data=wire.DONE), End()]
    )
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="bulk", stream=True, answers=[opened])
        preemptor = await crowd.send(says="system")
        await preemptor.runs(WINDOW_S)
        for guest in running:
            await guest.go_on()
        for guest in running:
            answer = await crowd.judged(guest)
            if answer.status != 503:
                expect_status(answer, 200)
                if not answer.ended_with_done:
                    raise Disproved("an empty success", f"preempted, and told nothing of it: {answer.brief()}")
