"""The circuit breaker's core, against a model of it, in virtual time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reference_server.settings import BreakerSettings
from reference_server.workers.breaker import Breaker, BreakerState, Outcome, outcome_of_status

SETTINGS = BreakerSettings(failure_threshold=3, success_threshold=2, timeout_s=10.0, window_s=100.0)


def _failures(breaker: Breaker, count: int, now: float = 0.0) -> None:
    for _ in range(count):
        breaker.record(Outcome.FAILURE, now)


def test_opens_at_the_threshold_and_not_before() -> None:
    """A breaker opens with the failure that reaches the threshold."""
    breaker = Breaker(SETTINGS)
    _failures(breaker, 2)
    assert breaker.state(0.0) is BreakerState.CLOSED
    _failures(breaker, 1)
    assert breaker.state(0.0) is BreakerState.OPEN
    assert not breaker.allows(0.0)


def test_a_success_resets_the_count() -> None:
    """Only failures in a row count."""
    breaker = Breaker(SETTINGS)
    _failures(breaker, 2)
    breaker.record(Outcome.SUCCESS, 0.0)
    _failures(breaker, 2)
    assert breaker.allows(0.0)


def test_uncounted_outcomes_neither_reset_nor_count() -> None:
    """A busy worker and a client that left say nothing about the worker."""
    breaker = Breaker(SETTINGS)
    _failures(breaker, 2)
    breaker.record(Outcome.UNCOUNTED, 0.0)
    assert breaker.allows(0.0)
    _failures(breaker, 1)
    assert not breaker.allows(0.0)


def test_failures_older_than_the_window_do_not_count() -> None:
    """Failures far apart never open a breaker."""
    breaker = Breaker(SETTINGS)
    for now in (0.0, 60.0, 120.0, 180.0):
        breaker.record(Outcome.FAILURE, now)
        assert breaker.allows(now)
    breaker.record(Outcome.FAILURE, 200.0)
    assert not breaker.allows(200.0)


def test_half_open_closes_after_enough_successes() -> None:
    """After its time an open breaker lets everything pass, and enough successes close it."""
    breaker = Breaker(SETTINGS)
    _failures(breaker, 3)
    assert breaker.state(9.9) is BreakerState.OPEN
    assert breaker.state(10.0) is BreakerState.HALF_OPEN
    breaker.record(Outcome.SUCCESS, 10.0)
    assert breaker.state(10.0) is BreakerState.HALF_OPEN
    breaker.record(Outcome.SUCCESS, 10.0)
    assert breaker.state(10.0) is BreakerState.CLOSED
    _failures(breaker, 2, 10.0)
    assert breaker.allows(10.0)


def test_half_open_opens_again_at_one_failure() -> None:
    """One failure while half-open opens the breaker for its whole time again."""
    breaker = Breaker(SETTINGS)
    _failures(breaker, 3)
    breaker.record(Outcome.SUCCESS, 10.0)
    breaker.record(Outcome.FAILURE, 11.0)
    assert breaker.state(20.9) is BreakerState.OPEN
    assert breaker.state(21.0) is BreakerState.HALF_OPEN
    breaker.record(Outcome.SUCCESS, 21.0)
    assert breaker.state(21.0) is BreakerState.HALF_OPEN


def test_a_disabled_breaker_never_opens() -> None:
    """With the breaker switched off no number of failures counts."""
    breaker = Breaker(BreakerSettings(enabled=False, failure_threshold=1))
    _failures(breaker, 50)
    assert breaker.allows(0.0)


def test_which_statuses_count() -> None:
    """Timeouts and broken servers count against a worker, busy ones not at all, everything else speaks for it."""
    counted = {status: outcome_of_status(status) for status in range(200, 600)}
    assert {status for status, outcome in counted.items() if outcome is Outcome.FAILURE} == {408, 500, 502, 503, 504}
    assert {status for status, outcome in counted.items() if outcome is Outcome.UNCOUNTED} == {429}


class BreakerMachine(RuleBasedStateMachine):
    """A breaker beside a history that is read naively each time."""

    @initialize(
        threshold=st.integers(1, 4),
        needed=st.integers(1, 3),
        timeout_s=st.floats(0.5, 30),
    )
    def begin(self, threshold: int, needed: int, timeout_s: float) -> None:
        """Any settings with a window that never matters."""
        self.settings = BreakerSettings(
            failure_threshold=threshold, success_threshold=needed, timeout_s=timeout_s, window_s=1e9
        )
        self.breaker = Breaker(self.settings)
        self.now = 0.0
        self.streak = 0
        self.opened_at: float | None = None
        self.successes = 0

    def _model(self) -> BreakerState:
        if self.opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if self.now - self.opened_at >= self.settings.timeout_s else BreakerState.OPEN

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds: float) -> None:
        """Time only moves on."""
        self.now += seconds

    @rule(outcome=st.sampled_from(Outcome))
    def outcome(self, outcome: Outcome) -> None:
        """An outcome arrives, also one of a request sent long ago."""
        state = self._model()
        self.breaker.record(outcome, self.now)
        if outcome is Outcome.UNCOUNTED or state is BreakerState.OPEN:
            return
        if outcome is Outcome.FAILURE:
            self.streak += 1
            if state is BreakerState.HALF_OPEN or self.streak >= self.settings.failure_threshold:
                self.opened_at, self.streak, self.successes = self.now, 0, 0
        elif state is BreakerState.CLOSED:
            self.streak = 0
        else:
            self.successes += 1
            if self.successes >= self.settings.success_threshold:
                self.opened_at, self.streak, self.successes = None, 0, 0

    @invariant()
    def agrees(self) -> None:
        """State and permission are those of the model."""
        if hasattr(self, "breaker"):
            assert self.breaker.state(self.now) is self._model()
            assert self.breaker.allows(self.now) == (self._model() is not BreakerState.OPEN)


TestBreakerMachine = BreakerMachine.TestCase
