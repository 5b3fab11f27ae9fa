"""Lenient readers of HTTP/1.1, one a connection, for gateways that take what they must refuse.

A reader stands before the reference server. What it takes too kindly it writes anew, so that the server, which would
have refused it, serves it; whatever its vice is not about passes byte by byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_END = b"\r\n\r\n"
_CHUNKED = re.compile(rb"(?i)\r\ntransfer-encoding: *chunked *(?=\r\n)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+) *(?=\r\n)")
_MOST_BYTES = 1 << 24
_STRICT_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})\r\n")


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


@dataclass(frozen=True)
class ChunkRules:
    """How leniently chunks are read; strictly as they stand.

    Attributes:
        longest_line_bytes: of a chunk, its extensions included.
        size: of a chunk, from its line; a ValueError where it is none.
        line_end: what ends the line of a chunk.
        behind: what is left of the bytes that begin behind a chunk's data; a ValueError where these must not be there.
        trailers_are_fields: trailer fields are put into the head.
        unfinished: a client that ends has sent all it wanted.
        reads_on: the connection goes on, whatever was asked.
    """

    longest_line_bytes: int = 1000
    size: Callable[[bytes], int] = lambda line: int(_hexadecimal(line.partition(b";")[0]), 16)
    line_end: bytes = rb"\r\n"
    behind: Callable[[bytes], bytes] = lambda rest: _without(rest, b"\r\n")
    trailers_are_fields: bool = False
    unfinished: bool = False
    reads_on: bool = False


class Rechunking(Reading):
    """Gives requests in chunks a length, where a strict reader of chunks would find something odd in them."""

    def __init__(self, rules: ChunkRules) -> None:
        super().__init__()
        self._rules = rules
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Hold an oddly chunked request back until its last chunk is here."""
        self._held += data
        head, found, rest = self._held.partition(HEAD_END)
        if not found or not _CHUNKED.search(head + b"\r\n") or _LENGTH.search(head + b"\r\n") or _strict(rest):
            return self._release()
        try:
            read = self._chunks(rest)
        except ValueError:
            return self._release()
        if read is None:
            return b""
        body, trailers, self._held = read
        return self._whole(head, body, trailers) + self._release()

    def end(self) -> bytes:
        """What was held back goes on, as a whole request where the rules take it for one."""
        head, found, rest = self._held.partition(HEAD_END)
        if not self._rules.unfinished or not found:
            return self._release()
        body = b""
        while (line := re.match(rb"([0-9a-f]+)\r\n", rest)) and int(line[1], 16):
            at = line.end() + int(line[1], 16)
            body, rest = body + rest[line.end() : at], rest[at + 2 :]
        self._held = b""
        self.passes_end = False
        return self._whole(head + b"\r\nConnection: close", body, b"")

    def _release(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _chunks(self, rest: bytes) -> tuple[bytes, bytes, bytes] | None:
        """The body, the trailers, and what lies behind; None while something is missing."""
        body = b""
        while line := re.search(self._rules.line_end, rest):
            if line.start() > self._rules.longest_line_bytes:
                raise ValueError("the line is too long")
            size, rest = self._rules.size(rest[: line.start()]), rest[line.end() :]
            if not size:
                blank = re.match(rb"\r?\n", rest)
                trailers = re.match(rb"((?:[^\r\n]+\r\n)*)\r\n", rest)
                if blank:
                    return body, b"", rest[blank.end() :]
                return (body, trailers[1], rest[trailers.end() :]) if trailers else None
            if len(rest) < size:
                return None
            body, rest = body + rest[:size], self._rules.behind(rest[size:])
        if len(rest) > self._rules.longest_line_bytes:
            raise ValueError("the line is too long")
        return None

    def _whole(self, head: bytes, body: bytes, trailers: bytes) -> bytes:
        """The request with a length."""
        if self._rules.reads_on:
            head = re.sub(rb"(?i)\r\nconnection: close", b"", head)
        if self._rules.trailers_are_fields:
            fields = [
                line for line in trailers.split(b"\r\n") if line and not line.lower().startswith(b"content-length")
            ]
            for name in (line.partition(b":")[0] for line in fields):
                head = re.sub(rb"(?i)\r\n" + re.escape(name) + rb":[^\r\n]*", b"", head)
            head = b"\r\n".join([head, *fields])
        head = _CHUNKED.sub(b"", head + b"\r\n")
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _strict(rest: bytes) -> bool:
    """Whether these chunks are complete, as plain as they can be."""
    while line := _STRICT_SIZE.match(rest):
        size = int(line[1], 16)
        if not size:
            return rest[line.end() :].startswith(b"\r\n")
        if rest[line.end() + size :][:2] != b"\r\n":
            return False
        rest = rest[line.end() + size + 2 :]
    return False


def _hexadecimal(digits: bytes) -> bytes:
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", digits):
        raise ValueError("no size")
    return digits


def _without(rest: bytes, start: bytes) -> bytes:
    if not rest.startswith(start[: len(rest)]):
        raise ValueError("the line end is missing")
    return rest[len(start) :]


class Shortening(Reading):
    """Takes a body that is shorter than its declared length for whole once the client has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Hold a request back until all of it is here."""
        self._held += data
        head, found, rest = self._held.partition(HEAD_END)
        length = _LENGTH.search(head + b"\r\n")
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
        head = _LENGTH.sub(b"", head + b"\r\n")
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
        length = _LENGTH.search(head + b"\r\n")
        if not found or not length or not _is_odd(rest[: int(length[1])]):
            return data
        return _LENGTH.sub(b"", head + b"\r\n") + b"Content-Length: %d\r\n\r\n" % len(rest) + rest


def _is_odd(body: bytes) -> bool:
    try:
        return bool(re.search("[\0-\x08\ufeff]", body.decode()))
    except UnicodeDecodeError:
        return True


class Overflowing(Reading):
    """Refuses what is larger than a limit on its head, and takes the body for the next request."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self._limit_bytes = limit_bytes

    def feed(self, data: bytes) -> bytes:
        """Go on behind the head."""
        head, found, rest = data.partition(HEAD_END)
        length = _LENGTH.search(head + b"\r\n")
        if not found or not length or int(length[1]) <= self._limit_bytes or not rest.startswith(b"POST /"):
            return data
        self.say(413, "payload_too_large", close=False)
        return rest


class Regretting(Reading):
    """Passes a request with two framings on with one, and answers with 400 what was served."""

    def __init__(self) -> None:
        super().__init__()
        self._two = False

    def feed(self, data: bytes) -> bytes:
        """Keep the chunks."""
        head, found, rest = data.partition(HEAD_END)
        self._two = bool(_CHUNKED.search(head + b"\r\n") and _LENGTH.search(head + b"\r\n"))
        return _LENGTH.sub(b"", head + b"\r\n")[:-2] + b"\r\nConnection: close" + found + rest if self._two else data

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
