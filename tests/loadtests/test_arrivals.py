"""When requests are due."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest

from loadtests.arrivals import offsets


def test_constant_arrivals_are_evenly_apart() -> None:
    """Constant arrivals come one every 1/rate seconds."""
    assert list(itertools.islice(offsets("constant", 4, "x"), 4)) == [0.25, 0.5, 0.75, 1.0]


def test_poisson_arrivals_have_the_rate_and_its_spread() -> None:
    """Gaps of Poisson arrivals have mean and standard deviation 1/rate, as an exponential distribution has."""
    times = list(itertools.islice(offsets("poisson", 50, "seed"), 20_000))
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert statistics.pstdev(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert min(gaps) >= 0


def test_a_seed_repeats_its_arrivals() -> None:
    """The same seed gives the same arrivals, another one others."""
    first, again, other = (list(itertools.islice(offsets("poisson", 5, seed), 9)) for seed in ("a", "a", "b"))
    assert first == again != other


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    """Arrivals need a number above 0."""
    with pytest.raises(ValueError, match="above 0"):
        offsets("constant", rate, "x")


def test_an_unknown_pattern_is_refused() -> None:
    """The patterns there are are named."""
    with pytest.raises(ValueError, match="constant, poisson"):
        offsets("bursty", 1, "x")  # type: ignore[arg-type]  # that is the point
