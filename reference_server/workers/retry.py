"""When a request is repeated, and after how long: a plain object, one per client request.

Repeated: the statuses of busy or passing trouble, and failures of the transport. A 500 is repeated only where another
worker can be asked, because asking the same one again would most likely meet the same fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.settings import RetrySettings

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
RETRIED_ELSEWHERE_STATUSES = frozenset({500})


def is_retried(status: int, *, another_worker: bool) -> bool:
    """Whether a worker's answer with this status may be repeated; `another_worker`: one not yet tried is available."""
    return status in RETRIED_STATUSES or (another_worker and status in RETRIED_ELSEWHERE_STATUSES)


class RetrySchedule:
    """Counts attempts and hands out pauses.

    `uniform` gives numbers from 0 up to 1, for the jitter.
    """

    def __init__(self, settings: RetrySettings, uniform: Callable[[], float]) -> None:
        self._settings = settings
        self._uniform = uniform
        self._attempts = 0
        self._pauses = 0
        self._spare = True
        self._refused = False

    @property
    def attempts(self) -> int:
        """How many attempts were begun."""
        return self._attempts

    @property
    def exhausted(self) -> bool:
        """Whether an attempt was wanted where repeating is allowed at all, and none was left."""
        return self._refused and self._settings.max_attempts > 1

    def begin(self) -> None:
        """An attempt begins."""
        self._attempts += 1

    def pause_s(self) -> float | None:
        """Seconds to wait before the next attempt, growing each time; `None` when no attempt is left."""
        if self._attempts >= self._settings.max_attempts:
            self._refused = True
            return None
        settings = self._settings
        longest = settings.max_backoff_ms / 1000
        try:
            base = settings.initial_backoff_ms / 1000 * settings.backoff_multiplier**self._pauses
        except OverflowError:
            base = longest
        self._pauses += 1
        spread = 1 + settings.jitter_factor * (2 * self._uniform() - 1)
        return max(0.0, min(min(base, longest) * spread, longest))

    def may_replace_stale(self) -> bool:
        """Whether to go on at once after a pooled connection turned out to be dead before a byte came.

        Counted as an attempt like any other while there are attempts left, so a worker never sees more requests than
        it would otherwise. Beyond that it is granted once, because the worker was not at fault.
        """
        if self._attempts < self._settings.max_attempts:
            return True
        spare, self._spare = self._spare, False
        return spare
