"""Helpers that build :class:`~fake_workers.script.Wire` answers: ordinary ones, and one for each fault.

All of them are plain data; nothing here touches a socket.
"""

from __future__ import annotations

import itertools
import json as jsonlib
from typing import TYPE_CHECKING, Any

from fake_workers.script import Chunk, Close, Drip, End, Head, Hold, Pause, Raw, Reset, Stall, Wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fake_workers.script import Step

JSON = "application/json"
SSE = "text/event-stream"
DONE = b"data: [DONE]\n\n"


def compact(value: Any) -> bytes:
    """Return JSON without blanks, as engines send it."""
    return jsonlib.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def body(
    status: int, data: bytes, content_type: str | None = None, headers: Iterable[tuple[str, str]] = (), **head: Any
) -> Wire:
    """Answer with a body of declared length."""
    fields = list(headers)
    if content_type is not None:
        fields.append(("content-type", content_type))
    fields.append(("content-length", str(len(data))))
    return Wire(steps=[Head(status=status, headers=fields, **head), Raw(data=data), End()])


def json(status: int, obj: Any, headers: Iterable[tuple[str, str]] = ()) -> Wire:
    """Answer with a JSON body."""
    return body(status, compact(obj), JSON, headers)


def event(
    data: Any,
    *,
    name: str | None = None,
    id: str | None = None,  # noqa: A002 - the SSE field's name
    newline: str = "\n",
    space: bool = True,
) -> bytes:
    """Return one SSE event; data other than text or bytes is printed as JSON, a line break starts a new data line.

    ``newline`` may be CRLF, and ``space`` False leaves out the blank after the colon: both are legal and trip readers.
    """
    if isinstance(data, str):
        text = data
    else:
        text = (data if isinstance(data, bytes) else compact(data)).decode("utf-8", "surrogateescape")
    lines = [f"event: {name}"] if name is not None else []
    lines += [f"id: {id}"] if id is not None else []
    lines += [f"data:{' ' if space else ''}{line}" for line in text.split("\n")]
    return (newline.join(lines) + newline * 2).encode("utf-8", "surrogateescape")


def comment(text: str = "ping") -> bytes:
    """Return an SSE comment, as used for keepalives."""
    return f": {text}\n\n".encode()


def sse_steps(
    events: Iterable[Any], hold_before: Mapping[int, str] | None = None, *, done: int | bool = True
) -> list[Step]:
    """Return one chunk an event: bytes as they are, anything else through :func:`event`; ``done`` counts [DONE]s."""
    holds = dict(hold_before or {})
    steps: list[Step] = []
    blocks = [one if isinstance(one, bytes) else event(one) for one in events] + [DONE] * int(done)
    for number, block in enumerate(blocks):
        if number in holds:
            steps.append(Hold(name=holds[number]))
        steps.append(Chunk(data=block))
    return steps


def sse_head(headers: Iterable[tuple[str, str]] = (), status: int = 200) -> Head:
    """Return the head of an event stream."""
    return Head(status=status, headers=[("content-type", SSE), *headers])


def sse(
    *events: Any,
    hold_before: Mapping[int, str] | None = None,
    done: int | bool = True,
    headers: Iterable[tuple[str, str]] = (),
    status: int = 200,
) -> Wire:
    """Answer with an event stream; ``done`` False leaves [DONE] out, 2 doubles it; ``hold_before`` counts from 0."""
    return Wire(steps=[sse_head(headers, status), *sse_steps(events, hold_before, done=done), End()])


# faults --------------------------------------------------------------------------------------------------------------


def close_before_headers() -> Wire:
    """Read the request and close without a byte."""
    return Wire(steps=[Close()])


def reset_before_headers() -> Wire:
    """Read the request and reset the connection without a byte."""
    return Wire(steps=[Reset()])


def never_answer(max_s: float = 30.0) -> Wire:
    """Read the request and stay silent until the peer leaves."""
    return Wire(steps=[Stall(max_s=max_s)])


