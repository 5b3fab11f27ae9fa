"""The circuit breaker's core, against a model of it, in virtual time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from reference_server.settings import BreakerSettings
from reference_server.workers.breaker import Breaker, BreakerState, Outcome, outcome_of_status
from tests.machines import CountingMachine, run_at_length

SETTINGS = BreakerSettings(failure_threshold=3, success_threshold=2, timeout_s=10.0)


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


def test_failures_count_however_old_they_are() -> None:
    """Failures in a row far apart open a breaker: only a success forgets them."""
    breaker = Breaker(SETTINGS)
    for now in (0.0, 1e6):
        breaker.record(Outcome.FAILURE, now)
        assert breaker.allows(now)
    breaker.record(Outcome.FAILURE, 2e6)
    assert not breaker.allows(2e6)


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


def test_a_worker_that_recovers_is_asked_again_at_once() -> None:
    """Probes that succeed again make an open breaker half-open before its time; they do not close it."""
    breaker = Breaker(SETTINGS)
    breaker.recovered(0.0)
    assert breaker.state(0.0) is BreakerState.CLOSED
    _failures(breaker, 3, 1.0)
    breaker.recovered(2.0)
    assert breaker.state(2.0) is BreakerState.HALF_OPEN
    breaker.record(Outcome.FAILURE, 3.0)
    assert breaker.state(12.9) is BreakerState.OPEN
    breaker.recovered(12.9)
    breaker.record(Outcome.SUCCESS, 13.0)
    breaker.recovered(13.0)
    breaker.record(Outcome.SUCCESS, 13.0)
    assert breaker.state(13.0) is BreakerState.CLOSED


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


def test_transitions_are_told_once_and_in_order() -> None:
    """Each transition is told with both states; that to half-open when the breaker is next asked."""
    told: list[tuple[BreakerState, BreakerState]] = []
    breaker = Breaker(SETTINGS, lambda before, after: told.append((before, after)))
    _failures(breaker, 3)
    assert breaker.state(10.0) is BreakerState.HALF_OPEN
    assert told == [(BreakerState.CLOSED, BreakerState.OPEN)]
    assert breaker.allows(10.0)
    breaker.record(Outcome.FAILURE, 11.0)
    breaker.record(Outcome.SUCCESS, 21.0)
    breaker.record(Outcome.SUCCESS, 21.0)
    assert told[1:] == [
        (BreakerState.OPEN, BreakerState.HALF_OPEN), (BreakerState.HALF_OPEN, BreakerState.OPEN),
        (BreakerState.OPEN, BreakerState.HALF_OPEN), (BreakerState.HALF_OPEN, BreakerState.CLOSED),
    ]  # fmt: skip


class BreakerMachine(CountingMachine):
    """A breaker beside its whole history, which is read anew after every step.

    Invariants: it opens exactly at the failure that completes the threshold in a row, lets nothing pass until its time
    is over or its worker has recovered and everything afterwards, closes at the success that completes the needed
    number, opens again at one failure before, and is moved by nothing else; what it tells is a way through the states
    that ends in the present.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.told: list[tuple[BreakerState, BreakerState]] = []
        self.history: list[tuple[float, Outcome | None]] = []  # None: its worker has recovered
        self.settings = SETTINGS
        self.breaker = self._made()

    def _made(self) -> Breaker:
        return Breaker(self.settings, lambda before, after: self.told.append((before, after)))

    @initialize(threshold=st.integers(1, 4), needed=st.integers(1, 3), timeout_s=st.floats(0.5, 30))
    def begin(self, threshold: int, needed: int, timeout_s: float) -> None:
        """Any settings."""
        self.settings = BreakerSettings(failure_threshold=threshold, success_threshold=needed, timeout_s=timeout_s)
        self.breaker = self._made()

    @rule(seconds=st.floats(0, 40))
    def time_passes(self, seconds: float) -> None:
        """Time only moves on."""
        self.now += seconds

    @rule()
    def just_so_long(self) -> None:
        """Exactly the time for which it stays open."""
        self.now += self.settings.timeout_s

    @rule(outcome=st.sampled_from(Outcome))
    def outcome(self, outcome: Outcome) -> None:
        """An outcome arrives, also one of a request sent long ago."""
        self.breaker.record(outcome, self.now)
        self.history.append((self.now, outcome))

    @rule()
    def recovery(self) -> None:
        """Probes succeed again."""
        self.breaker.recovered(self.now)
        self.history.append((self.now, None))

    @rule(count=st.integers(1, 4))
    def a_bad_time(self, count: int) -> None:
        """Several failures at once."""
        for _ in range(count):
            self.outcome(Outcome.FAILURE)

    def _state(self) -> BreakerState:
        """The state by the rules alone, from the history."""
        half_open_at: float | None = None
        run: list[Outcome] = []
        for at, outcome in self.history:
            if half_open_at is not None and at < half_open_at:
                half_open_at = at if outcome is None else half_open_at
                continue
            if outcome is None or outcome is Outcome.UNCOUNTED:
                continue
            half_open = half_open_at is not None
            run = [*run, outcome] if not run or run[-1] is outcome else [outcome]
            if outcome is Outcome.FAILURE and (half_open or len(run) == self.settings.failure_threshold):
                half_open_at, run = at + self.settings.timeout_s, []
            elif outcome is Outcome.SUCCESS and half_open and len(run) == self.settings.success_threshold:
                half_open_at, run = None, []
        if half_open_at is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if self.now >= half_open_at else BreakerState.OPEN

    @invariant()
    def state_follows_from_the_history(self) -> None:
        """State and permission are what the rules make of everything that was ever told."""
        state = self._state()
        assert self.breaker.state(self.now) is state
        assert self.breaker.allows(self.now) == (state is not BreakerState.OPEN)

    @invariant()
    def what_was_told_is_a_way(self) -> None:
        """Told transitions follow each other, from closed to the present state, along the four that there are."""
        assert set(self.told) <= {
            (BreakerState.CLOSED, BreakerState.OPEN), (BreakerState.OPEN, BreakerState.HALF_OPEN),
            (BreakerState.HALF_OPEN, BreakerState.OPEN), (BreakerState.HALF_OPEN, BreakerState.CLOSED),
        }  # fmt: skip
        places = [BreakerState.CLOSED, *[after for _, after in self.told]]
        assert [before for before, _ in self.told] == places[:-1]
        assert places[-1] is self.breaker.state(self.now)


def test_no_history_moves_it_wrongly() -> None:
    """Over ten thousand steps of outcomes and time, the breaker is where the rules say."""
    run_at_length(BreakerMachine)
