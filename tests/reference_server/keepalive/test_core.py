"""The keepalive's core: an event stream cut anywhere, in virtual time."""

from __future__ import annotations

import re

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from reference_server.keepalive.core import PING, EventBoundary, Keepalive
from tests.machines import CountingMachine, run_at_length

PIECES = (b"data: a", b"data: \xc3\xa9", b"id", b": c", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n")
_LINE_END = r"(?:\r\n|\n|\r)"


@pytest.mark.parametrize("stream", [b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r", b"a: b\n: c\n\n", b"a\r\n\n"])
def test_a_boundary_is_behind_an_empty_line_alone(stream: bytes) -> None:
    """Fed byte by byte, a stream stands between events at its beginning and behind its last byte, nowhere else."""
    boundary = EventBoundary()
    found = [boundary.reached]
    for place in range(len(stream)):
        boundary.feed(stream[place : place + 1])
        found.append(boundary.reached)
    assert found == [True, *[False] * (len(stream) - 1), True]


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_boundary_may_come_in_two_pieces(cut: int) -> None:
    """The empty line is recognised wherever it is cut, and its half is no boundary."""
    boundary = EventBoundary()
    end = b"\r\n\r\n"
    boundary.feed(b"data: a" + end[:cut])
    assert not boundary.reached
    boundary.feed(end[cut:])
    assert boundary.reached


def test_a_line_end_that_is_half_there_is_awaited() -> None:
    """Behind CR LF CR the LF is still to come: a ping there would part the two."""
    boundary = EventBoundary()
    boundary.feed(b"data: a\r\n\r")
    assert not boundary.reached
    boundary.feed(b"data: b")
    assert not boundary.reached


def test_pings_come_an_interval_apart() -> None:
    """The first ping is due an interval after the response opened, each further one an interval after the last byte."""
    keepalive = Keepalive(15.0, now=100.0)
    assert keepalive.due() == 115.0
    assert not keepalive.is_due(114.9)
    assert keepalive.is_due(115.0)
    keepalive.pinged(116.0)
    assert keepalive.due() == 131.0
    keepalive.sent(b"data: a\n\n", 120.0)
    assert keepalive.due() == 135.0


def test_half_an_event_is_left_alone() -> None:
    """Inside of an event no ping is ever due; its end begins a new silence."""
    keepalive = Keepalive(1.0, now=0.0)
    keepalive.sent(b"data: a\n", 0.0)
    assert keepalive.due() is None
    assert not keepalive.is_due(1e9)
    keepalive.sent(b"\n", 50.0)
    assert keepalive.due() == 51.0


def _events(stream: bytes) -> tuple[list[list[str]], list[str]]:
    """The events of a stream as a reader of the specification takes them: data lines of each, and all comments."""
    events: list[list[str]] = []
    comments: list[str] = []
    lines: list[str] = []
    for line in re.split(_LINE_END, stream.decode())[:-1]:
        if line.startswith(":"):
            comments.append(line)
        elif line:
            lines.append(line)
        elif lines:
            events.append(lines)
            lines = []
    return [*events, lines], comments


class KeepaliveMachine(CountingMachine):
    """One stream: bytes come in any pieces, time passes by any steps, and a driver pings whenever it is told to.

    Invariants: a reader finds the same events with pings as without; no ping comes before its interval is over, inside
    of an event or behind the end; and no silence between events outlasts the interval.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.interval_s = 1.0
        self.keepalive = Keepalive(self.interval_s, self.now)
        self.plain = b""
        self.sent = b""
        self.pings = 0
        self.last_sent_at = 0.0
        self.ended = False

    @initialize(interval_s=st.floats(0.01, 30), now=st.floats(0, 1000))
    def open(self, interval_s: float, now: float) -> None:
        """The response is open."""
        self.interval_s = interval_s
        self.now = self.last_sent_at = now
        self.keepalive = Keepalive(interval_s, now)

    def _between_events(self) -> bool:
        # At the beginning no event is open, so an empty line there ends nothing and begins nothing.
        return re.search(rf"{_LINE_END}{_LINE_END}\Z", "\n\n" + self.plain.decode()) is not None

    def _ping_if_due(self) -> None:
        if self.keepalive.is_due(self.now):
            assert not self.ended
            assert self._between_events()
            assert self.now - self.last_sent_at >= self.interval_s * 0.999
            self.sent += PING
            self.pings += 1
            self.keepalive.pinged(self.now)
            self.last_sent_at = self.now

    @precondition(lambda self: not self.ended)
    @rule(
        pieces=st.lists(
            st.sampled_from(PIECES),
            min_size=1,
            max_size=4,
        ),
        wait_s=st.floats(0, 5),
    )
    def bytes_come(self, pieces: list[bytes], wait_s: float) -> None:
        """The worker sends whole lines, half ones and ends of them."""
        self._sleep(wait_s)
        data = b"".join(pieces)
        self.plain += data
        self.sent += data
        self.keepalive.sent(data, self.now)
        self.last_sent_at = self.now

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        """A driver sleeps until the ping is due, or so long."""
        self._sleep(seconds)

    @rule(late_s=st.floats(0, 100))
    def the_driver_is_late(self, late_s: float) -> None:
        """A busy machine wakes the driver late: one ping comes, not several."""
        self.now += late_s
        before = self.pings
        self._ping_if_due()
        assert not self.keepalive.is_due(self.now)
        assert self.pings <= before + 1

    def _sleep(self, seconds: float) -> None:
        until = self.now + min(seconds, 5 * self.interval_s)
        while (due := self.keepalive.due()) is not None and due <= until:
            self.now = max(self.now, due)
            self._ping_if_due()
        self.now = until

    @precondition(lambda self: not self.ended)
    @rule()
    def the_body_ends(self) -> None:
        """The body ends or breaks off, perhaps in the middle of an event."""
        self.keepalive.end()
        self.ended = True

    @invariant()
    def events_are_whole(self) -> None:
        """With pings in between, every event is what it is without."""
        events, comments = _events(self.sent)
        plain_events, plain_comments = _events(self.plain)
        assert events == plain_events
        assert len(comments) == len(plain_comments) + self.pings

    @invariant()
    def silence_is_bounded(self) -> None:
        """Between events a ping is due an interval after the last byte, or the body is over; inside of one never."""
        due = self.keepalive.due()
        if self.ended:
            assert due is None
        elif re.search(r"(?:\A|[^\r\n])(?:\n\n|\r\n\r\n|\r\r)\Z", self.plain.decode()) or not self.plain:
            assert due == self.last_sent_at + self.interval_s
        elif not self._between_events():
            assert due is None


def test_no_history_makes_a_wrong_ping() -> None:
    """Over ten thousand steps of any stream: events stay whole, silences are bounded, nothing comes behind the end."""
    run_at_length(KeepaliveMachine)
