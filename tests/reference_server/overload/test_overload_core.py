"""When a worker counts as overloaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server import flags
from reference_server.errors import ConfigurationError
from reference_server.settings import OverloadSettings
from reference_server.workers.overload import LoadReport, OverloadGuard, RankLoad

DEFAULTS = OverloadSettings()


def over(*ranks: tuple[int, float], settings: OverloadSettings = DEFAULTS, age_s: float = 0.0) -> bool:
    """Whether a worker with these ranks (waiting, usage) is over, judged some time after its report."""
    report = LoadReport(tuple(RankLoad(num_waiting_reqs=w, token_usage=u) for w, u in ranks), 100.0)
    return OverloadGuard(settings).over(report, 100.0 + age_s)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([(7, 0.0)], False), ([(8, 0.0)], True), ([(9, 0.0)], True), ([(4, 0.0), (4, 0.0)], True),
        ([(4, 0.0), (3, 0.0)], False), ([(0, 0.79)], False), ([(0, 0.8)], True), ([(0, 1.0)], True),
        ([(0, 0.7), (0, 0.95)], True), ([(0, 0.7), (0, 0.89)], False), ([(0, 0.8), (0, 0.8), (0, 0.8)], True),
        ([(0, 0.0)], False),
    ],
)  # fmt: skip
def test_a_threshold_reached_is_a_threshold_crossed(ranks: list[tuple[int, float]], expected: bool) -> None:  # noqa: FBT001 - a case
    """Waiting requests are summed over the ranks, usage is averaged; reaching a threshold is enough."""
    assert over(*ranks) is expected


def test_thresholds_are_configured() -> None:
    """Other thresholds hold in place of the defaults."""
    settings = OverloadSettings(waiting_requests=3, token_usage=1.0)
    assert [over((waiting, 0.9), settings=settings) for waiting in (2, 3)] == [False, True]
    assert over((0, 1.0), settings=settings)


def test_switched_off_nobody_is_over() -> None:
    """Without protection no report matters."""
    assert not over((10_000, 1.0), settings=OverloadSettings(enabled=False))


def test_what_is_not_known_does_not_count() -> None:
    """A worker without a report, or with one older than two intervals and five seconds, is not over."""
    assert not OverloadGuard(DEFAULTS).over(None, 0.0)
    assert over((8, 0.0), age_s=25.0)
    assert not over((8, 0.0), age_s=25.1)


@pytest.mark.parametrize(("interval_s", "header"), [(10.0, 10), (3.0, 3), (0.2, 1), (2.1, 3)])
def test_the_wait_is_the_interval(interval_s: float, header: int) -> None:
    """Retry-After is the interval of the load monitor, in whole seconds and never none."""
    assert OverloadGuard(OverloadSettings(interval_s=interval_s)).retry_after_s == header


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1)), min_size=1), st.integers(1, 100), st.floats(0.01, 1))
def test_more_load_is_never_less_overload(ranks: list[tuple[int, float]], waiting: int, usage: float) -> None:
    """Adding to any rank never makes an overloaded worker free."""
    settings = OverloadSettings(waiting_requests=waiting, token_usage=usage)
    before = over(*ranks, settings=settings)
    (first_waiting, first_usage), *others = ranks
    assert over((first_waiting + 1, first_usage), *others, settings=settings) >= before
    assert over((first_waiting, 1.0), *others, settings=settings) >= before


def test_flags() -> None:
    """The real gateway's flags set thresholds, interval and switches."""
    assert flags.parse([]).overload == DEFAULTS
    kept = flags.parse(["--worker-overload-protection", "--worker-overload-shed"]).overload
    assert kept == DEFAULTS
    set_ = flags.parse(
        [
            "--worker-overload-waiting-requests",
            "3",
            "--worker-overload-token-usage",
            "1",
            "--load-monitor-interval",
            "2",
        ]
    ).overload
    assert (set_.waiting_requests, set_.token_usage, set_.interval_s) == (3, 1.0, 2.0)
    off = flags.parse(["--disable-worker-overload-protection"]).overload
    assert (off.enabled, off.polled) == (False, True)
    assert not flags.parse(["--disable-worker-overload-protection", "--disable-load-monitoring"]).overload.polled
    assert flags.parse(["--disable-load-monitoring"]).overload.polled


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--worker-overload-waiting-requests", "0"], "at least 1"),
        (["--worker-overload-token-usage", "0"], "more than 0"),
        (["--worker-overload-token-usage", "1.01"], "0 to 1"), (["--worker-overload-token-usage", "nan"], "0 to 1"),
        (["--load-monitor-interval", "0"], "more than 0"),
        (["--disable-worker-overload-protection", "--worker-overload-shed"], "contradicts --worker-overload-shed"),
    ],
)  # fmt: skip
def test_bad_flags(arguments: list[str], words: str) -> None:
    """Thresholds that would veto everything and contradictions are refused."""
    with pytest.raises(ConfigurationError, match=words):
        flags.parse(arguments)
