"""Vices that only show when many requests are served at once, or when a client is slow: a single check sees none."""

from __future__ import annotations

import asyncio
import re
from time import monotonic
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import dumps, loads, streaming
from tests.mutants.vice import Mutant, Vice, swap
from tests.mutants.vices.sheds import ask_a_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from reference_server.workers.exchange import UpstreamRequest

LIMITER = "reference_server.admission.limiter:Limiter"
DISPATCH = "reference_server.pipeline:dispatch"
WITH_PINGS = "reference_server.stages.relay:with_pings"
TEXT = re.compile(rb'"content":"[^"]')
SLOW_S = 0.02
SOON_S = 0.1
LATE_S = 1.0
_OPEN: list[None] = []
_LAST = [b""]
_LAST_AT = [0.0]
_LATE: set[asyncio.Future[None]] = set()


async def _whole_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events of a stream, one at a time; at last what is left."""
    held = b""
    async for piece in pieces:
        held += piece
        while found := re.search(rb"\n\n", held):
            yield held[: found.end()]
            held = held[found.end() :]
    if held:
        yield held


def _crowded(edit: Callable[[bytes], bytes], above: int) -> Vice:
    """Events that are edited while more than so many streams are open."""

    async def transform(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Count the streams, and edit."""
        _OPEN.append(None)
        try:
            async for event in _whole_events(pieces):
                yield edit(event) if len(_OPEN) > above else event
        finally:
            _OPEN.pop()

    return streaming(transform)


def _one_more_token(event: bytes) -> bytes:
    if b'"completion_tokens"' not in event:
        return event
    value = loads(event[len(b"data: ") :])
    value["usage"]["completion_tokens"] = int(float(value["usage"]["completion_tokens"])) + 1
    return b"data: " + dumps(value) + b"\n\n"


def _swapped(event: bytes) -> bytes:
    """The text event that came last, of whatever stream, in place of this one."""
    if TEXT.search(event) is None:
        return event
    last, _LAST[0] = _LAST[0], event
    return last or event


def _torn(event: bytes) -> bytes:
    """An event with another one inside of it."""
    if TEXT.search(event) is None:
        return event
    last, _LAST[0] = _LAST[0], event
    return event[:40] + last + event[40:]


async def _asked_twice(original: Any, this: Any, outgoing: UpstreamRequest, workers: Any) -> Any:
    """Whoever comes soon after another one is asked for twice; the answer that is too much is let go."""
    soon, _LAST_AT[0] = monotonic() - _LAST_AT[0] < SOON_S, monotonic()
    if soon:
        spare = await workers.dispatch(outgoing)
        await spare.aclose()
    return await original(this, outgoing, workers)


async def _served_later(original: Any, this: Any, endpoint: Any, state: Any) -> Any:
    """Who leaves the queue keeps the place in it, and is sent to a worker when its turn has come."""
    try:
        return await original(this, endpoint, state)
    except asyncio.CancelledError:
        if this.permit is None:
            late = asyncio.ensure_future(_in_a_while(this, endpoint, state))
            _LATE.add(late)
            late.add_done_callback(_LATE.discard)
        raise


async def _in_a_while(this: Any, endpoint: Any, state: Any) -> None:
    await asyncio.sleep(LATE_S)
    await ask_a_worker(this, endpoint, state)


async def _done_too_early(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream whose client was slow ends with its last two events the other way round."""
    held, slow = b"", False
    async for event in _whole_events(pieces):
        first, second = (event, held) if slow and b"[DONE]" in event else (held, event)
        began = monotonic()
        if first:
            yield first
        slow |= monotonic() - began > SLOW_S
        held = second
    yield held


def _opens_when_many_wait(original: Any, limiter: Any) -> bool:
    return bool(original(limiter)) or (limiter.waiting > 1 and limiter.inside <= limiter._limit)


def _arrives_at_a_short_queue(original: Any, limiter: Any, now: float) -> Any:
    """Three places of the queue are one as soon as somebody waits."""
    limiter._queue_size, size = (
        (limiter._queue_size - 2 if limiter.waiting else limiter._queue_size),
        limiter._queue_size,
    )
    try:
        return original(limiter, now)
    finally:
        limiter._queue_size = size


def _pinged_late(original: Any, body: Any, interval_s: float) -> Any:
    """A crowd of silent streams shares one timer, which takes its time."""

    async def pinged() -> AsyncIterator[bytes]:
        """Count the streams."""
        _OPEN.append(None)
        try:
            async for piece in original(body, interval_s * (1.6 if len(_OPEN) > 3 else 1.0)):
                yield piece
        finally:
            _OPEN.pop()

    return pinged()


CROWDED = (
    Mutant(
        "counts_wrong_in_a_crowd",
        "Usage is one token too many while two streams or more are open.",
        ("chat.usage.stream.whole_request",),
        _crowded(_one_more_token, above=1),
    ),
    Mutant(
        "swaps_events_in_a_crowd",
        "While more than three streams are open, each gets the text event that came before, whose ever it was.",
        ("chat.stream.relay.own_events",),
        _crowded(_swapped, above=3),
    ),
    Mutant(
        "tears_frames_in_a_crowd",
        "While more than three streams are open, another event comes inside an event.",
        ("chat.stream.framing",),
        _crowded(_torn, above=3),
    ),
    Mutant(
        "asks_twice_in_a_crowd",
        "A request that comes soon after another one goes to the workers twice.",
        ("chat.response.one_dispatch",),
        swap(DISPATCH, _asked_twice),
    ),
    Mutant(
        "ends_too_early_for_slow_clients",
        "[DONE] comes before the last chunk when the client was slow.",
        ("chat.stream.done.last",),
        streaming(_done_too_early),
    ),
    Mutant(
        "lets_one_more_in_when_many_wait",
        "The limit is one more as soon as two wait.",
        ("admission.limit.respected",),
        swap(f"{LIMITER}._is_open", _opens_when_many_wait),
    ),
    Mutant(
        "sheds_with_places_left",
        "The queue is two places shorter as soon as somebody waits in it.",
        ("rate_limiting.admission_queue_full.when_full",),
        swap(f"{LIMITER}.arrive", _arrives_at_a_short_queue),
    ),
    Mutant(
        "serves_leavers_later",
        "Who leaves the queue goes to a worker a second later.",
        ("admission.queue.disconnect_not_dispatched",),
        swap("reference_server.pipeline:serve", _served_later),
    ),
    Mutant(
        "pings_late_in_a_crowd",
        "Pings come later when more than three streams are open.",
        ("chat.stream.keepalive.interval",),
        swap(WITH_PINGS, _pinged_late),
    ),
)
