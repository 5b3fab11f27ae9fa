"""The retry schedule's core."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.settings import RetrySettings
from reference_server.workers.retry import RetrySchedule, is_retried


def _pauses(settings: RetrySettings, draw: float = 0.5) -> list[float]:
    """The pauses of a request whose every attempt fails."""
    schedule = RetrySchedule(settings, lambda: draw)
    pauses: list[float] = []
    while True:
        schedule.begin()
        pause_s = schedule.pause_s()
        if pause_s is None:
            return pauses
        pauses.append(pause_s)


def test_attempts_include_the_first() -> None:
    """The setting counts all attempts, so five attempts have four pauses."""
    assert len(_pauses(RetrySettings(max_attempts=5))) == 4
    assert _pauses(RetrySettings(max_attempts=1)) == []


def test_pauses_grow_by_the_multiplier_up_to_the_longest() -> None:
    """Without jitter each pause is the last one times the multiplier, never above the longest."""
    settings = RetrySettings(
        max_attempts=6, initial_backoff_ms=100, max_backoff_ms=500, backoff_multiplier=2, jitter_factor=0
    )
    assert _pauses(settings) == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])


@given(
    settings=st.builds(
        RetrySettings,
        max_attempts=st.integers(1, 40),
        initial_backoff_ms=st.integers(0, 10**6),
        max_backoff_ms=st.integers(0, 10**6),
        backoff_multiplier=st.floats(1, 1e300),
        jitter_factor=st.floats(0, 1),
    ),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_pauses_are_bounded_whatever_is_configured(settings: RetrySettings, draw: float) -> None:
    """No setting makes a pause negative, endless or longer than the longest allowed."""
    pauses = _pauses(settings, draw)
    assert len(pauses) == settings.max_attempts - 1
    assert all(0 <= pause_s <= settings.max_backoff_ms / 1000 for pause_s in pauses)


@pytest.mark.parametrize("draw", [0.0, 0.25, 0.999])
def test_jitter_stays_within_its_share(draw: float) -> None:
    """A jitter of 0.2 moves a pause by at most a fifth either way."""
    (pause_s,) = _pauses(RetrySettings(max_attempts=2, initial_backoff_ms=1000, jitter_factor=0.2), draw)
    assert 0.8 <= pause_s <= 1.2


@pytest.mark.parametrize("status", range(200, 600))
def test_which_statuses_are_repeated(status: int) -> None:
    """Busy and passing trouble is repeated anywhere, a 500 only on another worker, nothing else."""
    assert is_retried(status, another_worker=False) == (status in {408, 429, 502, 503, 504})
    assert is_retried(status, another_worker=True) == (status in {408, 429, 500, 502, 503, 504})


def test_a_stale_connection_costs_an_attempt_while_there_are_some() -> None:
    """Replacing dead connections gives a worker no more requests than it would get otherwise."""
    schedule = RetrySchedule(RetrySettings(max_attempts=3), lambda: 0.5)
    granted = 0
    schedule.begin()
    while schedule.attempts < 3:
        assert schedule.may_replace_stale()
        schedule.begin()
        granted += 1
    assert granted == 2


def test_a_stale_connection_is_replaced_once_beyond_the_attempts() -> None:
    """Without retries a dead pooled connection is still replaced, once."""
    schedule = RetrySchedule(RetrySettings(max_attempts=1), lambda: 0.5)
    schedule.begin()
    assert schedule.may_replace_stale()
    schedule.begin()
    assert not schedule.may_replace_stale()
