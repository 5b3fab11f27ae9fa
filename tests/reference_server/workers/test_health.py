"""The health state's core, in virtual time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_server.settings import HealthSettings
from reference_server.workers.health import HealthState


@given(
    failures=st.integers(1, 5),
    successes=st.integers(1, 5),
    results=st.lists(st.booleans(), max_size=60),
)
def test_state_changes_after_enough_results_in_a_row(failures: int, successes: int, results: list[bool]) -> None:
    """A worker is unhealthy after so many failures in a row, healthy again after so many successes, and not sooner."""
    state = HealthState(HealthSettings(failure_threshold=failures, success_threshold=successes), now=0.0)
    healthy, streak = True, 0
    for ok in results:
        streak = streak + 1 if ok != healthy else 0
        changes = streak >= (failures if healthy else successes)
        if changes:
            healthy, streak = not healthy, 0
        assert state.record(ok=ok) == changes
        assert state.healthy == healthy


@given(interval_s=st.floats(0.1, 100), delays=st.lists(st.floats(0, 50), max_size=20))
def test_probes_are_due_an_interval_after_the_last_began(interval_s: float, delays: list[float]) -> None:
    """Slow probes do not stretch the interval, and a late one does not bring a burst after it."""
    state = HealthState(HealthSettings(interval_s=interval_s), now=5.0)
    assert state.due == 5.0 + interval_s
    for delay in delays:
        began = state.due + delay
        state.begin(began)
        assert state.due == began + interval_s
