"""Health of one worker from repeated probes: a plain object that is told results and times.

`failure_threshold` failed probes in a row make it unhealthy, `success_threshold` good ones in a row healthy again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.settings import HealthSettings


class HealthState:
    """Starts healthy, because a worker is registered by a probe that succeeded."""

    def __init__(self, settings: HealthSettings, now: float) -> None:
        self._settings = settings
        self._healthy = True
        self._against = 0  # consecutive results that contradict the present state
        self._due = now + settings.interval_s

    @property
    def healthy(self) -> bool:
        """Whether requests may be sent."""
        return self._healthy

    @property
    def due(self) -> float:
        """When the next probe is due."""
        return self._due

    def begin(self, now: float) -> None:
        """A probe begins; the next one is due an interval after this beginning, whatever this one takes."""
        self._due = now + self._settings.interval_s

    def record(self, *, ok: bool) -> bool:
        """Take in a probe's result; returns whether the state changed."""
        if ok == self._healthy:
            self._against = 0
            return False
        self._against += 1
        needed = self._settings.success_threshold if ok else self._settings.failure_threshold
        if self._against < needed:
            return False
        self._healthy = ok
        self._against = 0
        return True
