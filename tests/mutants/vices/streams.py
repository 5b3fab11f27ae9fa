"""Vices of streamed chat answers."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING, Any

from tests.mutants.edits import changes
from tests.mutants.hooks import Number, answering, chunk_json, containers, events, mapped, streaming
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.answers import Answer


def _events(name: str, about: str, breaks: tuple[str, ...], edit: Any) -> None:
    add(name, about, breaks, events(edit, route="chat"))


def _chunks(name: str, about: str, breaks: tuple[str, ...], edit: Any) -> None:
    def careful(value: Any) -> Any:
        try:
            return edit(value)
        except (KeyError, TypeError, IndexError, AttributeError):
            return None

    add(name, about, breaks, chunk_json(careful, route="chat"))


def _without(key: str) -> Any:
    def edit(value: Any) -> None:
        for each in list(containers(value)):
            each.pop(key, None)

    return edit


for _key, _breaks in {
    "id": ("chat.stream.chunk.id", "chat.stream.chunk.same_id"), "object": ("chat.stream.chunk.object",),
    "created": ("chat.stream.chunk.created",), "model": ("chat.stream.chunk.model",), "index": ("chat.stream.chunk.choice_index",),
    "delta": ("chat.stream.chunk.delta",), "role": ("chat.stream.chunk.role_first",), "content": ("chat.stream.chunk.content",),
    "finish_reason": ("chat.stream.chunk.finish_once",), "reasoning_content": ("chat.stream.relay.reasoning",),
    "tool_calls": ("chat.stream.relay.tool_calls",), "logprobs": ("chat.stream.relay.logprobs",),
    "usage": ("chat.usage.stream.whole_request", "chat.usage.stream.continuous_relayed"),
    "choices": ("chat.stream.chunk.shape",),
}.items():  # fmt: skip
    _chunks(f"streams_without_{_key}", f"Chunks lack {_key}.", _breaks, _without(_key))

COUNTER = iter(range(10**9))
_chunks(
    "gives_each_chunk_an_id",
    "Every chunk has another id.",
    ("chat.stream.chunk.same_id",),
    lambda v: v.update(id=f"chatcmpl-{next(COUNTER)}"),
)
_chunks("finishes_early", "Every chunk says that its choice has stopped.", ("chat.stream.chunk.finish_null", "chat.stream.chunk.finish_once"),
        lambda v: [c.update(finish_reason="stop") for c in v["choices"]] and None)  # fmt: skip
_chunks("streams_one_choice", "Only the first choice is streamed.", ("chat.stream.n.all_choices", "chat.stream.n.interleaved"),
        lambda v: v.update(choices=[c for c in v["choices"] if c["index"] == Number("0")]))  # fmt: skip
_chunks(
    "streams_with_the_alias",
    "Chunks name the alias.",
    ("chat.stream.alias.model",),
    lambda v: v.update(model="conformance-alias"),
)
_chunks("stops_every_stream", "Every finish reason becomes stop.", ("chat.stream.relay.finish_reason", "chat.tools.finish_reason_kept"),
        lambda v: [c.update(finish_reason="stop") for c in v["choices"] if c["finish_reason"]] and None)  # fmt: skip
_chunks("rewrites_events", "Chunks are parsed and written anew.", ("chat.stream.relay.bytes",), lambda v: v)
_chunks("streams_doubles", "Numbers of chunks pass through doubles.", ("chat.stream.relay.number_text",),
        lambda v: mapped(v, lambda n: (int(float(n)) if n.encoded_json.isdecimal() else float(n)) if isinstance(n, Number) else n))  # fmt: skip
_chunks("streams_without_nulls", "Members that are null are dropped from chunks.", ("chat.usage.stream.null_usage_kept",),
        lambda v: [e.pop(k) for e in list(containers(v)) for k in list(e) if e[k] is None] and None)  # fmt: skip
_chunks("streams_known_keys_only", "Members that OpenAI does not know are dropped from chunks.", ("chat.stream.relay.engine_keys",),
        lambda v: [v.pop(k) for k in list(v) if k not in {"id", "object", "created", "model", "choices", "usage"}] and None)  # fmt: skip
_chunks("adds_usage_to_chunks", "Every chunk is given usage.", ("chat.usage.stream.no_usage_added", "chat.usage.stream.default_off_client"),
        lambda v: v.setdefault("usage", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}) and None)  # fmt: skip
_chunks("drops_usage_chunks", "A chunk without choices is taken for noise.", ("chat.usage.stream.last_chunk_empty_choices", "chat.usage.stream.unasked_kept"),
        lambda v: v.pop("usage") and None if v["choices"] == [] else None)  # fmt: skip
_chunks("gives_usage_a_choice", "The last chunk with usage has a choice.", ("chat.usage.stream.last_chunk_empty_choices",),
        lambda v: v["choices"].append({"index": 0, "delta": {}, "finish_reason": None}) if v["choices"] == [] else None)  # fmt: skip
_chunks("counts_the_last_chunk", "Usage counts one token.", ("chat.usage.stream.whole_request",),
        lambda v: v["usage"].update(completion_tokens=1, total_tokens=1) if v.get("usage") else None)  # fmt: skip
changes("asks_every_stream_for_usage", "Every stream is asked for usage.", ("chat.usage.stream.default_off",),
        lambda b: b.setdefault("stream_options", {"include_usage": True}) and None if b.get("stream") else None, "chat")  # fmt: skip
changes("turns_usage_off", "include_usage becomes false.", ("chat.usage.stream.true_reaches_engine",),
        lambda b: b["stream_options"].update(include_usage=False), "chat")  # fmt: skip
changes("turns_usage_on", "include_usage becomes true.", ("chat.usage.stream.false_reaches_engine",),
        lambda b: b["stream_options"].update(include_usage=True), "chat")  # fmt: skip
changes("drops_continuous_usage", "continuous_usage_stats is lost.", ("chat.usage.stream.continuous_reaches_engine",),
        lambda b: b["stream_options"].pop("continuous_usage_stats") and None, "chat")  # fmt: skip
changes("drops_unknown_stream_options", "Unknown stream options are lost.",
        ("chat.usage.stream.options_unknown_keys", "chat.unknown.in_stream_options*"),
        lambda b: b.update(stream_options={k: v for k, v in b["stream_options"].items()
                                           if k in {"include_usage", "continuous_usage_stats"}}), "chat")  # fmt: skip
changes("drops_empty_stream_options", "Empty stream options are lost.", ("chat.usage.stream.options_empty",),
        lambda b: b.pop("stream_options") and None if b["stream_options"] == {} else None, "chat")  # fmt: skip

_events(
    "drops_comments",
    "Comments are dropped.",
    ("chat.stream.relay.comments",),
    lambda e: b"" if e.startswith(b":") else e,
)
_events("normalises_line_ends", "Line ends become line feeds.", ("chat.stream.relay.crlf",),
        lambda e: e.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))  # fmt: skip
_events("joins_data_lines", "Data lines of an event are joined.", ("chat.stream.relay.multi_line_data",),
        lambda e: b"data: " + b"".join(re.findall(rb"data: ?([^\n]*)\n", e)) + b"\n\n" if e.count(b"data:") > 1 else e)  # fmt: skip
_events("drops_event_fields", "Only data lines are relayed.", ("chat.stream.relay.event_fields",),
        lambda e: b"".join(re.findall(rb"data:[^\n]*\n", e)) + b"\n" if b"data:" in e else e)  # fmt: skip
_events(
    "adds_spaces",
    "A space is put after every colon.",
    ("chat.stream.relay.no_space",),
    lambda e: re.sub(rb"^data:(?! )", b"data: ", e),
)
_events(
    "reads_utf8",
    "Bytes that are not UTF-8 are replaced.",
    ("chat.stream.relay.invalid_utf8",),
    lambda e: e.decode("utf-8", "replace").encode(),
)
_events("splits_at_any_line_end", "Unicode's line separators end lines.", ("chat.stream.relay.line_separators",),
        lambda e: e.replace("\u2028".encode(), b"\n").replace("\u0085".encode(), b"\n"))  # fmt: skip
_events(
    "cuts_long_events",
    "Events end after 60,000 bytes.",
    ("chat.stream.relay.large_event",),
    lambda e: e if len(e) < 60000 else e[:60000] + b"\n\n",
)
_events(
    "drops_error_events",
    "Events that tell an error are dropped.",
    ("chat.stream.relay.error_event",),
    lambda e: b"" if b'"error"' in e else e,
)
_events("doubles_done", "[DONE] is sent twice.", ("chat.stream.done.once",), lambda e: e * 2 if b"[DONE]" in e else e)
_events("speaks_after_done", "Something follows [DONE].", ("chat.stream.done.last", "chat.stream.end.nothing_after"),
        lambda e: e + b'data: {"choices":[]}\n\n' if b"[DONE]" in e else e)  # fmt: skip
_events("spells_done_anew", "[DONE] is written in one way.", ("chat.stream.done.spelling",),
        lambda e: b"data: [DONE]\n\n" if b"[DONE]" in e else e)  # fmt: skip
_events(
    "inserts_pings",
    "Comments are put between events.",
    ("chat.stream.relay.bytes",),
    lambda e: e + b": ping\n\n",
)


async def _single_done(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream up to its first [DONE]."""
    async for piece in pieces:
        head, done, _ = piece.partition(b"data: [DONE]\n\n")
        yield head + done
        if done:
            return


