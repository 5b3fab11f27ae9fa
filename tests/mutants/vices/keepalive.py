"""Vices of keepalives: none, too many, at the wrong moment, in the wrong place, or with consequences."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import streaming
from tests.mutants.vice import Front, Vice, add, both, swap

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from reference_server.answers import Answer
    from reference_server.call import Call

CORE = "reference_server.keepalive.core"
WITH_PINGS = "reference_server.stages.relay:with_pings"
SERVE = "reference_server.pipeline:serve"
PREFIX = "chat.stream.keepalive"
PING, DONE = b": ping\n\n", b"data: [DONE]\n\n"


def _clauses(*words: str) -> tuple[str, ...]:
    return tuple(f"{PREFIX}.{word}" for word in words)


def _interval(edit: Callable[[float], float]) -> Vice:
    """Another interval than the configured one."""
    return Vice(settings=lambda s: dataclasses.replace(s, sse_keepalive_s=edit(s.sse_keepalive_s)))


def _pings(transform: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> Vice:
    """The pieces of a pinged stream, pings among them, run through a transformation."""
    return swap(WITH_PINGS, lambda original, body, interval_s: transform(original(body, interval_s)))


def _boundary(judge: Callable[[Callable[[], bool], bytes], bool]) -> Vice:
    """Another opinion of where an event ends."""
    return swap(f"{CORE}:EventBoundary.reached", lambda original, self: judge(lambda: original(self), self._tail))


add(
    "never_pings",
    "A silent stream is left silent.",
    _clauses("ping", "interval", "before_first_token"),
    swap(WITH_PINGS, lambda _original, body, _interval_s: body),
)
add("never_pings_completions", "A silent completion is left silent.", ("completions.stream.keepalive",),
    swap(WITH_PINGS, lambda original, body, interval_s: original(body, 600.0 if interval_s == 1 else interval_s)))  # fmt: skip
add(
    "pings_every_fifteen_seconds",
    "The configured interval is not looked at.",
    _clauses("interval", "ping"),
    _interval(lambda interval_s: 15.0 if interval_s else 0),
)
add(
    "pings_late",
    "The interval is four times the configured one.",
    _clauses("interval"),
    _interval(lambda interval_s: 4 * interval_s),
)
add(
    "pings_every_half_second",
    "The interval is half a second.",
    _clauses("interval", "busy_stream"),
    _interval(lambda interval_s: 0.5 if interval_s == 1 else interval_s),
)
add(
    "pings_every_ten_seconds_by_default",
    "The default interval is ten seconds.",
    _clauses("default_interval"),
    _interval(lambda interval_s: 10.0 if interval_s == 15 else interval_s),
)
add(
    "pings_although_it_is_off",
    "Switched off, keepalives come at the default interval.",
    _clauses("off"),
    _interval(lambda interval_s: interval_s or 15.0),
)
add(
    "pings_anywhere",
    "Keepalives come wherever a stream stands.",
    _clauses("between_events"),
    _boundary(lambda _reached, _tail: True),
)
add(
    "takes_line_ends_for_boundaries",
    "The end of a line is taken for the end of an event.",
    _clauses("between_events"),
    _boundary(lambda _reached, tail: tail.endswith(b"\n")),
)
add(
    "knows_one_kind_of_line_end",
    "Only two line feeds end an event.",
    _clauses("crlf"),
    _boundary(lambda _reached, tail: tail.endswith(b"\n\n")),
)
add("waits_for_the_first_event", "Before the first event there is no keepalive.", _clauses("before_first_token"),
    swap(f"{CORE}:EventBoundary.__init__", lambda _original, self: setattr(self, "_tail", b"")))  # fmt: skip
add("pings_by_the_clock", "Keepalives come each second, whatever else comes.", _clauses("busy_stream"),
    swap(f"{CORE}:Keepalive.sent", lambda _original, self, data, _now: self._boundary.feed(data)))  # fmt: skip
add("pings_in_a_flood", "Behind the first keepalive others follow at once.", _clauses("a_ping_ends_the_silence"),
    swap(f"{CORE}:Keepalive.pinged", lambda _original, self, now: setattr(self, "_last_sent_at", now - 0.9 * self._interval_s)))  # fmt: skip


async def _once(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """One keepalive a stream."""
    seen = False
    async for piece in pieces:
        if piece != PING or not seen:
            yield piece
        seen = seen or piece == PING


async def _named(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A keepalive comes with a field."""
    async for piece in pieces:
        yield piece + b"retry: 1000\n\n" if piece == PING else piece


