"""Circuit breaker of one worker: a plain object that is told outcomes and times and says whether to send.

Closed until `failure_threshold` failures in a row, however far apart, then open for `timeout_s`, then half-open: every
request may pass, `success_threshold` successes close it, one failure opens it again. A worker that its probes find well
again is half-open at once.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """The state machine; times are seconds of any clock that does not go back.

    `moved` is called with the states before and after each transition. That from open to half-open happens by the
    passing of time, and is told when the breaker is next asked or told something.
    """

    def __init__(
        self, settings: BreakerSettings, moved: Callable[[BreakerState, BreakerState], None] | None = None
    ) -> None:
        self._settings = settings
        self._moved = moved
        self._told = BreakerState.CLOSED  # the state that `moved` was told last
        self._half_open_at: float | None = None  # while it is not closed
        self._in_a_row = 0  # failures while closed, successes while half-open

    def state(self, now: float) -> BreakerState:
        """The state at `now`; asking changes nothing."""
        half_open_at = self._half_open_at  # read once: the metrics ask from a thread of their own
        if half_open_at is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if now >= half_open_at else BreakerState.OPEN

    def allows(self, now: float) -> bool:
        """Whether a request may be sent at `now`."""
        self._tell(now)
        return self.state(now) is not BreakerState.OPEN

    def record(self, outcome: Outcome, now: float) -> None:
        """Take in one outcome. Late outcomes of requests sent before it opened change nothing while it is open."""
        if not self._settings.enabled or outcome is Outcome.UNCOUNTED:
            return
        self._tell(now)
        state = self.state(now)
        if state is BreakerState.CLOSED:
            self._record_closed(outcome, now)
        elif state is BreakerState.HALF_OPEN:
            self._record_half_open(outcome, now)
        self._tell(now)

    def recovered(self, now: float) -> None:
        """Probes have failed and succeed again: what is left of the time for which it is open is waived."""
        self._tell(now)
        if self.state(now) is BreakerState.OPEN:
            self._half_open_at = now
            self._tell(now)

    def _record_closed(self, outcome: Outcome, now: float) -> None:
        self._in_a_row = self._in_a_row + 1 if outcome is Outcome.FAILURE else 0
        if self._in_a_row >= self._settings.failure_threshold:
            self._open(now)

    def _record_half_open(self, outcome: Outcome, now: float) -> None:
        if outcome is Outcome.FAILURE:
            self._open(now)
            return
        self._in_a_row += 1
        if self._in_a_row >= self._settings.success_threshold:
            self._half_open_at = None
            self._in_a_row = 0

    def _open(self, now: float) -> None:
        self._half_open_at = now + self._settings.timeout_s
        self._in_a_row = 0

    def _tell(self, now: float) -> None:
        before, self._told = self._told, self.state(now)
        if self._moved is not None and before is not self._told:
            self._moved(before, self._told)