def cut(answer: Wire, after_bytes: int, *, reset: bool = False) -> Wire:
    """Send the answer's body only up to ``after_bytes``, then close (or reset)."""
    return Wire(steps=[*_first_bytes(answer, after_bytes), Reset() if reset else Close()])


def stall(answer: Wire, after_bytes: int, max_s: float = 30.0) -> Wire:
    """Send the answer's body only up to ``after_bytes``, then stay silent."""
    return Wire(steps=[*_first_bytes(answer, after_bytes), Stall(max_s=max_s)])


def _first_bytes(answer: Wire, count: int) -> list[Step]:
    steps: list[Step] = []
    left = count
    for step in answer.steps:
        if isinstance(step, End):
            break
        if isinstance(step, (Chunk, Raw, Drip)):
            if left <= 0:
                break
            step = step.model_copy(update={"data": step.data[:left]})  # noqa: PLW2901 - the shortened step replaces it
            left -= len(step.data)
        steps.append(step)
    return steps


def split_at(data: bytes, *offsets: int, pause_s: float = 0.02) -> list[Step]:
    """Return chunks of data broken at the offsets, with a pause between, so that they arrive as separate reads."""
    bounds = [0, *sorted(offsets), len(data)]
    steps: list[Step] = []
    for start, stop in itertools.pairwise(bounds):
        if start:
            steps.append(Pause(seconds=pause_s))
        steps.append(Chunk(data=data[start:stop]))
    return steps


def raw_split_at(data: bytes, *offsets: int, pause_s: float = 0.02) -> list[Step]:
    """Like :func:`split_at`, but unframed: also heads and chunk framing can be broken, inside a CRLF for instance."""
    return [
        Raw(data=step.data) if isinstance(step, Chunk) else step for step in split_at(data, *offsets, pause_s=pause_s)
    ]


def both_framings(data: bytes, content_type: str = JSON, length: int | None = None) -> Wire:
    """Answer with content-length and transfer-encoding at once."""
    declared = len(data) if length is None else length
    fields = [("content-type", content_type), ("content-length", str(declared)), ("transfer-encoding", "chunked")]
    return Wire(steps=[Head(headers=fields), Chunk(data=data), End()])


def redirect(location: str, status: int = 307) -> Wire:
    """Answer with a redirect."""
    return body(status, b"", None, [("location", location)])


def trailing_garbage(answer: Wire, garbage: bytes = b"garbage\r\n") -> Wire:
    """Send bytes after the end of the body."""
    steps = [step for step in answer.steps if not isinstance(step, End)]
    head = next(step for step in steps if isinstance(step, Head))
    chunked = not any(name.lower() == "content-length" for name, _ in head.headers)
    return Wire(steps=[*steps, Raw(data=(b"0\r\n\r\n" if chunked else b"") + garbage), Close()])


def oversized(size: int, content_type: str = JSON, *, declared: bool = True, block: int = 65536) -> Wire:
    """Answer with a JSON string of ``size`` bytes, its length declared or chunked."""
    fields = [("content-type", content_type)]
    if declared:
        fields.append(("content-length", str(size)))
    steps: list[Step] = [Head(headers=fields), Chunk(data=b'"')]
    blocks, rest = divmod(size - 2, block)
    if blocks:
        steps.append(Chunk(data=b"x" * block, times=blocks))
    if rest:
        steps.append(Chunk(data=b"x" * rest))
    return Wire(steps=[*steps, Chunk(data=b'"'), End()])


def slow(data: bytes, content_type: str = JSON, *, size: int = 1, every_s: float = 0.01) -> Wire:
    """Answer with a body that drips."""
    fields = [("content-type", content_type), ("content-length", str(len(data)))]
    return Wire(steps=[Head(headers=fields), Drip(data=data, size=size, every_s=every_s), End()])