async def _data_behind_done(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Behind [DONE] keepalives are events."""
    done = False
    async for piece in pieces:
        yield b"data: {}\n\n" if done and piece == PING else piece
        done = done or DONE in piece


async def _without_usage(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Behind a keepalive the chunk with the usage is lost."""
    pinged = False
    async for piece in pieces:
        pinged = pinged or piece == PING
        if not pinged or b'"usage":{' not in piece.replace(b" ", b""):
            yield piece
        elif DONE in piece:
            yield DONE


async def _forgiving(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Behind a keepalive a break is an end."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    pinged = False
    try:
        async for piece in pieces:
            pinged = pinged or piece == PING
            yield piece
    except GatewayError:
        if not pinged:
            raise


async def _slow_to_leave(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Nobody notices that the client has gone until the next keepalive would be due."""
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    async def pump() -> None:
        async for piece in pieces:
            await waiting.put(piece)
        await waiting.put(None)

    pumping = asyncio.ensure_future(pump())
    try:
        while (piece := await waiting.get()) is not None:
            yield piece
        pumping.cancel()
    finally:
        if not pumping.done():
            await asyncio.sleep(0.8)
            pumping.cancel()
        await asyncio.gather(pumping, return_exceptions=True)


for _name, _about, _breaks, _transform in (
    ("pings_once", "A silence gets one keepalive.", _clauses("repeats"), _once),
    ("adds_a_field_to_pings", "A keepalive comes with a field.", _clauses("bytes"), _named),
    ("sends_events_behind_done", "Behind [DONE] keepalives are events.", _clauses("after_done"), _data_behind_done),
    ("loses_usage_behind_pings", "Behind a keepalive the usage is lost.", _clauses("events_unchanged"), _without_usage),
    ("forgives_breaks_behind_pings", "A stream that breaks behind a keepalive ends well.", _clauses("break_visible"), _forgiving),
    ("keeps_workers_of_pinged_streams", "A client that leaves is noticed when a keepalive is due.", _clauses("disconnect"), _slow_to_leave),
):  # fmt: skip
    add(_name, _about, _breaks, _pings(_transform))


async def _until_silent(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, with a ping for each second without one, wherever the body stands."""
    source = aiter(pieces)
    coming: asyncio.Future[bytes] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({coming}, timeout=1.0)
            if not done:
                yield PING
                continue
            found, coming = coming, None
            try:
                yield found.result()
            except StopAsyncIteration:
                return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


def _early(*, streams: bool) -> Vice:
    """Who waits for half a second is sent an answer that has begun, whatever comes of it."""

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Answer:
        from reference_server.answers import Answer  # noqa: PLC0415 - the list of mutants needs no server

        answering = asyncio.ensure_future(original(this, endpoint, state))
        await asyncio.wait({answering}, timeout=0.5)
        if answering.done() or streams is not (b'"stream":true' in await this.body.read()):
            found: Answer = await answering
            return found
        media_type = "text/event-stream" if streams else "application/json"
        return Answer(200, [("content-type", media_type)], _until_silent(_body_of(answering)))

    return swap(SERVE, serve)


async def _body_of(answering: asyncio.Future[Answer]) -> AsyncGenerator[bytes]:
    answer = await answering
    if isinstance(answer.body, bytes):
        yield answer.body
        return
    async for piece in answer.body:
        yield piece


def _json_too(original: Any, self: Any) -> bool:
    return bool(original(self)) or any(
        name.lower() == "content-type" and "json" in value for name, value in self.headers
    )


add(
    "opens_streams_early",
    "A stream is begun before the worker has answered.",
    _clauses("not_before_head"),
    _early(streams=True),
)
add(
    "pings_whole_answers",
    "An answer that is no stream gets keepalives.",
    _clauses("not_in_whole_answers"),
    _early(streams=False),
)
add("pings_json", "JSON for a streaming request gets keepalives.", _clauses("not_in_json"),
    both(streaming(_until_silent), swap("reference_server.workers.response:UpstreamResponse.is_event_stream", _json_too)))  # fmt: skip
add("pings_behind_the_end", "A keepalive follows the end of a stream.", _clauses("not_after_end"),
    Vice(front=Front(to_client=lambda data: data + PING if data.endswith(b"0\r\n\r\n") else data)))  # fmt: skip


async def _as_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A keepalive is an event."""
    async for piece in pieces:
        yield b"data: ping\n\n" if piece == PING else piece


async def _in_one_piece(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A keepalive goes out with the event after it."""
    held = b""
    async for piece in pieces:
        if piece == PING:
            held += piece
        else:
            yield held + piece
            held = b""
    if held:
        yield held


for _name, _about, _breaks, _transform in (
    ("pings_as_events", "A keepalive is an event.", _clauses("ping", "events_unchanged"), _as_events),
    ("holds_pings_back", "A keepalive goes out with the event after it.", _clauses("ping", "interval"), _in_one_piece),
):  # fmt: skip
    add(_name, _about, _breaks, _pings(_transform))
