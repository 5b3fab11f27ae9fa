"""Vices of streamed answers under one condition only: what is lost, late, doubled or made up."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import events, streaming
from tests.mutants.vice import add, swap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.call import Call


def _event(name: str, about: str, breaks: tuple[str, ...], edit: Any, route: str = "chat") -> None:
    add(name, about, breaks, events(edit, route=route))


_event(
    "says_usage_twice",
    "The chunk with usage is sent twice.",
    ("chat.usage.stream.once",),
    lambda e: e * 2 if b'"choices":[]' in e.replace(b" ", b"") else e,
)
_event("speaks_after_usage", "A chunk follows the one with usage.", ("chat.usage.stream.last_chunk_is_final",),
       lambda e: e + b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":null}]}\n\n'
       if b'"choices":[]' in e.replace(b" ", b"") else e)  # fmt: skip
_event("makes_usage", "Before [DONE] comes a chunk with usage.", ("chat.usage.stream.engine_makes_it",),
       lambda e: b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\n' + e
       if b"[DONE]" in e else e)  # fmt: skip
_event("speaks_after_the_finish", "Content follows the finish reason.", ("chat.stream.chunk.finish_last",),
       lambda e: e + re.sub(rb'"finish_reason": ?"[a-z_]+"', b'"finish_reason":null', re.sub(rb'"delta": ?\{[^}]*\}', b'"delta":{"content":"more"}', e))
       if re.search(rb'"finish_reason": ?"', e) else e)  # fmt: skip
_event(
    "sends_bare_json", "Chunks are not prefixed by data.", ("chat.stream.framing",), lambda e: e.replace(b"data: ", b"")
)
_event(
    "makes_records_data",
    "Records without data become data.",
    ("chat.stream.relay.control_records",),
    lambda e: e if b"data" in e or e.startswith(b":") else b"data: " + e,
)
_event(
    "drops_carriage_returns",
    "Carriage returns are dropped.",
    ("chat.stream.relay.cr", "chat.stream.relay.crlf"),
    lambda e: e.replace(b"\r", b""),
)
_event(
    "pings_in_completions",
    "Comments are put between events of completions.",
    ("completions.stream.bytes",),
    lambda e: e + b": ping\n\n",
    "completions",
)


async def _one_event(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Only the first event of each piece."""
    async for piece in pieces:
        head, end, _ = piece.partition(b"\n\n")
        yield head + end


async def _closed_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is closed as if it were whole events."""
    async for piece in pieces:
        yield piece if piece.endswith(b"\n\n") else piece + b"\n\n"


async def _never_ends(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body is broken off at its end."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    async for piece in pieces:
        yield piece
    raise GatewayError(500, "broken", "broken")


async def _impatient(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A silence of 0.3 s ends the stream."""
    source = aiter(pieces)
    while True:
        try:
            yield await asyncio.wait_for(anext(source), 0.3)
        except (TimeoutError, StopAsyncIteration):
            return


async def _limited(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The payload limit counts for streams."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > 20_000:
            return
        yield piece


async def _megabyte(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What is beyond a megabyte is lost."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size < 1 << 20:
            yield piece


for _name, _about, _breaks, _transform in (
    ("sends_one_event_a_piece", "Only the first event of a worker's write is sent.", ("chat.stream.relay.coalesced",), _one_event),
    ("closes_half_events", "Half an event is closed like a whole one.", ("chat.stream.relay.half_event_held",), _closed_events),
    ("never_ends_streams", "Streams are broken off at their end.", ("chat.stream.end.clean",), _never_ends),
    ("is_impatient", "A short silence of the worker ends a stream.", ("chat.stream.end.staying_clients",), _impatient),
    ("limits_streams", "The payload limit counts for streams.", ("codes.upstream_response_too_large.streams_exempt",), _limited),
    ("loses_what_is_beyond_a_megabyte", "Streams lose what is beyond a megabyte.", ("chat.stream.backpressure.resumes",), _megabyte),
):  # fmt: skip
    add(_name, _about, _breaks, streaming(_transform, route="chat"))

_listening: set[asyncio.Task[Any]] = set()


async def _all_leave(original: Any, this: Call, receive: Any) -> None:
    """When one client leaves, everyone has left."""
    own = asyncio.current_task()
    assert own is not None
    _listening.add(own)
    try:
        await original(this, receive)
        for each in list(_listening - {own}):
            each.cancel()
    finally:
        _listening.discard(own)


add(
    "loses_all_with_one",
    "When one client leaves, the streams of others break.",
    ("chat.stream.disconnect.others_live",),
    swap("reference_server.connection:_listen", _all_leave),
)
