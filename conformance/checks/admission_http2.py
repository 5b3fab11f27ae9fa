"""Slots, queues, preemption and budgets, for requests in HTTP/2: the same as for those in HTTP/1.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import Crowd
from conformance.checks.admission_scenes import PLACES, SCENES, SLOTS, behind_each_door
from conformance.checks.routes_support import ERROR_CODE, expect_code, expect_equal, expect_status
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.checks.admission_scenes import Scene
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

OVER_HTTP2 = ("full", "class-full", "preempted", "budget")
"""The scenes that are played in HTTP/2."""


@pytest.mark.parametrize(
    ("engine", "scene"),
    [
        case(
            f"rate_limiting.{scene.code}.http2",
            scene.engine,
            scene,
            name=scene.name,
            configuration=scene.configuration,
        )
        for scene in SCENES
        if scene.name in OVER_HTTP2
    ],
    indirect=["engine"],
)
@pytest.mark.asyncio
async def test_a_shed_in_http2(gateway: Gateway, worker: Worker, scene: Scene) -> None:
    """Who is sent away gets status, code, header fields and envelope in HTTP/2 too, not a reset."""
    async with Crowd(gateway, worker) as crowd:
        answer = await crowd.judged(await scene.play(crowd, http2=True))
        expect_status(answer, scene.status)
        expect_equal("another X-SMG-Error-Code", answer.headers.get_all(ERROR_CODE), [scene.code])
        if scene.retry_after is not None:
            expect_equal("another Retry-After", answer.headers.get_all("retry-after"), [scene.retry_after])
        if scene.code == "scheduler_preempted":
            expect_equal("another X-SMG-Preempted", answer.headers.get_all("x-smg-preempted"), ["true"])
        expect_code(answer, scene.code)


@behind_each_door(answered="http2.slot_returned", streamed="http2.slot_returned")
@pytest.mark.asyncio
async def test_a_slot_comes_back_in_http2(gateway: Gateway, worker: Worker, way: str) -> None:
    """Requests in HTTP/2 take the same slots: no more run than there are, and each ends with one for who waits."""
    stream = {"stream": True} if way == "streamed" else {}
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, http2=True, **stream)
        waiting = await crowd.queue(PLACES, http2=True)
        for guest in waiting:
            await guest.must_wait("dispatched over the limit")
        await running[0].finish()
        served = await crowd.next_to_run(waiting)
        (other,) = [guest for guest in waiting if guest is not served]
        await other.must_wait("one slot given back twice")
        await served.finish()
        await other.must_run("not served after waiting")


@behind_each_door(waiting="http2.slot_of_the_taken_back", streaming="http2.slot_of_the_taken_back")
@pytest.mark.asyncio
async def test_a_slot_of_a_request_taken_back(gateway: Gateway, worker: Worker, way: str) -> None:
    """A client that resets its stream, and keeps its connection, leaves its slot to one that waits."""
    stream = {"stream": True} if way == "streaming" else {}
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, http2=True, **stream)
        waiting = await crowd.queue(PLACES, http2=True)
        if way == "streaming":
            await running[0].began()
        running[0].leave()
        await (await crowd.next_to_run(waiting)).finish()


@clause("admission.http2.place_of_the_taken_back")
async def test_a_place_of_a_request_taken_back(gateway: Gateway, worker: Worker) -> None:
    """A client that resets its stream while it waits leaves its place to another."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, http2=True)
        leaving, staying = await crowd.queue(PLACES, http2=True)
        leaving.leave()
        waiting = [staying, *await crowd.queue(1, http2=True)]
        await running[0].finish()
        await (await crowd.next_to_run(waiting)).finish()


@clause("admission.http2.beside_http1")
async def test_both_versions_share_the_slots(gateway: Gateway, worker: Worker) -> None:
    """With every slot taken in HTTP/1.1 a request in HTTP/2 waits, and the other way round."""
    async with Crowd(gateway, worker) as crowd:
        for first in (True, False):
            running = await crowd.fill(SLOTS, http2=first)
            (waiting, other) = await crowd.queue(PLACES, http2=not first)
            await waiting.must_wait("dispatched over the limit", 0.15)
            for guest in (*running, waiting, other):
                await guest.go_on()
            for guest in (*running, waiting, other):
                expect_status(await guest.answer(), 200)
