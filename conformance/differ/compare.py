"""What one gateway made of a request, and how two of these differ."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.differ.requests import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TOLERANCE = 1e-6  # a number that went through single precision is the same number
OWN_HEADERS = {
    "host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding",
    "user-agent", "x-correlation-id",
}  # fmt: skip
"""Headers a gateway sends to its worker for itself, and the one that carries the marker."""


@dataclass(frozen=True)
class Observed:
    """One side of one request: what the client got, and what the worker got (`received` None: nothing)."""

    status: int | None
    content_type: str
    body: bytes
    scripted: bytes
    received: bytes | None
    headers: tuple[tuple[str, str], ...] = ()
    dispatches: int = 0

    @property
    def relayed(self) -> bool:
        """Whether the client got the worker's own bytes."""
        return self.received is not None and self.body == self.scripted

    @property
    def outcome(self) -> str:
        """`served` when the client got the worker's answer, else the status and the shape of the gateway's error."""
        if self.status is None:
            return "no answer"
        if self.relayed:
            return "served"
        return f"{self.status} {error_shape(self.body, self.content_type)}" if self.status >= 400 else str(self.status)


@dataclass(frozen=True, order=True)
class Difference:
    """One thing in which two sides differ: where, and what each has."""

    aspect: str
    place: str
    left: str
    right: str

    def __str__(self) -> str:
        where = f" {self.place}" if self.place else ""
        return f"{self.aspect}{where}: {self.left} | {self.right}"


def error_shape(body: bytes, content_type: str) -> str:
    """Which of the contract's error shapes a body has: `parse`, `validation`, `envelope CODE`, or that it has none."""
    if not body:
        return "empty"
    if not content_type.startswith("application/json"):
        return f"of type {content_type.partition(';')[0] or 'none'}"
    try:
        error = json.loads(body)["error"]
        code = error["code"]
    except (ValueError, LookupError, TypeError):
        return "without envelope"
    if set(error) == {"message", "type", "code"} and error["type"] == "invalid_request_error":
        return {"json_parse_error": "parse", 400: "validation"}.get(code, f"refusal {code}")
    return f"envelope {code}" if set(error) == {"message", "type", "code", "param"} else f"shape {sorted(error)}"


def message_of(observed: Observed) -> str:
    """The error's message without what varies: numbers, quoted values, order of lines."""
    try:
        text = str(json.loads(observed.body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""
    lines = (re.sub(r"[`'\"].*?[`'\"]|\d[\d.e+-]*", "*", line)[:90] for line in text.splitlines())
    return " / ".join(sorted(line.partition(": Validation error")[0] for line in lines))


def differences(left: Observed, right: Observed) -> list[Difference]:
    """Everything in which the two sides differ by meaning; what follows from a difference is not told again."""
    if left.outcome != right.outcome:
        return [Difference("outcome", "", left.outcome, right.outcome)]
    if left.dispatches != right.dispatches:
        return [Difference("dispatches", "", str(left.dispatches), str(right.dispatches))]
    found = list(_received(left, right))
    if left.status != right.status:
        found.append(Difference("status", "", str(left.status), str(right.status)))
    if left.content_type != right.content_type and left.relayed:
        found.append(Difference("answer type", "", left.content_type, right.content_type))
    return found


def _received(left: Observed, right: Observed) -> Iterator[Difference]:
    if left.received is None or right.received is None:
        return
    ours, theirs = (dict(_own(each.headers)) for each in (left, right))
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield Difference("worker header", name, ours.get(name, "absent"), theirs.get(name, "absent"))
    try:
        ours_sent, theirs_sent = json.loads(left.received), json.loads(right.received)
    except ValueError:
        if left.received != right.received:
            yield Difference("worker body", "", "other bytes", "other bytes")
        return
    yield from sorted(set(_values(ours_sent, theirs_sent, "")))


def _own(headers: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    return ((name.lower(), value) for name, value in headers if name.lower() not in OWN_HEADERS)


ABSENT = object()


def _values(left: Any, right: Any, place: str) -> Iterator[Difference]:
    """Places at which two JSON values differ. Null counts as absent, and numbers are compared in single precision."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            ours, theirs = (ABSENT if side.get(key) is None else side[key] for side in (left, right))
            yield from _values(ours, theirs, f"{place}.{key}" if place else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for ours, theirs in zip(left, right, strict=True):
            yield from _values(ours, theirs, f"{place}[]")
    elif not _same(left, right):
        yield Difference("worker body", place, _shown(left), _shown(right))


def _same(left: Any, right: Any) -> bool:
    if left is ABSENT or right is ABSENT:
        return left is right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right or _close(left, right)
    return bool(left == right)


def _close(left: float, right: float) -> bool:
    try:
        return math.isclose(left, right, rel_tol=TOLERANCE)
    except OverflowError:  # an integer beyond every float
        return False


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else kind_of(value)