async def _late(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece when the next one is there."""
    held = b""
    async for piece in pieces:
        if held:
            yield held
        held = piece
    if held:
        yield held


async def _in_blocks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks of 8192 bytes."""
    held = b""
    async for piece in pieces:
        held += piece
        while len(held) >= 8192:
            yield held[:8192]
            held = held[8192:]
    if held:
        yield held


async def _thousand(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The first hundred pieces."""
    count = 0
    async for piece in pieces:
        count += piece.count(b"\n\n")
        if count > 100:
            return
        yield piece


for _name, _about, _breaks, _transform in (
    ("sends_the_first_done_only", "The stream ends with its first [DONE].", ("chat.stream.done.doubled_kept", "chat.stream.end.nothing_after"), _single_done),
    ("holds_one_event_back", "An event is sent when the next has come.",
     ("chat.stream.relay.as_it_arrives", "chat.stream.relay.every_event_as_it_arrives"), _late),
    ("streams_in_blocks", "Streams are sent in blocks of 8192 bytes.", ("chat.stream.relay.small_events", "chat.stream.relay.done_as_it_arrives"), _in_blocks),
    ("streams_a_hundred_events", "Streams end after a hundred events.", ("chat.stream.relay.many_events",), _thousand),
):  # fmt: skip
    add(_name, _about, _breaks, streaming(_transform, route="chat"))


def _gzip(answer: Answer, *_: Any) -> None:
    """The stream compressed, piece by piece."""
    if isinstance(answer.body, bytes):
        return
    source = answer.body

    async def packed() -> AsyncIterator[bytes]:
        async for piece in source:
            yield gzip.compress(piece)

    answer.headers.append(("content-encoding", "gzip"))
    answer.body = packed()


add("compresses_streams", "Streams are compressed.", ("chat.stream.relay.not_compressed",), answering(_gzip))


def _typed(text: str) -> Any:
    def edit(answer: Answer, _this: Any, request: Any) -> None:
        if request.wants_stream and request.endpoint.name == "chat":
            answer.headers = [(k, text if k == "content-type" else v) for k, v in answer.headers]

    return answering(edit)


def _status(status: int) -> Any:
    def edit(answer: Answer, _this: Any, request: Any) -> None:
        if request.wants_stream and request.endpoint.name == "chat":
            answer.status = status

    return answering(edit)


add("streams_as_json", "Streams are declared as JSON.", ("chat.stream.content_type",), _typed("application/json"))
add("declares_every_stream", "Whatever a stream request gets is declared an event stream.",
    ("chat.stream.rejected.not_event_stream", "chat.stream.rejected.content_type", "chat.stream.relay.json_answer"), _typed("text/event-stream"))  # fmt: skip
add("streams_with_200_always", "A stream request is always answered with 200.", ("chat.stream.rejected.status", "errors.worker.streaming_request_status"),
    _status(200))  # fmt: skip
add("streams_with_202", "Streams have status 202.", ("chat.stream.status",), _status(202))


def _no_aclose(_original: Any, _self: Any) -> Any:
    async def nothing() -> None:
        """The worker's connection is left as it is."""

    return nothing()


async def _keeps_reading(_original: Any, self: Any, *_: Any) -> None:
    """The rest of the body is read and thrown away."""
    asyncio.get_running_loop().call_later(20, self._response.close)


ACLOSE = "reference_server.workers.response:UpstreamResponse.aclose"
add("keeps_workers_busy", "When a client leaves, its worker goes on.",
    ("chat.stream.disconnect.mid_stream", "chat.stream.disconnect.silent_worker", "completions.stream.disconnect"), swap(ACLOSE, _keeps_reading))  # fmt: skip


async def _deaf(_original: Any, this: Any, receive: Any) -> None:
    """A client that leaves is not noticed."""
    while True:
        message = await receive()
        if message["type"] == "http.request":
            this.body.feed(message.get("body", b""))
            if not message.get("more_body", False):
                this.body.finish()
        elif message["type"] == "http.disconnect":
            await asyncio.sleep(30)
            return


add("notices_no_disconnect", "A client that leaves before the worker's answer is not noticed.",
    ("chat.stream.disconnect.before_head", "chat.stream.disconnect.before_first", "chat.response.disconnect.waiting", "completions.response.disconnect",
     "embeddings.disconnect", "chat.stream.disconnect.many"), swap("reference_server.connection:_listen", _deaf))  # fmt: skip


async def _all_at_once(original: Any, self: Any) -> Any:
    """The worker is read as fast as it sends."""
    held = [piece async for piece in original(self)]
    for piece in held:
        yield piece


add("reads_ahead", "The worker is read to its end before the client gets anything.", ("chat.stream.backpressure", "chat.stream.relay.as_it_arrives"),
    Vice({"reference_server.workers.response:UpstreamResponse.body": _all_at_once}))  # fmt: skip
add(
    "invents_an_error_event",
    "A broken stream ends with an event of the gateway's own.",
    ("chat.stream.broken.*",),
    streaming(lambda pieces: _told(pieces), route="chat"),  # noqa: PLW0108 - defined below
)


async def _told(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream; when it breaks, a happy end."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    try:
        async for piece in pieces:
            yield piece
    except GatewayError:
        yield b"data: [DONE]\n\n"
