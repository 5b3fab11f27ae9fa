"""How long a slot is held, and that it comes back on every way out, exactly once.

Each check is run with the plain limit (configuration admission-queue) and with the priority scheduler (priority): the
two have as many slots and places, and the promises are the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import GO, WINDOW_S, Crowd, Guest, held, held_open, held_then
from conformance.checks.admission_scenes import PLACES, SLOTS, behind_each_door
from conformance.checks.routes_support import NOBODYS_MODEL, expect_status
from conformance.checks.stream_support import chunk
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Chunk, End, Hold, Reset, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted, Worker

DONE = b"data: [DONE]\n\n"
EVENT = wire.event(chunk("one"))
BIG_EVENT = wire.event(chunk("0123456789abcdef" * 8192))
TIMES = (12 << 20) // len(BIG_EVENT)
"""More than the sockets between gateway and client hold on an ordinary machine."""
SMALL_BUFFER_BYTES = 4096
READ_BOUND_S = 30.0
"""How long the suite's own reading of all this may take; on a machine without a free core, seconds."""
LEFT = "slot.released_on_disconnect"


@dataclass(frozen=True)
class WayOut:
    """How a request that has a slot ends: what its worker does, what is asked for, and who ends it.

    `clause` is the end of the clause's id, where it is not `slot.` and the name.
    """

    name: str
    answers: list[Any] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    leaves: bool = False
    clause: str = ""

    async def take(self, guest: Guest) -> None:
        """End the request in this way."""
        if self.fields.get("stream"):
            await guest.began()
        if self.leaves:
            guest.leave()
        else:
            await guest.go_on()


WAYS_OUT = (
    WayOut("after_answer", clause="slot.returned"),
    WayOut("after_stream", fields={"stream": True}),
    WayOut("after_worker_error", [held_then(*wire.json(500, {"error": {"message": "broken"}}).steps)]),
    WayOut("after_worker_refusal", [held_then(*wire.json(422, {"error": {"message": "no"}}).steps)]),
    WayOut("after_worker_death", [held_then(Reset())]),
    WayOut(
        "after_broken_stream",
        [Wire(steps=[wire.sse_head(), Chunk(data=EVENT), Hold(name=GO), Reset()])],
        {"stream": True},
    ),
    WayOut("after_disconnect_waiting", leaves=True, clause=LEFT),
    WayOut("after_disconnect_streaming", fields={"stream": True}, leaves=True, clause=LEFT),
)


@behind_each_door(**{way.name: way.clause or f"slot.{way.name}" for way in WAYS_OUT})
@pytest.mark.asyncio
async def test_the_slot_comes_back(gateway: Gateway, worker: Worker, way: str) -> None:
    """When the request ends in this way one that waited gets its slot, and only one."""
    way_out = next(each for each in WAYS_OUT if each.name == way)
    async with Crowd(gateway, worker) as crowd:
        staying = await crowd.run()
        ending = await crowd.run(answers=way_out.answers, **way_out.fields)
        waiting = await crowd.queue(PLACES)
        await way_out.take(ending)
        served = await crowd.next_to_run(waiting)
        (other,) = [guest for guest in waiting if guest is not served]
        await other.must_wait("one slot given back twice")
        await staying.finish()
        await other.must_run("not served after waiting")


@clause("admission.slot.after_retry")
async def test_the_slot_of_a_repeated_request(gateway: Gateway, worker: Worker) -> None:
    """While a request is tried again nobody gets its slot; when it is answered one that waited does, and only one."""
    busy = wire.json(503, {"error": {"message": "busy"}})
    async with Crowd(gateway, worker) as crowd:
        staying = await crowd.run()
        ending = await crowd.run(answers=[busy, busy, held()])
        assert len(await ending.script.received(3)) == 3
        waiting = await crowd.queue(PLACES)
        for guest in waiting:
            await guest.must_wait("dispatched over the limit", WINDOW_S / 2)
        await ending.finish()
        served = await crowd.next_to_run(waiting)
        (other,) = [guest for guest in waiting if guest is not served]
        await other.must_wait("one slot given back twice")
        await staying.finish()
        await other.must_run("not served after waiting")


@behind_each_door(after_bad_request="slot.after_bad_request", after_unknown_model="slot.after_unknown_model")
@pytest.mark.asyncio
async def test_a_refused_request_keeps_no_slot(gateway: Gateway, worker: Worker, way: str) -> None:
    """After more refused requests than there are slots, every slot can still be taken."""
    fields: dict[str, Any] = {"temperature": 9} if way == "after_bad_request" else {"model": NOBODYS_MODEL}
    async with Crowd(gateway, worker) as crowd:
        for _ in range(2 * SLOTS):
            expect_status(await gateway.chat(worker.script(), **fields), 404 if "model" in fields else 400)
        for guest in await crowd.fill(SLOTS):
            await guest.finish()


@pytest.mark.usefixtures("way")
@behind_each_door(until_stream_ends="slot.until_stream_ends")
@pytest.mark.asyncio
async def test_the_slot_is_held_to_the_end_of_the_stream(gateway: Gateway, worker: Worker) -> None:
    """While the worker's stream is open, be it behind [DONE], the slot is taken; at its end it is free."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.run()
        streaming = await crowd.run(answers=[held_open(EVENT, DONE)], stream=True)
        await streaming.began(b"[DONE]")
        waiting = await crowd.queue(PLACES)
        for guest in waiting:
            await guest.must_wait("slot given back before the stream's end")
        await streaming.go_on()
        await crowd.next_to_run(waiting)


@pytest.mark.usefixtures("way")
@behind_each_door(until_delivered="slot.until_delivered")
@pytest.mark.asyncio
async def test_the_slot_is_held_until_the_body_is_delivered(gateway: Gateway, worker: Worker) -> None:
    """While a client is slow to read its stream the slot is taken; when it has read everything the slot is free."""
    big = Wire(steps=[wire.sse_head(), Hold(name=GO), Chunk(data=BIG_EVENT, times=TIMES), Chunk(data=DONE), End()])
    async with Crowd(gateway, worker) as crowd:
        await crowd.run()
        slow = await crowd.run(answers=[big], stream=True, reads=False, receive_buffer=SMALL_BUFFER_BYTES)
        waiting = await crowd.queue(PLACES)
        await slow.go_on()
        await until_still(slow.script)
        for guest in waiting:
            await guest.must_wait("slot given back before the body was delivered")
        slow.may_read.set()
        await slow.answer(within_s=READ_BOUND_S)
        await crowd.next_to_run(waiting)


async def until_still(script: Scripted) -> None:
    """Wait until the worker is done, or twice in a row has got rid of nothing more."""
    taken, still = -1, 0
    for _ in range(20):
        entry = await script.only()
        now = sum(size for _, size in entry.sent)
        still = still + 1 if now == taken else 0
        if entry.completed_at is not None or still == 2:
            return
        taken = now
        await asyncio.sleep(WINDOW_S)
