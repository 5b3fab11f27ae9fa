"""What the checks of admission share: requests that run, wait or are sent away, in an order that is proved.

Nothing here sleeps to let something happen. A request *runs* when its worker stands at the hold of its script. It
*waits* when the queue it went into is full because of it: there was a known number of places left, that many requests
went in, and the next one is sent away. Nothing here is a check.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from conformance.harness.bodies import OMIT, body_for
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, EMBEDDINGS
from fake_workers import wire
from fake_workers.errors import FakeWorkerError
from fake_workers.script import Chunk, End, Hold, Reply, Wire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from conformance.harness.client import Live
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Proof, Scripted, Worker
    from fake_workers.script import Step

GO = "go"
"""The hold at which the worker of every request stands until the check lets it go on."""
PRIORITY, TENANT = "x-smg-priority", "x-smg-tenant-id"
SHEDS = frozenset({429, 503})
PUBLIC = "/v1/models"
SERVED_BOUND_S = 10.0
QUEUE_BOUND_S = 10.0
HANGS_S = 1.0
LOOK_EVERY_S = 0.01
WINDOW_S = 0.3
"""For how long something must not happen to be believed that it does not."""


def held() -> Reply:
    """A worker that keeps silent until it is let go on, then answers."""
    return Reply(hold_before={-1: GO})


def held_stream() -> Reply:
    """A worker that says one piece, stops there until it is let go on, and ends its stream."""
    return Reply(pieces=["one ", "two"], hold_before={1: GO})


def held_embedding() -> Wire:
    """A worker that keeps silent until it is let go on, then answers with a vector."""
    entry = {"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return held_then(*wire.json(200, {"object": "list", "data": [entry], "model": "held", "usage": usage}).steps)


def held_then(*steps: Step) -> Wire:
    """A worker that keeps silent until it is let go on, then takes these steps."""
    return Wire(steps=[Hold(name=GO), *steps])


def held_open(*events: bytes) -> Wire:
    """A worker that sends these events and keeps its stream open behind them until it is let go on."""
    return Wire(steps=[wire.sse_head(), *(Chunk(data=event) for event in events), Hold(name=GO), End()])


@dataclass
class Guest:
    """One request that competes: its script, the exchange as it happens, and the task that reads the answer.

    The task reads nothing until `may_read` is set.
    """

    script: Scripted
    live: Live
    task: asyncio.Task[Exchange]
    may_read: asyncio.Event

    @property
    def done(self) -> bool:
        """Whether its answer has ended (or the client has left)."""
        return self.task.done()

    @property
    def exchange(self) -> Exchange:
        """What has come so far."""
        return self.live.exchange

    async def answer(self, within_s: float = SERVED_BOUND_S) -> Exchange:
        """Its answer, complete; Disproved when it does not come in time."""
        await asyncio.wait({self.task}, timeout=within_s)
        if not self.task.done():
            raise Disproved("no answer", f"no complete answer within {within_s:g} s: {self.exchange.brief()}")
        return self.task.result()

    async def go_on(self) -> None:
        """Let its worker go on."""
        await self.script.release(GO)

    async def finish(self) -> Exchange:
        """Let its worker go on, and its answer, which must be a success."""
        await self.go_on()
        answer = await self.answer()
        if answer.status != 200 or not answer.closed_cleanly:
            raise Disproved("an admitted request is not served", f"expected 200 to its end: {answer.brief()}")
        return answer

    async def began(self, wanted: bytes = b"data:", within_s: float = SERVED_BOUND_S) -> None:
        """Wait until the client has this much of the body; Disproved when it does not come."""
        deadline = time.monotonic() + within_s
        while wanted not in self.exchange.body:
            if self.done or time.monotonic() > deadline:
                raise Disproved("bytes did not arrive", f"{wanted!r} did not arrive: {self.exchange.brief()}")
            await asyncio.sleep(LOOK_EVERY_S)

    async def runs(self, within_s: float = SERVED_BOUND_S) -> bool:
        """Whether its worker arrives at the hold in that time; False at once when it is answered instead."""
        deadline = time.monotonic() + within_s
        while not self.done and (left := deadline - time.monotonic()) > 0:
            if await self.script.reached(GO, within_s=min(left, 0.1)):
                return True
        return False

    async def must_run(self, why: str, within_s: float = SERVED_BOUND_S) -> None:
        """Disproved (of the kind `why`) when no worker has it in time."""
        if not await self.runs(within_s):
            raise Disproved(why, f"{why}: not at a worker within {within_s:g} s: {self.exchange.brief()}")

    async def must_wait(self, why: str, for_s: float = WINDOW_S) -> None:
        """Disproved (of the kind `why`) when a worker gets it, or it is answered, within that time."""
        if await self.runs(for_s):
            raise Disproved(why, f"{why}: a worker has it, and it should still be waiting")
        if self.done:
            raise Disproved(why, f"{why}: it should still be waiting: {self.exchange.brief()}")

    def leave(self) -> None:
        """The client goes away, as one that is killed."""
        self.live.abort()


class Crowd:
    """All requests of one check. When the block ends, every one of them is let go on, left, and seen to be over.

    Keyword arguments of the methods: `says` is the priority class a request asks for, `tenant` the tenant its header
    names, `key` its API key, `path` its route, `http2` whether it goes in HTTP/2, `answers` what its worker does;
    everything else is laid over the ordinary body.
    """

    def __init__(self, gateway: Gateway, worker: Worker, *, tenant_header: str = TENANT) -> None:
        self.gateway = gateway
        self.worker = worker
        self.guests: list[Guest] = []
        self.after = AsyncExitStack()
        self._tenant_header = tenant_header

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for guest in self.guests:
            guest.leave()
        for guest in self.guests:
            with suppress(FakeWorkerError):
                await guest.go_on()
        # What is over at the worker is over in the gateway a moment later; `run` has patience for that moment.
        await self.after.aclose()

    # -- one request

    async def send(
        self,
        *,
        answers: Sequence[Reply | Wire] = (),
        says: str | None = None,
        tenant: str | None = None,
        key: Any = OMIT,
        path: str = CHAT,
        http2: bool = False,
        reads: bool = True,
        receive_buffer: int | None = None,
        **fields: Any,
    ) -> Guest:
        """Send one and return when its last byte is written; nothing is said about what becomes of it.

        With `reads` false the client does not read before it is told to; `receive_buffer` is what the system reads for
        it, in bytes.
        """
        ordinary = held_embedding() if path == EMBEDDINGS else held_stream() if fields.get("stream") else held()
        script = self.worker.script(*(answers or [ordinary]))
        headers = [*([(PRIORITY, says)] if says else []), *([(self._tenant_header, tenant)] if tenant else [])]
        body = body_for(path, self.gateway.model, script.prompt, fields)
        opening = self.gateway.open("POST", path, body, headers, key=key, receive_buffer=receive_buffer, http2=http2)
        live = await self.after.enter_async_context(opening)
        may_read = asyncio.Event()
        if reads:
            may_read.set()
        task = asyncio.create_task(_read(live, may_read))
        self.after.push_async_callback(_over, task)
        guest = Guest(script, live, task, may_read)
        self.guests.append(guest)
        await live.written()
        return guest

    async def run(self, **how: Any) -> Guest:
        """Send one that has a free slot, and return when its worker stands at the hold.

        A slot that a check before this one had may need a moment to be free, so a refusal is no failure at once.
        """
        deadline = time.monotonic() + SERVED_BOUND_S
        while True:
            guest = await self.send(**how)
            if await guest.runs():
                return guest
            if not guest.done or guest.exchange.status not in SHEDS or time.monotonic() > deadline:
                guest.leave()
                raise Disproved("no free slot", f"a slot should be free, and is not: {guest.exchange.brief()}")
            await asyncio.sleep(5 * LOOK_EVERY_S)

    async def fill(self, slots: int, **how: Any) -> list[Guest]:
        """Take so many slots, one after the other."""
        return [await self.run(**how) for _ in range(slots)]

    # -- waiting

    async def queue(self, places: int = 1, *, next_says: str | None = None, **how: Any) -> list[Guest]:
        """Let so many wait. There must be as many places left in their queue: that the next is sent away is the proof.

        `next_says` is the class the next one asks for, when it is another than theirs.
        """
        probe = {**how, "says": next_says or how.get("says")}
        deadline = time.monotonic() + QUEUE_BOUND_S
        while True:
            guests = [await self.send(**how) for _ in range(places)]
            # A head start, so that the next is rarely the first to get a place; when it is, all begin anew.
            await self.gateway.get(PUBLIC)
            beyond = await self.send(**probe)
            await asyncio.wait({beyond.task}, timeout=HANGS_S)
            if beyond.done:
                if beyond.exchange.status not in SHEDS:
                    raise Disproved("not refused", f"the queue is full, and the next: {beyond.exchange.brief()}")
                if not any(guest.done for guest in guests):
                    return guests
            became = ", ".join(str(guest.exchange.status or guest.exchange.outcome) for guest in (*guests, beyond))
            for guest in (beyond, *guests):
                guest.leave()
            await asyncio.sleep(5 * LOOK_EVERY_S)
            if time.monotonic() > deadline:
                raise Disproved(
                    "another number of places",
                    f"{places} should wait and the next be refused; what became of them: {became}",
                )

    async def line_up(
        self, running: list[Guest], *, newer: dict[str, Any] | None = None, **how: Any
    ) -> tuple[Guest, Guest]:
        """Two that wait, the first known to have waited before the other came; there must be two places for them.

        One of those running ends for it, and another runs in its place. `newer` is what the second one is besides.
        """
        waiting = await self.queue(2, **how)
        # Which of these came first is not known, so it is left to the gateway; who comes after the one left is newer.
        await running.pop(0).finish()
        running.append(await self.next_to_run(waiting))
        (older,) = [guest for guest in waiting if guest is not running[-1]]
        return older, (await self.queue(1, **{**how, **(newer or {})}))[0]

    async def in_turn(self, running: list[Guest], steps: int, **how: Any) -> None:
        """Let one after the other end, and see that of two that wait the older one is next; Disproved otherwise."""
        older, newer = await self.line_up(running, **how)
        for _ in range(steps):
            # The one just admitted may be of a lower class, but nobody here may preempt it.
            await running.pop(0).finish()
            running.append(await self.next_to_run([older, newer]))
            if running[-1] is not older:
                raise Disproved("not first come, first served", "a request that came later was served earlier")
            older, (newer,) = newer, await self.queue(1, **how)

    async def next_to_run(self, waiting: Sequence[Guest]) -> Guest:
        """The first of those waiting whose worker gets it; Disproved when none does."""
        deadline = time.monotonic() + SERVED_BOUND_S
        while time.monotonic() < deadline:
            for guest in waiting:
                if await guest.runs(0.02):
                    return guest
            if answered := [guest for guest in waiting if guest.done]:
                raise Disproved("sent away while waiting", answered[0].exchange.brief())
        raise Disproved("nobody moves up", f"a slot is free, and none of {len(waiting)} waiting requests gets it")

    async def judged(self, guest: Guest) -> Exchange:
        """The answer that the check is about; it comes last among the exchanges, so that a failure tells of it."""
        answer = await guest.answer()
        self.gateway.exchanges.remove(answer)
        self.gateway.exchanges.append(answer)
        return answer

    async def proof(self, **how: Any) -> Proof:
        """Proof that an ordinary request reaches a worker, once there is a slot for it."""
        await (await self.run(**how)).finish()
        return await self.gateway.proof(self.worker, CHAT, {})


async def _read(live: Live, may_read: asyncio.Event) -> Exchange:
    """The whole exchange, read when it may be."""
    await may_read.wait()
    return await live.rest()


async def _over(task: asyncio.Task[Exchange]) -> None:
    """Wait for a reading task that has been left."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def left_or_done(guests: Sequence[Guest]) -> Guest:
    """The first of these that is answered, or whose connection is closed; Disproved when none is."""
    await asyncio.wait({guest.task for guest in guests}, timeout=SERVED_BOUND_S, return_when=asyncio.FIRST_COMPLETED)
    for guest in guests:
        if guest.done:
            return guest
    raise Disproved("nobody preempted", f"none of {len(guests)} running requests made room")
