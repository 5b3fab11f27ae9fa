"""Vices of queues and of what surrounds them: places, rates, routes under the scheduler, slots that come and go."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from reference_server.admission.priority import PriorityClass
from reference_server.admission.tickets import Place, Ticket, Verdict
from tests.mutants.vice import add, both, swap
from tests.mutants.vices.admission import ADMIT, LIMITER, SERVE
from tests.mutants.vices.retries import ATTEMPT
from tests.mutants.vices.scheduler import PREEMPTED, PREFIX, SCHEDULER
from tests.mutants.vices.slots import _slots, frees_early

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.call import Call

QUEUE = "admission.queue"
FIRST_OF_CLASS = "reference_server.admission.scheduler:_first"


# -- places


def _place_kept(original: Any, self: Any, ticket: Any, now: float) -> None:
    if ticket.place is not Place.WAITING:
        original(self, ticket, now)


def _ghost(original: Any, self: Any, ticket: Any, now: float) -> None:
    """Who waits and leaves stays in the queue, and is seen to be gone at its head only."""
    if ticket.place is Place.WAITING:
        ticket.place = Place.GONE
        self.advance(now)
    else:
        original(self, ticket, now)


def _living(_original: Any, queue: dict[Any, None]) -> Any:
    """The first of a class, those thrown away that have gone."""
    while queue and (first := next(iter(queue))).place is Place.GONE:
        del queue[first]
    return next(iter(queue), None)


add(
    "scheduler_keeps_places_of_leavers",
    "With the scheduler, who leaves the queue keeps the place.",
    (f"{PREFIX}.queue.released_on_disconnect",),
    swap(f"{SCHEDULER}.leave", _place_kept),
)
add(
    "scheduler_keeps_places_behind_the_head",
    "With the scheduler, who leaves the queue keeps the place until its turn has come.",
    (f"{PREFIX}.queue.released_on_disconnect",),
    both(swap(f"{SCHEDULER}.leave", _ghost), swap(FIRST_OF_CLASS, _living)),
)


def _late_counted(original: Any, self: Any) -> Any:
    verdicts = original(self)
    ghosts = self.__dict__.setdefault("ghosts", dict.fromkeys(PriorityClass, 0))
    for ticket, verdict in verdicts:
        ghosts[ticket.level] += verdict is Verdict.LATE
    return verdicts


def _fewer_places(original: Any, self: Any, level: Any) -> int:
    size: int = original(self, level)
    return max(0, size - self.__dict__.get("ghosts", {}).get(level, 0))


add("scheduler_keeps_places_of_the_late", "With the scheduler, who waited too long keeps the queue place.", (f"{PREFIX}.queue.place_freed_by_timeout",),
    both(swap(f"{SCHEDULER}.take", _late_counted), swap(f"{SCHEDULER}.queue_size", _fewer_places)))  # fmt: skip


def _last_of_two(original: Any, self: Any) -> Any:
    """The last, but only when two or more wait and somebody has been served before."""
    served = self.__dict__.setdefault("served", 0)
    self.__dict__["served"] = served + 1
    return next(reversed(self._waiting)) if len(self._waiting) > 1 and served % 4 == 3 else original(self)


add(
    "serves_the_last_now_and_then",
    "Of several that wait the last is served first now and then.",
    (f"{QUEUE}.fifo",),
    swap(f"{LIMITER}._first", _last_of_two),
)


# -- slots


async def _at_first_byte(this: Call, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give back at the first piece."""
    async for piece in body:
        if this.permit is not None:
            this.permit.release()
        yield piece


add(
    "frees_at_the_first_byte",
    "The slot of a stream is given back when its first byte goes out.",
    _slots("until_stream_ends", "until_delivered"),
    frees_early(_at_first_byte),
)


