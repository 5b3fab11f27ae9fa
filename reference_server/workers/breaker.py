"""Circuit breaker of one worker: a plain object that is told outcomes and times and says whether to send.

Closed until `failure_threshold` failures in a row (none older than `window_s` before the newest), then open for
`timeout_s`, then half-open: every request may pass, `success_threshold` successes close it, one failure opens it again.
One outcome per client request and worker, however many attempts that took.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.settings import BreakerSettings

FAILURE_STATUSES = frozenset({408, 500, 502, 503, 504})
UNCOUNTED_STATUSES = frozenset({429})  # busy is not broken


class BreakerState(Enum):
    """The three states; the values are those of the usual metrics gauge."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Outcome(Enum):
    """How one client request went on one worker. A client that went away tells nothing about the worker."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNCOUNTED = "uncounted"


def outcome_of_status(status: int) -> Outcome:
    """The outcome of a complete answer with this status: client errors speak for the worker, not against it."""
    if status in FAILURE_STATUSES:
        return Outcome.FAILURE
    return Outcome.UNCOUNTED if status in UNCOUNTED_STATUSES else Outcome.SUCCESS


class Breaker:
    """The state machine; times are seconds of any clock that does not go back."""

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._failures: deque[float] = deque(maxlen=max(1, settings.failure_threshold))
        self._opened_at: float | None = None
        self._half_open_successes = 0

    def state(self, now: float) -> BreakerState:
        """The state at `now`; an open breaker becomes half-open by the passing of time alone."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        waited = now - self._opened_at >= self._settings.timeout_s
        return BreakerState.HALF_OPEN if waited else BreakerState.OPEN

    def allows(self, now: float) -> bool:
        """Whether a request may be sent at `now`."""
        return self.state(now) is not BreakerState.OPEN

    def record(self, outcome: Outcome, now: float) -> None:
        """Take in one outcome. Late outcomes of requests sent before it opened change nothing while it is open."""
        if not self._settings.enabled or outcome is Outcome.UNCOUNTED:
            return
        state = self.state(now)
        if state is BreakerState.CLOSED:
            self._record_closed(outcome, now)
        elif state is BreakerState.HALF_OPEN:
            self._record_half_open(outcome, now)

    def _record_closed(self, outcome: Outcome, now: float) -> None:
        if outcome is Outcome.SUCCESS:
            self._failures.clear()
            return
        self._failures.append(now)
        full = len(self._failures) == self._failures.maxlen
        if full and now - self._failures[0] <= self._settings.window_s:
            self._open(now)

    def _record_half_open(self, outcome: Outcome, now: float) -> None:
        if outcome is Outcome.FAILURE:
            self._open(now)
            return
        self._half_open_successes += 1
        if self._half_open_successes >= self._settings.success_threshold:
            self._opened_at = None
            self._half_open_successes = 0
            self._failures.clear()

    def _open(self, now: float) -> None:
        self._opened_at = now
        self._half_open_successes = 0
        self._failures.clear()
