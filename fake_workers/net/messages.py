"""HTTP/1.1 messages as bytes: status lines, chunk framing, the date header."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

CRLF = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"
JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream; charset=utf-8"

_REASONS = {status.value: status.phrase for status in HTTPStatus}
_NO_BODY = frozenset({*range(100, 200), 204, 304})


def reason_of(status: int) -> str:
    """Return the reason phrase of a status, empty for one nobody knows."""
    return _REASONS.get(status, "")


def may_have_body(status: int) -> bool:
    """Say whether HTTP lets an answer with this status have a body."""
    return status not in _NO_BODY


def head_bytes(status: int, headers: list[tuple[str, str]], reason: str | None = None) -> bytes:
    """Return a status line with headers, in the given order and spelling (latin-1)."""
    phrase = reason_of(status) if reason is None else reason
    lines = [f"HTTP/1.1 {status} {phrase}\r\n"]
    lines.extend(f"{name}: {value}\r\n" for name, value in headers)
    lines.append("\r\n")
    return "".join(lines).encode("latin-1")


def chunk_bytes(data: bytes) -> bytes:
    """Return data framed as one chunk; no data gives nothing, for an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


class _DateCache:
    """The date header, made once a second."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._text = formatdate(second, usegmt=True)
        return self._text


_DATES = _DateCache()


def http_date() -> str:
    """Return the current time as the ``date`` header has it."""
    return _DATES.now()


@dataclass(slots=True)
class Response:
    """A whole answer: status, body and its type, further headers."""

    status: int
    body: bytes = b""
    content_type: str | None = JSON_TYPE
    headers: list[tuple[str, str]] = field(default_factory=list)

    def to_bytes(self, *, server: str | None, keep_alive: bool, with_body: bool = True) -> bytes:
        """Return the message in uvicorn's header order: date and server first, then length, type and the rest."""
        headers = [("date", http_date())]
        if server is not None:
            headers.append(("server", server))
        if may_have_body(self.status):
            headers.append(("content-length", str(len(self.body))))
        if self.content_type is not None:
            headers.append(("content-type", self.content_type))
        headers.extend(self.headers)
        if not keep_alive:
            headers.append(("connection", "close"))
        head = head_bytes(self.status, headers)
        return head + self.body if with_body else head
