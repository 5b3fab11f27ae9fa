"""Lenient readers of HTTP/1.1, one a connection, for gateways that take what they must refuse.

A reader stands before the reference server. What it takes too kindly it writes anew, so that the server, which would
have refused it, serves it; whatever its vice is not about passes byte by byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_END = b"\r\n\r\n"
CHUNKED = re.compile(rb"(?i)\r\ntransfer-encoding: *chunked *(?=\r\n)")
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+) *(?=\r\n)")
_MOST_BYTES = 1 << 24


class Reading:
    """Reads one connection: without memory, by an edit of whatever arrives at once.

    Attributes:
        closed: the front wants the connection closed.
        passes_end: the gateway hears that the client has ended.
    """

    def __init__(self, edit: Callable[[bytes], bytes] = bytes) -> None:
        self._edit = edit
        self._own = b""
        self.closed = False
        self.passes_end = True

    def feed(self, data: bytes) -> bytes:
        """Bytes came; returns what the gateway gets."""
        return self._edit(data)

    def end(self) -> bytes:
        """The client has ended; returns what the gateway still gets."""
        return b""

    def answered(self, data: bytes) -> bytes:
        """The gateway answers; returns what the client gets."""
        return data

    def over(self) -> None:
        """The connection is over."""

    def say(self, status: int, code: str = "front", *, close: bool = True) -> None:
        """Answer in the gateway's place."""
        body = b'{"error":{"message":"no","type":"invalid_request_error","code":"%s","param":null}}' % code.encode()
        self._own += b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (status, len(body))
        self._own += b"X-Request-ID: front\r\nX-SMG-Error-Code: " + code.encode() + b"\r\n"
        self._own += (b"Connection: close\r\n\r\n" if close else b"\r\n") + body
        self.closed = close

    def said(self) -> bytes:
        """What the front itself says to the client; once."""
        own, self._own = self._own, b""
        return own


class Stumbling(Reading):
    """Answers with a status, and closes, where a pattern finds something in what arrives at once."""

    def __init__(self, pattern: bytes, status: int = 500) -> None:
        super().__init__()
        self._pattern = re.compile(pattern)
        self._status = status

    def feed(self, data: bytes) -> bytes:
        """All or nothing."""
        return self._judged(data, data)

    def _judged(self, seen: bytes, data: bytes) -> bytes:
        if self._pattern.search(seen) is None:
            return data
        self.say(self._status, "internal_error")
        return b""


class StumblingInHeads(Stumbling):
    """The same for what a head has in all, in however many pieces it arrives."""

    _most_bytes = 1 << 18

    def __init__(self, pattern: bytes, status: int = 500) -> None:
        super().__init__(pattern, status)
        self._head = HEAD_END

    def feed(self, data: bytes) -> bytes:
        """Collect the head."""
        if re.match(rb"[A-Z]+ /", data):
            self._head = data.partition(HEAD_END)[0]
        elif HEAD_END not in self._head and len(self._head) < self._most_bytes:
            self._head = (self._head + data)[: self._most_bytes]
        else:
            return data
        return self._judged(self._head.partition(HEAD_END)[0], data)


class Shortening(Reading):
    """Takes a body that is shorter than its declared length for whole once the client has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Hold a request back until all of it is here."""
        self._held += data
        head, found, rest = self._held.partition(HEAD_END)
        length = LENGTH.search(head + b"\r\n")
        if found and length and len(rest) < int(length[1]) < _MOST_BYTES and not re.search(rb"(?i)\r\nexpect:", head):
            return b""
        held, self._held = self._held, b""
        return held

    def end(self) -> bytes:
        """The length that came is the length."""
        head, found, rest = self._held.partition(HEAD_END)
        if not found:
            return self._held
        self.passes_end = False
        head = LENGTH.sub(b"", head + b"\r\n")
        return head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(rest) + rest


