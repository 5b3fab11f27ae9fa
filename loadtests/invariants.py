"""What must hold on every exchange, however heavy the load; each with the clause it belongs to."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.sse import Comment, Event
    from loadtests.traffic import Kind

FRAMING = "chat.stream.framing"
CONTENT_TYPE = "chat.stream.content_type"
ROLE = "chat.stream.chunk.role_first"
CONTENT = "chat.stream.chunk.content"
OWN = "chat.stream.relay.own_events"
SAME_ID = "chat.stream.chunk.same_id"
FINISH = "chat.stream.chunk.finish_once"
FINISH_LAST = "chat.stream.chunk.finish_last"
USAGE = "chat.usage.stream.whole_request"
DONE_LAST = "chat.stream.done.last"
DONE_ONCE = "chat.stream.done.once"
ENDED = "chat.stream.end.clean"
BETWEEN = "chat.stream.keepalive.between_events"
MARKER = re.compile(r"igc-[0-9a-f]{16}")
EVERY_EXCHANGE = (
    FRAMING, CONTENT_TYPE, ROLE, CONTENT, OWN, SAME_ID, FINISH, FINISH_LAST, USAGE, DONE_LAST, DONE_ONCE, ENDED,
)  # fmt: skip

Broken = list[list[str]]
Chunks = list[dict[str, Any] | None]


def undecided(kind: Kind | None) -> list[str]:
    """What an exchange of a kind says nothing about, because the worker's text or usage is not known."""
    text = [] if kind is not None and kind.text is not None else [CONTENT, OWN]
    return text if kind is not None and kind.completion_tokens is not None else [*text, USAGE]


def brings_text(chunk: dict[str, Any] | None) -> bool:
    """Whether a chunk has text for the user, be it reasoning or the answer."""
    deltas = [_member(choice, "delta") for choice in _choices(chunk or {})]
    return any(delta.get("content") or delta.get("reasoning_content") for delta in deltas)


def of_comments(comments: Sequence[Comment], events: Sequence[Event]) -> Broken:
    """A ping stands between events: neither before the blank line of one, nor inside the text of its data."""
    broken = [[BETWEEN, f"the comment {each.text!r} came inside an event"] for each in comments if each.inside]
    torn = [event.data for event in events if ": ping" in event.data and parsed(event.data) is None]
    return broken + [[BETWEEN, f"a ping is part of the data {data[:120]!r}"] for data in torn]


def of_stream(
    events: Sequence[Event],
    found: Chunks,
    kind: Kind | None,
    marker: str,
    *,
    finished: bool,
    content_type: str,
    unfinished: bytes,
) -> Broken:
    """What does not hold for a stream.

    Args:
        events: in order of arrival.
        found: what `parsed` says of each.
        kind: what was asked for; None when the worker is not ours, and text and usage are not known.
        marker: of the request.
        finished: whether the body came to its proper end; if not, only what a part of a stream owes is judged.
        content_type: of the answer.
        unfinished: bytes behind the last whole event.
    """
    broken: Broken = []
    if content_type.partition(";")[0].strip().lower() != "text/event-stream":
        broken.append([CONTENT_TYPE, f"the content type is {content_type!r}"])
    chunks: list[dict[str, Any]] = []
    for number, (event, chunk) in enumerate(zip(events, found, strict=True)):
        if event.is_done:
            if number != len(events) - 1:
                what = DONE_ONCE if any(later.is_done for later in events[number + 1 :]) else DONE_LAST
                broken.append([what, f"event {number + 1} of {len(events)} is [DONE]"])
            continue
        if chunk is None:
            broken.append([FRAMING, f"the data of event {number + 1} is no JSON object: {event.data[:120]!r}"])
        elif "error" in chunk:
            broken.append([ENDED, f"an error event: {event.data[:160]}"])
        else:
            chunks.append(chunk)
    broken += _of_chunks(chunks, kind, marker, finished=finished)
    if finished:
        if not events or not events[-1].is_done:
            broken.append([DONE_LAST, f"the last of {len(events)} events is not [DONE]"])
        if unfinished:
            broken.append([FRAMING, f"bytes behind the last event: {unfinished[:80]!r}"])
    return broken


def parsed(data: str) -> dict[str, Any] | None:
    """The JSON object that an event's data are; None where they are none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _choices(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices that are objects: what else a gateway may write there is no reason to fall over."""
    choices = chunk.get("choices")
    return [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []


def _member(of: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in an object; an empty one where it is none."""
    value = of.get(name)
    return value if isinstance(value, dict) else {}


def _of_chunks(chunks: list[dict[str, Any]], kind: Kind | None, marker: str, *, finished: bool) -> Broken:
    broken: Broken = []
    roles: dict[str, int] = {}
    finishes: dict[str, int] = {}
    texts: dict[str, list[str]] = {}
    usages = [_member(chunk, "usage") for chunk in chunks if not chunk.get("choices") and chunk.get("usage")]
    for chunk in chunks:
        for choice in _choices(chunk):
            index, delta = str(choice.get("index", 0)), _member(choice, "delta")
            first = index not in texts
            if finishes.get(index) and delta.get("content"):
                broken.append([FINISH_LAST, f"choice {index} goes on after its finish: {delta!r}"])
            if first and delta.get("role") != "assistant":
                broken.append([ROLE, f"the first delta of choice {index} is {delta!r}"])
            roles[index] = roles.get(index, 0) + bool(delta.get("role"))
            finishes[index] = finishes.get(index, 0) + (choice.get("finish_reason") is not None)
            texts.setdefault(index, []).append(str(delta.get("content") or ""))
    ids = {str(chunk.get("id")) for chunk in chunks}
    if len(ids) > 1:
        broken.append([SAME_ID, f"chunks of one stream have the ids {', '.join(sorted(ids))}"])
    broken += [[ROLE, f"choice {index} has {number} role deltas"] for index, number in roles.items() if number > 1]
    broken += _of_text({index: "".join(parts) for index, parts in texts.items()}, kind, marker, finished=finished)
    if not finished:
        return broken
    broken += [
        [FINISH, f"choice {index} has {number} finish reasons"] for index, number in finishes.items() if number != 1
    ]
    if not finishes:
        broken.append([FINISH, "no choice was finished"])
    if kind is not None and kind.completion_tokens is not None:
        counted = [(usage.get("prompt_tokens"), usage.get("completion_tokens")) for usage in usages]
        if counted != [(kind.prompt_tokens, kind.completion_tokens)]:
            said = (kind.prompt_tokens, kind.completion_tokens)
            broken.append([USAGE, f"usage (prompt, completion) is {counted}, the worker counted {said}"])
    return broken


def _of_text(texts: dict[str, str], kind: Kind | None, marker: str, *, finished: bool) -> Broken:
    if kind is None or kind.text is None:
        return []
    wanted = kind.text.replace("{marker}", marker)
    for index, text in texts.items():
        if text == wanted or (not finished and wanted.startswith(text)):
            continue
        foreign = any(found != marker for found in MARKER.findall(text))
        what = "the text of another request" if foreign else "not the worker's text"
        return [[OWN if foreign else CONTENT, f"choice {index} has {what}: {text[:80]!r} for {wanted[:80]!r}"]]
    if finished and not texts:
        return [[CONTENT, "no text at all"]]
    return []
