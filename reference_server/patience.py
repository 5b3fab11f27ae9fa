"""How long a connection may keep the server waiting: a plain object that is told what happens on it and when.

A head has `head_timeout_s` to be complete: the first one from the moment the connection was accepted, each further one
from its first byte. Between two requests there are `idle_timeout_s` in all. While a request is under way, however
silent its answer is, the connection waits for us and not we for it. A timeout of 0 is none.
"""

from __future__ import annotations


class Patience:
    """The deadline of one connection. Times are seconds of any clock that does not go back."""

    def __init__(self, head_timeout_s: float, idle_timeout_s: float, now: float) -> None:
        self._head_timeout_s = head_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._idle_since: float | None = None
        self._head_began_at: float | None = now
        self._busy = False

    def bytes_came(self, now: float) -> bool:
        """Bytes came from the client; returns whether that changed the deadline (they begin a head)."""
        if self._busy or self._head_began_at is not None:
            return False
        self._head_began_at = now
        return bool(self._head_timeout_s)

    def request_began(self) -> None:
        """A head is complete: from now on the client waits."""
        self._busy = True

    def request_ended(self, now: float) -> None:
        """No request is under way any more."""
        self._busy = False
        self._head_began_at = None
        self._idle_since = now

    def deadline(self) -> float | None:
        """When to close the connection if nothing happens before; `None`: never."""
        if self._busy:
            return None
        begun = ((self._head_began_at, self._head_timeout_s), (self._idle_since, self._idle_timeout_s))
        return min((since + limit for since, limit in begun if since is not None and limit), default=None)
