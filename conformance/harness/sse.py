"""Server-sent events as the HTML standard parses them, with the time and the bytes of each event.

The parser is fed whatever the body brought, in any cut; an event or a comment is timed by the read that completed it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DONE = "[DONE]"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Event:
    """One event: `data` lines joined by a line feed.

    The `event` field (empty: message), the id field, bytes and time.
    """

    data: str
    event: str = ""
    last_id: str | None = None
    raw: bytes = b""
    at: float = 0.0

    @property
    def is_done(self) -> bool:
        """Whether this is the end mark of OpenAI streams."""
        return self.data == DONE

    @property
    def json(self) -> Any:
        """The data as JSON; an AssertionError if it is none."""
        try:
            return json.loads(self.data)
        except ValueError as problem:
            raise AssertionError(f"the data of an event is not JSON ({problem}): {self.data[:200]!r}") from None


@dataclass(frozen=True)
class Comment:
    """One comment line, without its leading colon; `inside` when it came before the blank line of a begun event."""

    text: str
    at: float
    inside: bool = False


@dataclass
class SseParser:
    """Incremental parser; `events` and `comments` grow as it is fed."""

    events: list[Event] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    _buffer: bytes = b""
    _raw: bytes = b""
    _data: list[str] = field(default_factory=list)
    _event: str = ""
    _id: str | None = None
    _after_cr: bool = False
    _started: bool = False

    def feed(self, data: bytes, at: float) -> None:
        """Take the next bytes of the body, which arrived at `at` (monotonic seconds)."""
        if self._after_cr and data:
            # The CR ended its line already; a LF that follows belongs to the same line end.
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        self._buffer += data
        if not self._started:
            if self._buffer != BOM and BOM.startswith(self._buffer):
                return  # it may still become a byte order mark
            self._buffer = self._buffer.removeprefix(BOM)
            self._started = True
        while (line := self._take_line()) is not None:
            self._line(line, at)

    @property
    def unfinished(self) -> bytes:
        """Bytes that belong to no complete event yet; a stream that ends here loses them."""
        return self._raw + self._buffer

    def _take_line(self) -> bytes | None:
        """The next whole line without its end, which may be CRLF, LF or CR."""
        ends = [i for i in (self._buffer.find(b"\r"), self._buffer.find(b"\n")) if i >= 0]
        if not ends:
            return None
        end = min(ends)
        line, rest = self._buffer[:end], self._buffer[end + 1 :]
        if self._buffer[end : end + 1] == b"\r":
            if rest.startswith(b"\n"):
                rest = rest[1:]
            elif not rest:
                self._after_cr = True
        self._raw += self._buffer[: len(self._buffer) - len(rest)]
        self._buffer = rest
        return line

    def _line(self, line: bytes, at: float) -> None:
        if not line:
            self._dispatch(at)
            return
        text = line.decode("utf-8", errors="replace")
        if text.startswith(":"):
            self.comments.append(Comment(text[1:], at, inside=bool(self._data or self._event)))
            if not self._data and not self._event:
                self._raw = b""
            return
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self, at: float) -> None:
        if self._data:
            self.events.append(Event("\n".join(self._data), self._event, self._id, self._raw, at))
        self._data, self._event, self._raw = [], "", b""
