"""A lenient reader of chunks, which gives the requests that it takes a length."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.mutants.fronts import CHUNKED, HEAD_END, LENGTH, Reading

if TYPE_CHECKING:
    from collections.abc import Callable

_STRICT_SIZE = re.compile(rb"([0-9a-fA-F]{1,16})\r\n")


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
        if not found or not CHUNKED.search(head + b"\r\n") or LENGTH.search(head + b"\r\n") or _strict(rest):
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
        head = CHUNKED.sub(b"", head + b"\r\n")
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
