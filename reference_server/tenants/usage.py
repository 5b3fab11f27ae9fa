"""What a worker says a request has taken: the `usage` of its answer, read in passing.

Only what a worker reports whole and plainly counts: two numbers of tokens, neither negative. Everything else is no
report. Readers hold a bounded part of an answer and never raise, whatever a worker sends.
"""

from __future__ import annotations

import json
import re
from typing import Any

_MOST_TOKENS = 2**53
LONGEST_EVENT_BYTES = 1024 * 1024
LONGEST_DOCUMENT_BYTES = 16 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")


class DocumentUsage:
    """The usage of an answer that is one JSON document."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._room = LONGEST_DOCUMENT_BYTES

    def feed(self, data: bytes) -> int | None:
        """Take in a piece; nothing is known before the end."""
        self._room -= len(data)
        if self._room >= 0:
            self._pieces.append(data)
        else:
            self._pieces.clear()
        return None

    def finish(self) -> int | None:
        """The tokens of the complete answer; `None`: not reported."""
        return _reported(b"".join(self._pieces))


class StreamUsage:
    """The usage of a stream of server-sent events: the last one reported before `[DONE]` or the end of the body."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line under way
        self._line_is_empty = True
        self._data: list[bytes] = []  # data lines of the event under way
        self._size = 0  # of the event; beyond the limit nothing more of it is kept
        self._after_return = False  # a line feed would belong to the line that has ended
        self._tokens: int | None = None

    def feed(self, data: bytes) -> int | None:
        """Take in a piece; the tokens once `[DONE]` has come, for a client may leave right behind it."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
            self._after_return = False
        if not data:
            return None
        self._after_return = data.endswith(b"\r")
        first, *others = _LINE_END.split(data)
        self._hold(first)
        done = False
        for other in others:
            done = self._end_line() or done
            self._hold(other)
        return self._tokens if done else None

    def finish(self) -> int | None:
        """The tokens of the complete answer; `None`: not reported. An event without its blank line counts as well."""
        self._end_line()
        self._end_event()
        return self._tokens

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._line_is_empty = False
        self._size += len(piece)
        if self._size <= LONGEST_EVENT_BYTES:
            self._line.append(piece)

    def _end_line(self) -> bool:
        """Returns whether the line ended the event `[DONE]`."""
        if self._line_is_empty:
            return self._end_event()
        line = b"".join(self._line)
        self._line.clear()
        self._line_is_empty = True
        if line.startswith(b"data:"):
            self._data.append(line[5:])
        return False

    def _end_event(self) -> bool:
        event = b"\n".join(self._data).strip()
        is_whole = self._size <= LONGEST_EVENT_BYTES
        self._data.clear()
        self._size = 0
        if is_whole and b'"usage"' in event:
            tokens = _reported(event)
            self._tokens = self._tokens if tokens is None else tokens
        return event == b"[DONE]"


def _reported(document: bytes) -> int | None:
    try:
        value = json.loads(document)
    except (ValueError, RecursionError):
        return None
    usage: Any = value.get("usage") if isinstance(value, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens", 0)]
    if all(type(count) is int and 0 <= count <= _MOST_TOKENS for count in counts):
        return int(sum(counts))
    return None
