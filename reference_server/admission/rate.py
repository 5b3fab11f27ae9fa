"""Requests per second: a bucket of tokens that fills continuously. Sans-I/O: it is told the time."""

from __future__ import annotations

_WHOLE = 1.0 - 1e-6  # a token is there although adding up its fractions has lost a little of it


class RequestRate:
    """At most `burst` requests at once, and `per_second` in the long run (`--rate-limit-tokens-per-second`).

    The bucket is full at first.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = self._burst
        self._filled_at: float | None = None

    def ready(self, now: float) -> bool:
        """Whether a request may pass at `now`."""
        self._fill(now)
        return self._tokens >= _WHOLE

    def take(self, now: float) -> None:
        """One request passes; ask `ready` first."""
        self._fill(now)
        self._tokens = max(0.0, self._tokens - 1.0)

    def ready_at(self, now: float) -> float:
        """When the next request may pass if none passes before."""
        self._fill(now)
        return now + max(0.0, 1.0 - self._tokens) / self._per_second

    def _fill(self, now: float) -> None:
        if self._filled_at is not None and now > self._filled_at:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._per_second)
        if self._filled_at is None or now > self._filled_at:
            self._filled_at = now
