"""What the checks of answers and streams share: plausible chunks and answers, and what a stream's end says.

Nothing here is a check.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fake_workers import wire
from fake_workers.script import Chunk, End, Wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conformance.harness import Event, Exchange, Gateway, Worker
    from fake_workers.journal import Entry
    from fake_workers.script import Step

ALL_ENGINES = ("sglang", "vllm", "tokenspeed")
DISCONNECT_BOUND_S = 0.1
"""How soon a worker must feel that the client has gone; the machine's measured noise is added."""


def chunk(content: str | None = None, *, index: int = 0, finish: str | None = None, **top: Any) -> dict[str, Any]:
    """Return a chat chunk with one choice; `content` None is an empty delta, `top` adds or replaces members."""
    delta = {} if content is None else {"content": content}
    return {
        "id": "chatcmpl-conformance",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "conformance",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
        **top,
    }


def delta_chunk(delta: dict[str, Any], *, index: int = 0, finish: str | None = None) -> dict[str, Any]:
    """Return a chat chunk whose only choice has this delta."""
    return chunk(choices=[{"index": index, "delta": delta, "finish_reason": finish}])


def text_chunk(text: str, *, index: int = 0, finish: str | None = None, **top: Any) -> dict[str, Any]:
    """Return a completion chunk with one choice."""
    return {
        "id": "cmpl-conformance",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "conformance",
        "choices": [{"index": index, "text": text, "logprobs": None, "finish_reason": finish}],
        **top,
    }


def completion_answer(**members: Any) -> dict[str, Any]:
    """Return a chat completion as a worker might send it; `members` adds or replaces top-level members."""
    return {
        "id": "chatcmpl-conformance",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "conformance",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        **members,
    }


def text_answer(**members: Any) -> dict[str, Any]:
    """Return a text completion as a worker might send it; `members` adds or replaces top-level members."""
    return {
        "id": "cmpl-conformance",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "conformance",
        "choices": [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        **members,
    }


def stream_of(*parts: bytes | Step) -> Wire:
    """Return an event stream: bytes become one HTTP chunk each, steps are taken as they are, and the body ends well."""
    return Wire(steps=[wire.sse_head(), *as_steps(parts), End()])


def broken_stream(*parts: bytes | Step) -> Wire:
    """Return an event stream that is not ended: its last part says how it breaks off."""
    return Wire(steps=[wire.sse_head(), *as_steps(parts)])


def as_steps(parts: Iterable[bytes | Step]) -> list[Step]:
    """Return steps, bytes becoming one HTTP chunk each."""
    return [Chunk(data=part) if isinstance(part, bytes) else part for part in parts]


def joined(steps: Iterable[Step]) -> bytes:
    """Return the body that the chunks of these steps make."""
    return b"".join(step.data for step in steps if isinstance(step, Chunk))


def content_of(chunks: Iterable[Any], index: int = 0) -> str:
    """Return the content that the deltas of one choice make."""
    return "".join(
        choice["delta"].get("content") or ""
        for one in chunks
        for choice in one.get("choices", ())
        if choice["index"] == index
    )


def tells_of_the_break(exchange: Exchange) -> bool:
    """Say whether a client can tell that this stream was broken off.

    It can if the transfer did not end as its framing says, if an error event came, or if there was no stream at all but
    an error status. A stream that merely stops, properly framed, tells nothing.
    """
    if exchange.status != HTTPStatus.OK or not exchange.closed_cleanly:
        return True
    chunks = [_chunk_or_none(event) for event in exchange.events if not event.is_done]
    return any(one is not None and one.get("error") for one in chunks)


def _chunk_or_none(event: Event) -> dict[str, Any] | None:
    """Return the event's object; None for what no client can read, such as the first half of one."""
    try:
        value = json.loads(event.data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def is_json(exchange: Exchange) -> bool:
    """Say whether the answer calls itself JSON."""
    return media_type(exchange) == "application/json"


def media_type(exchange: Exchange) -> str:
    """Return the content type without its parameters, in lower case."""
    return (exchange.headers.get("content-type") or "").partition(";")[0].strip().lower()


def felt_after_s(entry: Entry, left_at: float) -> float:
    """Return how long after the client left the worker felt it, in seconds."""
    assert entry.peer_closed_at is not None
    return entry.peer_closed_at - left_at


async def relayed_chunks(gateway: Gateway, worker: Worker, *chunks: dict[str, Any], **fields: Any) -> list[Any]:
    """Let the worker stream these chat chunks and return those the client got; how the stream ends is not asked."""
    script = worker.script(wire.sse(*chunks))
    chat = await gateway.chat(script, stream=True, **fields)
    await script.only()
    return chat.chunks
