"""When a quiet event stream gets a ping: a plain object that is told what was sent and when.

A ping is due after an interval without a byte, pings included, and again after each further one. It may be sent where
one event has ended and the next has not begun: anywhere else it would become part of somebody's event. (Clauses under
`chat.stream.keepalive`.)
"""

from __future__ import annotations

PING = b": ping\n\n"
"""A comment and the blank line behind it: an event stream's client ignores both."""

_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r\n", b"\r\r\n")
_LONGEST_BLANK_LINE = max(map(len, _BLANK_LINES))


class EventBoundary:
    r"""Whether an event stream stands between two events, however its bytes are cut into pieces.

    Lines end with LF, CR LF or CR, and an event ends with an empty line. A CR behind an LF is not taken for that line
    yet, because the LF that belongs to it is still to come.
    """

    def __init__(self) -> None:
        self._tail = b"\n\n"  # the beginning of a stream is a boundary

    def feed(self, data: bytes) -> None:
        """Take in bytes of the stream."""
        self._tail = (self._tail + data[-_LONGEST_BLANK_LINE:])[-_LONGEST_BLANK_LINE:]

    @property
    def reached(self) -> bool:
        """Whether what came so far ends with an event's end, or nothing came at all."""
        return self._tail.endswith(_BLANK_LINES)


class Keepalive:
    """The pings of one stream. Times are seconds of any clock that does not go back.

    Silence begins at `now`, when the response is open, and anew with whatever is sent.
    """

    def __init__(self, interval_s: float, now: float) -> None:
        self._interval_s = interval_s
        self._last_sent_at = now
        self._boundary = EventBoundary()
        self._ended = False

    def sent(self, data: bytes, now: float) -> None:
        """Bytes of the worker have been sent to the client."""
        self._boundary.feed(data)
        self._last_sent_at = now

    def pinged(self, now: float) -> None:
        """A ping has been sent to the client."""
        self._last_sent_at = now

    def end(self) -> None:
        """The body has come to its end or broken off; nothing is sent any more."""
        self._ended = True

    def due(self) -> float | None:
        """When the next ping is to be sent if nothing else is before; `None`: not before more of the body came."""
        if self._ended or not self._boundary.reached:
            return None
        return self._last_sent_at + self._interval_s

    def is_due(self, now: float) -> bool:
        """Whether a ping is to be sent now."""
        due = self.due()
        return due is not None and now >= due