async def _twice_for_leavers(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
    """Serve; a client that leaves gives two slots back."""
    try:
        return await original(this, endpoint, state)
    except asyncio.CancelledError:
        core = getattr(state.admission, "_core", None)
        if this.permit is not None and isinstance(getattr(core, "_inside", None), int):
            core._inside -= 1
        raise


add(
    "frees_twice_for_leavers",
    "A client that leaves before its answer gives two slots back.",
    ("admission.slot.released_on_disconnect",),
    swap(SERVE, _twice_for_leavers),
)


ATTEMPTS: ContextVar[list[int] | None] = ContextVar("attempts", default=None)


class _Kept:
    """A permit that is lost when its request needed more than one attempt."""

    def __init__(self, permit: Any, attempts: list[int]) -> None:
        self._permit = permit
        self._attempts = attempts
        self.may_be_preempted = permit.may_be_preempted

    def first_byte(self) -> bool:
        """As of the real one."""
        return bool(self._permit.first_byte())

    def release(self) -> None:
        """Give back, unless there was a retry."""
        if len(self._attempts) < 2:
            self._permit.release()


async def _counting(_original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Admit, with a permit that counts attempts."""
    attempts: list[int] = []
    ATTEMPTS.set(attempts)
    this.permit = _Kept(await admission.acquire(this, caller), attempts)
    this.undo.callback(this.permit.release)


async def _counted(original: Any, *arguments: Any) -> Any:
    """An attempt, counted."""
    if (attempts := ATTEMPTS.get()) is not None:
        attempts.append(1)
    return await original(*arguments)


async def _released(original: Any, *arguments: Any) -> Any:
    """An attempt; from the second on the slot is not held any more."""
    attempts = ATTEMPTS.get()
    if attempts is not None:
        attempts.append(1)
        if len(attempts) == 2 and (early := EARLY.get()) is not None:
            early()
    return await original(*arguments)


EARLY: ContextVar[Any] = ContextVar("early", default=None)


async def _releasable(_original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Admit, and remember how to give the slot back."""
    ATTEMPTS.set([])
    this.permit = await admission.acquire(this, caller)
    EARLY.set(this.permit.release)
    this.undo.callback(this.permit.release)


add("loses_slots_of_repeated_requests", "The slot of a request that was tried again is lost.", ("admission.slot.after_retry",),
    both(swap(ADMIT, _counting), swap(ATTEMPT, _counted)))  # fmt: skip
add("frees_slots_at_a_retry", "The slot of a request is given back when it is tried again.", ("admission.slot.after_retry",),
    both(swap(ADMIT, _releasable), swap(ATTEMPT, _released)))  # fmt: skip


# -- the scheduler: workers, routes, rates

add(
    "counts_two_slots_at_most",
    "Workers that are added bring no slots.",
    (f"{PREFIX}.slots_follow_workers",),
    swap(f"{SCHEDULER}.resize", lambda original, self, capacity, now: original(self, min(capacity, 2), now)),
)


async def _chat_gives_way(original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Admit; whoever is no chat is safe at once."""
    await original(this, caller, admission)
    if this.path != "/v1/chat/completions" and this.permit is not None:
        this.permit.first_byte()


add(
    "only_chat_gives_way",
    "Completions and embeddings are never preempted.",
    (f"{PREEMPTED}.every_route",),
    swap(ADMIT, _chat_gives_way),
)


def _system_unrated(original: Any, self: Any, level: Any, now: float) -> Any:
    """Class system is held to no rate."""
    if level is not PriorityClass.SYSTEM:
        return original(self, level, now)
    kept, self._rate = self._rate, None
    try:
        return original(self, level, now)
    finally:
        self._rate = kept


add(
    "rates_no_system_requests",
    "Class system is held to no rate.",
    (f"{PREFIX}.request_rate.bounded",),
    swap(f"{SCHEDULER}.arrive", _system_unrated),
)


def _rate_refuses(original: Any, self: Any, now: float) -> Any:
    """Who finds no token is sent away, whatever room the queue has."""
    if self._rate is not None and not self._rate.ready(now):
        ticket = Ticket(now)
        self._verdicts.append((ticket, Verdict.FULL))
        return ticket
    return original(self, now)


add(
    "waits_for_no_rate",
    "Who comes faster than the rate is sent away though there is a queue.",
    ("admission.request_rate.queued",),
    swap(f"{LIMITER}.arrive", _rate_refuses),
)
add(
    "waits_without_a_rate",
    "Whoever waits for the rate is let in at once.",
    ("admission.request_rate.queued", "admission.request_rate.bounded"),
    swap("reference_server.admission.rate:RequestRate.ready", lambda _original, _self, _now: True),
)


def _pings_are_nothing(original: Any, self: Any, ticket: Any) -> bool:
    """The first byte does not save a request of class bulk."""
    kept = ticket.level is PriorityClass.BULK and ticket in self._victims[ticket.level]
    found: bool = original(self, ticket)
    if kept and found:
        self._victims[ticket.level][ticket] = None
    return found


add(
    "counts_pings_as_nothing",
    "A request is preempted though its client has had a keepalive.",
    (f"{PREEMPTED}.not_after_ping",),
    swap(f"{SCHEDULER}.first_byte", _pings_are_nothing),
)


async def _by_model(original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Admit; a model other than the first one has slots of its own, and always enough."""
    if b"conformance-vllm" in await this.body.read():
        await original(this, caller, admission)


async def _jumping(original: Any, self: Any, this: Call, caller: Any) -> Any:
    """Who waits and says system waits before all others."""
    waiting = asyncio.ensure_future(original(self, this, caller))
    await asyncio.sleep(0)
    queue = self._limiter._waiting
    if this.header("x-smg-priority") == "system" and not waiting.done() and len(queue) > 1:
        last = next(reversed(queue))
        rest = [ticket for ticket in queue if ticket is not last]
        queue.clear()
        queue.update(dict.fromkeys([last, *rest]))
    try:
        return await waiting
    except asyncio.CancelledError:
        waiting.cancel()
        raise


add("limits_models_apart", "Each model has slots of its own.", ("admission.limit.all_models",), swap(ADMIT, _by_model))
add(
    "lets_system_jump_the_queue",
    "Without the scheduler, class system is served before others all the same.",
    ("request_headers.priority.ignored_without_scheduler",),
    swap("reference_server.admission.desk:LimiterDesk.acquire", _jumping),
)
