"""The retry schedule's core."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from reference_server.settings import RetrySettings
from reference_server.workers.retry import RetrySchedule, is_retried
from tests.machines import CountingMachine, run_at_length


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


@pytest.mark.parametrize(("attempts", "exhausted"), [(1, False), (2, True), (3, False)])
def test_exhaustion_is_a_wish_that_was_not_granted(attempts: int, exhausted: bool) -> None:
    """Where repeating is switched off nothing is exhausted, and neither where an attempt is left."""
    schedule = RetrySchedule(RetrySettings(max_attempts=attempts), lambda: 0.5)
    for _ in range(2):
        schedule.begin()
        schedule.pause_s()
    assert schedule.exhausted == exhausted


class RetryMachine(CountingMachine):
    """One client request after the other, each failing in any way until nobody wants to go on.

    Invariants: never more attempts than allowed, save one for a connection that was dead in the pool; every pause lies
    within the jitter's share of the initial one times the multiplier to the power of the pauses before, and never above
    the longest; a dead connection costs no pause; where an attempt is left it is granted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.settings = RetrySettings()
        self._new()

    def _new(self) -> None:
        self.schedule = RetrySchedule(self.settings, lambda: self.draw)
        self.schedule.begin()
        self.draw = 0.5
        self.begun = 1
        self.pauses = 0
        self.spare_used = False
        self.over = False

    @initialize(
        settings=st.builds(
            RetrySettings,
            max_attempts=st.integers(1, 8),
            initial_backoff_ms=st.integers(1, 1000),
            max_backoff_ms=st.integers(1, 5000),
            backoff_multiplier=st.floats(1, 10),
            jitter_factor=st.floats(0, 1),
        )
    )
    def begin(self, settings: RetrySettings) -> None:
        """Any settings that an operator can write."""
        self.settings = settings
        self._new()

    @rule()
    def the_next_request(self) -> None:
        """A request of another client has a schedule of its own."""
        self._new()

    @rule(draw=st.floats(0, 1, exclude_max=True))
    def an_attempt_fails(self, draw: float) -> None:
        """The worker was busy, or the transport failed."""
        if self.over:
            self._new()
        self.draw = draw
        pause_s = self.schedule.pause_s()
        if self.begun >= self.settings.max_attempts:
            assert pause_s is None
            self.over = True
            return
        assert pause_s is not None
        self._check(pause_s)
        self.pauses += 1
        self._attempt()

    def _check(self, pause_s: float) -> None:
        settings = self.settings
        longest_s = settings.max_backoff_ms / 1000
        base_s = min(settings.initial_backoff_ms / 1000 * settings.backoff_multiplier**self.pauses, longest_s)
        low, high = base_s * (1 - settings.jitter_factor), base_s * (1 + settings.jitter_factor)
        assert low * 0.999999 <= pause_s <= min(high * 1.000001, longest_s)

    @rule()
    def a_pooled_connection_was_dead(self) -> None:
        """It was closed by the worker's keep-alive timer before the request came."""
        if self.over:
            self._new()
        granted = self.schedule.may_replace_stale()
        left = self.begun < self.settings.max_attempts
        assert granted == (left or not self.spare_used)
        if not granted:
            self.over = True
            return
        self.spare_used = self.spare_used or not left
        self._attempt()

    def _attempt(self) -> None:
        self.schedule.begin()
        self.begun += 1

    @invariant()
    def attempts_are_bounded(self) -> None:
        """Counted alike on both sides, and at most one beyond the setting."""
        assert self.schedule.attempts == self.begun <= self.settings.max_attempts + self.spare_used


def test_no_request_is_repeated_too_often_or_at_the_wrong_time() -> None:
    """Over ten thousand failures of any kind the bounds of number and time hold."""
    run_at_length(RetryMachine)
