"""The plain limit in virtual time."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from reference_server.admission.limiter import Limiter
from reference_server.admission.rate import RequestRate
from reference_server.admission.tickets import Ticket, Verdict
from tests.reference_server.admission import machines

EIGHTH = 0.125


class LimiterMachine(machines.AdmissionMachine):
    """Arrivals, ends, clients that go, and time, in any order.

    Invariants: the core's counts are those of its verdicts (no slot is lost or doubled); never more inside than the
    limit, never more waiting than the queue holds; first come, first served; one outcome a request; nobody waits
    while there is a slot and a token, nor longer than the timeout; who is sent away had no place to wait; over any
    stretch of time no more are let in than the burst and what flowed in meanwhile.
    """

    core: Limiter

    @initialize(
        limit=st.integers(1, 4),
        queue=st.integers(0, 4),
        timeout_eighths=st.integers(1, 40),
        per_second=st.sampled_from([None, 0.5, 1.0, 2.0, 8.0]),
    )
    def start(self, limit: int, queue: int, timeout_eighths: int, per_second: float | None) -> None:
        """A limiter of any size."""
        self.limit, self.queue, self.timeout_s, self.per_second = limit, queue, timeout_eighths * EIGHTH, per_second
        rate = None if per_second is None else RequestRate(per_second, limit)
        self.core = Limiter(limit, queue, self.timeout_s, rate)
        self.let_in: list[float] = []
        self.tokens, self.filled_at = float(limit), self.now

    def tokens_now(self) -> float:
        """The tokens there are, counted a second time; eighths of seconds and these rates make it exact."""
        if self.per_second is not None:
            self.tokens = min(float(self.limit), self.tokens + (self.now - self.filled_at) * self.per_second)
        self.filled_at = self.now
        return self.tokens

    @rule()
    def arrive(self) -> None:
        """A request comes."""
        self.step()
        was_waiting = list(self.waiting)
        ticket = self.core.arrive(self.now)
        self.came(ticket)
        verdicts = dict(self.take_in())
        if verdicts.get(ticket) in machines.REFUSALS:
            assert len([each for each in was_waiting if each in self.waiting]) == self.queue
            assert verdicts[ticket] is (Verdict.FULL if self.queue else Verdict.DISABLED)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def end_one(self, data: st.DataObject) -> None:
        """A request ends, or a client that waits goes away."""
        self.step()
        ticket = data.draw(st.sampled_from(self.tickets))
        self.leave(ticket)
        self.take_in()
        self.core.leave(ticket, self.now)  # a second time changes nothing
        assert self.core.take() == []

    @rule(eighths=st.integers(0, 30))
    def pass_time(self, eighths: int) -> None:
        """Time passes, and the core is woken at each moment it has asked for."""
        self.step()
        until = self.now + eighths * EIGHTH
        wakes = 0
        while (due := self.core.due()) is not None and due <= until:
            wakes += 1
            assert wakes < 200, "the core asks to be woken for nothing"
            self.now = max(self.now, due)
            self.core.advance(self.now)
            self.take_in()
        self.now = until

    def before_admission(self, ticket: Ticket) -> None:
        """First come, first served; a burst and a flow, and no more."""
        assert ticket is self.waiting[0], "out of order"
        self.let_in.append(self.now)
        assert self.per_second is None or self.tokens_now() >= 1.0, "without a token"
        self.tokens -= 1.0
        if self.per_second is not None:
            for n, earlier in enumerate(self.let_in):
                allowed = self.limit + (self.now - earlier) * self.per_second
                assert len(self.let_in) - n <= allowed + 1e-3, "more than burst and flow"

    def before_refusal(self, ticket: Ticket, verdict: Verdict) -> None:
        """Who is late has waited as long as it may."""
        if verdict is Verdict.LATE:
            assert self.now >= ticket.arrived_at + self.timeout_s
            assert ticket is self.waiting[0]

    @invariant()
    def the_counts_are_those_of_the_verdicts(self) -> None:
        """No slot is lost or doubled."""
        if hasattr(self, "core"):
            assert (self.core.inside, self.core.waiting) == (len(self.inside), len(self.waiting))
            assert len(self.inside) <= self.limit
            assert len(self.waiting) <= self.queue

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """Nobody waits beside a free slot and a token, nor longer than the timeout; who waits has a time."""
        if hasattr(self, "core"):
            if len(self.inside) < self.limit and (self.per_second is None or self.tokens_now() >= 1.0):
                assert not self.waiting
            assert (self.core.due() is None) == (not self.waiting)
            assert all(each.arrived_at + self.timeout_s >= self.now for each in self.waiting)


def test_the_limiter_keeps_its_invariants() -> None:
    """Ten thousand steps and more of arrivals, ends and time leave every invariant true."""
    machines.run(LimiterMachine)


def _verdicts(limiter: Limiter, *tickets: Ticket) -> list[Verdict | None]:
    taken = dict(limiter.take())
    return [taken.get(ticket) for ticket in tickets]


def test_three_run_two_wait_three_are_sent_away() -> None:
    """With three slots and two places to wait, the sixth of eight and all behind it are sent away."""
    limiter = Limiter(3, 2, 60.0)
    tickets = [limiter.arrive(0.0) for _ in range(8)]
    expected = [Verdict.ADMITTED] * 3 + [None] * 2 + [Verdict.FULL] * 3
    assert _verdicts(limiter, *tickets) == expected
    limiter.leave(tickets[0], 1.0)
    assert limiter.take() == [(tickets[3], Verdict.ADMITTED)]


def test_a_rate_lets_a_burst_in_and_then_one_at_a_time() -> None:
    """Burst of four, two a second: four at once, those who wait half a second apart."""
    limiter = Limiter(4, 10, 60.0, RequestRate(2.0, 4))
    tickets = deque(limiter.arrive(0.0) for _ in range(8))
    for ticket, _ in limiter.take():
        limiter.leave(ticket, 0.0)
    admitted_at = []
    while (due := limiter.due()) is not None:
        limiter.advance(due)
        for ticket, verdict in limiter.take():
            assert verdict is Verdict.ADMITTED
            admitted_at.append(due)
            limiter.leave(ticket, due)
    assert admitted_at == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert len(tickets) == 8


def test_without_a_queue_a_spent_rate_sends_away() -> None:
    """A rate that is spent refuses like a limit that is reached."""
    limiter = Limiter(1, 0, 60.0, RequestRate(1.0, 1))
    first = limiter.arrive(0.0)
    limiter.leave(first, 0.0)
    second, third = limiter.arrive(0.5), limiter.arrive(1.0)
    assert _verdicts(limiter, first, second, third) == [Verdict.ADMITTED, Verdict.DISABLED, Verdict.ADMITTED]


def test_a_wait_ends_at_its_timeout() -> None:
    """A waiter is sent away at exactly the timeout, not before."""
    limiter = Limiter(1, 1, 2.0)
    limiter.arrive(0.0)
    waiter = limiter.arrive(0.5)
    limiter.take()
    limiter.advance(2.4)
    assert limiter.take() == []
    assert limiter.due() == 2.5
    limiter.advance(2.5)
    assert limiter.take() == [(waiter, Verdict.LATE)]
