"""When requests are due: arrivals of an open loop, seeded, as offsets in seconds from the start of a process.

A schedule knows nothing of how the gateway fares, so a slow answer never thins out the load that follows it (no
coordinated omission).
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Pattern = Literal["constant", "poisson"]
PATTERNS: tuple[Pattern, ...] = ("constant", "poisson")


def offsets(pattern: Pattern, rate: float, seed: str) -> Iterator[float]:
    """Yield the offsets at which requests are due, without end.

    Args:
        pattern: "constant" is one every 1/rate seconds, "poisson" has exponential gaps with that mean.
        rate: arrivals per second, above 0.
        seed: the same words give the same Poisson arrivals.

    Raises:
        ValueError: rate is not a positive number, or the pattern is unknown.
    """
    if not (rate > 0 and math.isfinite(rate)):
        raise ValueError(f"rate {rate!r}: arrivals per second must be a number above 0")
    if pattern == "constant":
        return (number / rate for number in itertools.count(1))
    if pattern == "poisson":
        dice = random.Random(seed)
        return itertools.accumulate(dice.expovariate(rate) for _ in itertools.repeat(None))
    raise ValueError(f"pattern {pattern!r}: there are {', '.join(PATTERNS)}")
