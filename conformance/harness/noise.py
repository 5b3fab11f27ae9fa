"""How late this machine is: tolerances for times are measured, not hoped for."""

from __future__ import annotations

import time
from dataclasses import dataclass

ROUNDS = 40
SLEEP_S = 0.002


@dataclass(frozen=True)
class Noise:
    """The worst delay of a short sleep seen at the start of the run, in seconds."""

    worst_s: float

    @property
    def margin_s(self) -> float:
        """What this machine may add to a limit: ten times the worst delay seen, at least 50 ms."""
        return max(0.05, 10 * self.worst_s)

    def allow(self, limit_s: float) -> float:
        """A limit of the contract plus what this machine may add."""
        return limit_s + self.margin_s


def measure() -> Noise:
    """Measure for about a tenth of a second."""
    worst = 0.0
    for _ in range(ROUNDS):
        before = time.monotonic()
        time.sleep(SLEEP_S)
        worst = max(worst, time.monotonic() - before - SLEEP_S)
    return Noise(worst)