class Impatient(Reading):
    """Answers 500 when the client ends: inside a head, or else while it waits for an answer."""

    def __init__(self, *, in_head: bool) -> None:
        super().__init__()
        self._in_head = in_head
        self._unanswered = b""

    def feed(self, data: bytes) -> bytes:
        """Remember what waits for an answer."""
        self._unanswered += data
        return data

    def answered(self, data: bytes) -> bytes:
        """Nothing waits any more."""
        self._unanswered = b""
        return data

    def end(self) -> bytes:
        """Give up."""
        if self._unanswered and (HEAD_END not in self._unanswered) is self._in_head:
            self.say(500, "internal_error")
        return b""


class Swallowing(Reading):
    """Behind a body that is no text the rest of the connection belongs to that body."""

    def feed(self, data: bytes) -> bytes:
        """Give the body a length up to the end of what came."""
        head, found, rest = data.partition(HEAD_END)
        length = LENGTH.search(head + b"\r\n")
        if not found or not length or not _is_odd(rest[: int(length[1])]):
            return data
        return LENGTH.sub(b"", head + b"\r\n") + b"Content-Length: %d\r\n\r\n" % len(rest) + rest


def _is_odd(body: bytes) -> bool:
    try:
        return bool(re.search("[\0-\x08\ufeff]", body.decode()))
    except UnicodeDecodeError:
        return True


class Overflowing(Reading):
    """Refuses a body over a limit, if a request stands in it, on its head, and takes it for the next request."""

    def __init__(self, limit_bytes: int, status: int, code: str) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes
        self._refusal = (status, code)

    def feed(self, data: bytes) -> bytes:
        """Go on behind the head."""
        head, found, rest = data.partition(HEAD_END)
        length = LENGTH.search(head + b"\r\n")
        if not found or not length or int(length[1]) <= self._limit_bytes or not rest.startswith(b"POST /"):
            return data
        self.say(*self._refusal, close=False)
        return rest


class Regretting(Reading):
    """Passes a request with two framings on with one, and answers with 400 what was served."""

    def __init__(self) -> None:
        super().__init__()
        self._two = False

    def feed(self, data: bytes) -> bytes:
        """Keep the chunks."""
        head, found, rest = data.partition(HEAD_END)
        self._two = bool(CHUNKED.search(head + b"\r\n") and LENGTH.search(head + b"\r\n"))
        return LENGTH.sub(b"", head + b"\r\n")[:-2] + b"\r\nConnection: close" + found + rest if self._two else data

    def answered(self, data: bytes) -> bytes:
        """Think again."""
        return data.replace(b"HTTP/1.1 200", b"HTTP/1.1 400", 1) if self._two else data


class Patient(Reading):
    """Waits for the end of a head however long it is."""

    def __init__(self) -> None:
        super().__init__()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Throw away what is too much of a head."""
        self._held += data
        if HEAD_END not in self._held and re.match(rb"[A-Z]+ /", self._held):
            self._held = self._held[:1024] + self._held[1024:][-3:]
            return b""
        held, self._held = self._held, b""
        return held


class Rooms:
    """A front that has room for so many unfinished heads at a time and turns everyone else away."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._inside: set[Reading] = set()

    def __call__(self) -> Reading:
        """For a new connection."""
        return _Guest(self._number, self._inside)


class _Guest(Reading):
    def __init__(self, number: int, inside: set[Reading]) -> None:
        super().__init__()
        self._number = number
        self._inside = inside

    def feed(self, data: bytes) -> bytes:
        """Stay outside when the rooms are full."""
        if len(self._inside - {self}) >= self._number:
            self.say(503, "no_room")
            return b""
        if re.match(rb"[A-Z]+ /", data) and HEAD_END not in data:
            self._inside.add(self)
        elif HEAD_END in data:
            self._inside.discard(self)
        return data

    def over(self) -> None:
        """Leave."""
        self._inside.discard(self)
