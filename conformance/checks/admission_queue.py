"""Who leaves the queue, and that the place is another's then: with the plain limit and with the priority scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import Crowd
from conformance.checks.admission_scenes import PLACES, SLOTS, behind_each_door
from conformance.checks.routes_support import expect_code, expect_status
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@behind_each_door(newer="queue.released_on_disconnect", older="queue.released_on_disconnect")
@pytest.mark.asyncio
async def test_who_leaves_the_queue_frees_the_place(gateway: Gateway, worker: Worker, way: str) -> None:
    """When one that waits goes away, another can wait in its place, and is served in its turn."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        older, newer = await crowd.line_up(running)
        leaving, staying = (older, newer) if way == "older" else (newer, older)
        leaving.leave()
        (newcomer,) = await crowd.queue(1)
        for guest in running:
            await guest.finish()
        for guest in (staying, newcomer):
            await guest.must_run("not served after waiting")
            await guest.finish()


@pytest.mark.usefixtures("way")
@behind_each_door(leaves="queue.disconnect_not_dispatched")
@pytest.mark.asyncio
async def test_who_leaves_the_queue_is_never_dispatched(gateway: Gateway, worker: Worker) -> None:
    """A request whose client left while it waited never reaches a worker, though slots become free."""
    async with Crowd(gateway, worker) as crowd:
        proof = await crowd.proof()
        running = await crowd.fill(SLOTS)
        leaving, staying = await crowd.queue(PLACES)
        leaving.leave()
        await crowd.queue(1)  # its place is taken by another, so the gateway knows that it has left
        for guest in running:
            await guest.finish()
        await staying.must_run("not served after waiting")
        await leaving.script.never_seen(because=proof)


@clause("admission.queue.place_freed_by_timeout")
async def test_a_timed_out_place_is_free_again(gateway: Gateway, worker: Worker) -> None:
    """After one was sent away for waiting too long, another may wait in its place, and is served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.run()
        expect_status(await (await crowd.send()).answer(), 503)
        waiting = await crowd.send()
        await waiting.must_wait("no place to wait", 0.1)
        await running.finish()
        await waiting.must_run("not served after waiting")
        await waiting.finish()


@engines("sglang")
@clause("admission.scheduler.queue.place_freed_by_timeout")
async def test_a_timed_out_place_of_a_class_is_free_again(gateway: Gateway, worker: Worker) -> None:
    """After one of class bulk was sent away for waiting too long, another may wait in its place, and is served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.run(says="interactive")
        answer = await (await crowd.send(says="bulk")).answer()
        expect_code(expect_status(answer, 503), "scheduler_queue_timeout")
        waiting = await crowd.send(says="bulk")
        await waiting.must_wait("no place to wait", 0.1)
        await running.finish()
        await waiting.must_run("not served after waiting")
        await waiting.finish()
