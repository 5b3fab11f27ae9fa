"""The priority scheduler in virtual time, beside rules that are written down a second time."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from reference_server.admission.configuration import ClassSettings, SchedulerSettings
from reference_server.admission.priority import PriorityClass
from reference_server.admission.rate import RequestRate
from reference_server.admission.scheduler import Scheduler
from reference_server.admission.tickets import Ticket, Verdict
from tests.reference_server.admission import machines

EIGHTH = 0.125
BURST = 8
CLASS = st.builds(
    ClassSettings,
    reserved_floor=st.sampled_from([0, 0, 0, 1, 2, 7]),
    queue_size=st.integers(0, 4),
    queue_timeout_s=st.sampled_from([1, 8, 40, 200, 200]).map(lambda n: n * EIGHTH),
    starvation_threshold_s=st.sampled_from([1, 2, 4, 8, 16, 100]).map(lambda n: n * EIGHTH),
    can_preempt=st.booleans(),
    reserved_per_slot=st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.5]),
)
LEVELS = st.sampled_from(PriorityClass)


class SchedulerMachine(machines.AdmissionMachine):
    """Arrivals of all classes, ends, first bytes, clients that go, workers that come and go, and time, in any order.

    Invariants: the core's counts are those of its verdicts (no slot is lost or doubled); nobody is let in above the
    capacity; in each class first come, first served, and a higher class first; reservations of higher classes are
    left alone except by a promotion; a promotion goes to who has waited too long for the longest time, at most every
    other slot while somebody waits in the usual order, and so nobody who has waited too long waits for more slots than
    twice the number of those before them; only a strictly lower class gives way, only before its first byte, only for
    somebody who waits and may ask for it, the lowest class and in it the last one first, and never more than are
    waited for; one outcome a request; nobody is let past the rate; nobody waits in vain, nor longer than the class's
    timeout.
    """

    core: Scheduler

    @initialize(
        classes=st.tuples(CLASS, CLASS, CLASS, CLASS),
        capacity=st.integers(1, 4),
        per_second=st.sampled_from([None, None, None, 1.0]),
    )
    def start(self, classes: tuple[ClassSettings, ...], capacity: int, per_second: float | None) -> None:
        """A scheduler of any settings."""
        self.classes = dict(zip(PriorityClass, classes, strict=True))
        self.capacity, self.per_second = capacity, per_second
        self.tokens, self.filled_at = float(BURST), self.now
        rate = None if per_second is None else RequestRate(per_second, BURST)
        self.core = Scheduler(SchedulerSettings(classes=self.classes), capacity, rate)
        self.began: set[Ticket] = set()
        self.promoted: set[Ticket] = set()
        self.safe: set[Ticket] = set()  # told that they cannot be preempted any more
        self.order_due = False
        self.granted = 0  # slots given, except those that were taken away for somebody
        self.overdue: dict[Ticket, int] = {}  # who has waited too long: the value of `granted` at which it must be in

    # What the machine knows by itself

    def level_inside(self, level: PriorityClass) -> int:
        """How many of a class hold a slot."""
        return sum(each.level is level for each in self.inside + self.leaving)

    def reserved(self, level: PriorityClass) -> int:
        """The slots of a class at this capacity."""
        asked = {
            each: min(self.capacity, max(own.reserved_floor, math.ceil(own.reserved_per_slot * self.capacity)))
            for each, own in self.classes.items()
        }
        scale = min(1.0, self.capacity / max(1, sum(asked.values())))
        return math.floor(asked[level] * scale + 1e-9)

    def fits(self, level: PriorityClass) -> bool:
        """Whether a class may have a slot without touching those reserved for higher ones."""
        total = len(self.inside) + len(self.leaving)
        kept = sum(
            max(0, self.reserved(each) - self.level_inside(each)) for each in PriorityClass if each.value > level.value
        )
        return total + kept < self.capacity

    def heads(self) -> list[Ticket]:
        """The first of each class, the highest class first."""
        found = {each.level: each for each in reversed(self.waiting)}
        return [found[level] for level in sorted(found, reverse=True)]

    def usual(self) -> Ticket | None:
        """Who is next in the usual order."""
        return next((head for head in self.heads() if self.fits(head.level)), None)

    def starving_at(self, ticket: Ticket) -> float:
        """When a ticket has waited too long."""
        return ticket.arrived_at + self.classes[ticket.level].starvation_threshold_s

    def starving(self) -> list[Ticket]:
        """The first ones of their class that have waited too long, the longest first."""
        return sorted((head for head in self.heads() if self.starving_at(head) <= self.now), key=self.starving_at)

    # What must be true of each verdict

    def before_admission(self, ticket: Ticket) -> None:
        """Capacity, order, reservations, promotions and their bound."""
        assert len(self.inside) + len(self.leaving) < self.capacity, "above capacity"
        assert ticket in self.heads(), "not the first of its class"
        self.note_overdue()
        if ticket.promoted:
            assert self.starving_at(ticket) == self.starving_at(self.starving()[0]), "somebody has waited longer"
            assert self.usual() is not ticket, "no promotion was needed"
            assert self.usual() is None or not self.order_due, "it was the usual order's turn"
            self.promoted.add(ticket)
        else:
            assert ticket is self.usual(), "out of order, or in a reserved slot"
            starving = self.starving()
            assert not starving or ticket is starving[0] or self.order_due, "somebody was due for promotion"
        self.order_due = ticket.promoted
        self.granted += 1
        limit = self.overdue.pop(ticket, None)
        assert limit is None or self.granted <= limit, "starved past its bound"
        assert all(self.granted <= each for each in self.overdue.values()), "starved past its bound"

    def note_overdue(self) -> None:
        """Set the bound of everyone who has waited too long since the last look."""
        for ticket in self.waiting:
            if ticket not in self.overdue and self.starving_at(ticket) <= self.now:
                before = sum(
                    self.starving_at(each) <= self.starving_at(ticket) for each in self.waiting if each is not ticket
                )
                self.overdue[ticket] = self.granted + 2 * (before + 1)

    def before_preemption(self, ticket: Ticket) -> None:
        """Who gives way, to whom, and that it helps."""
        by = ticket.preempted_by
        assert by is not None
        assert by > ticket.level, "not a strictly lower class"
        assert self.classes[by].can_preempt, "that class may not ask"
        assert ticket not in self.began, "after its first byte"
        assert ticket not in self.promoted, "who waited too long starts again"
        assert ticket not in self.safe, "it was told that it is safe"
        assert sum(each.level >= by for each in self.waiting) > len(self.leaving), "nobody waits for it"
        staying = [*self.inside, *(each for each in self.waiting if each.level > by)]
        kept = sum(
            max(0, self.reserved(level) - sum(each.level is level for each in staying))
            for level in PriorityClass
            if level > by
        )
        assert len(self.inside) + len(self.leaving) - 1 + kept < self.capacity, "its slot would not help"
        able = [each for each in self.inside if each not in self.began | self.promoted]
        lowest = min(each.level for each in able)
        assert ticket.level is lowest, "a lower class was there"
        assert ticket is [each for each in able if each.level is lowest][-1], "not the last one let in"

    def before_refusal(self, ticket: Ticket, verdict: Verdict) -> None:
        """Who is late has waited as long as its class may."""
        assert verdict is not Verdict.DISABLED
        if verdict is Verdict.LATE:
            assert self.now >= ticket.arrived_at + self.classes[ticket.level].queue_timeout_s
            assert ticket in self.heads()
        self.overdue.pop(ticket, None)

    # What happens

    @rule(levels=st.lists(LEVELS, min_size=1, max_size=6))
    def arrive(self, levels: list[PriorityClass]) -> None:
        """Requests come, one after the other; several, or the queues would be empty most of the time."""
        for level in levels:
            self.step()
            self.arrive_one(level)

    def arrive_one(self, level: PriorityClass) -> None:
        """A request comes."""
        had_token = self.has_token()
        ticket = self.core.arrive(level, self.now)
        self.came(ticket)
        verdict = dict(self.take_in()).get(ticket)
        full, hasty = verdict is Verdict.FULL, verdict is Verdict.HASTY
        above = sum(each.level > level for each in self.waiting)
        places = self.classes[level].queue_size + max(0, len(self.leaving) - above)
        ahead = sum(each.level is level for each in self.waiting)
        assert hasty is not had_token, "not as the rate says"
        self.tokens -= not (full or hasty)
        if full:
            assert ahead >= places, "there was a place to wait"
        if ticket in self.waiting:
            assert ahead <= places, "there was no place to wait"

    def has_token(self) -> bool:
        """Whether the rate lets one more pass, counted a second time."""
        if self.per_second is None:
            return True
        self.tokens = min(BURST, self.tokens + (self.now - self.filled_at) * self.per_second)
        self.filled_at = self.now
        return self.tokens >= 1

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def end_one(self, data: st.DataObject) -> None:
        """A request ends, also one that was preempted, or a client that waits goes away."""
        self.step()
        self.go(data.draw(st.sampled_from(self.tickets)))

    @precondition(lambda self: self.inside)
    @rule(number=st.integers(0, 3))
    def finish(self, number: int) -> None:
        """A request that holds a slot ends; without this the slots would stay taken for most of the time."""
        self.step()
        self.go(self.inside[number % len(self.inside)])

    @precondition(lambda self: self.leaving)
    @rule(number=st.integers(0, 3))
    def give_way(self, number: int) -> None:
        """A request that was preempted has left."""
        self.step()
        self.go(self.leaving[number % len(self.leaving)])

    def go(self, ticket: Ticket) -> None:
        """A request is over."""
        if ticket in self.leaving:
            self.order_due = True
            self.overdue = {each: limit + 1 for each, limit in self.overdue.items()}
        self.overdue.pop(ticket, None)
        self.leave(ticket)
        self.take_in()
        self.core.leave(ticket, self.now)  # a second time changes nothing
        assert self.core.take() == []

    @precondition(lambda self: self.inside or self.leaving)
    @rule(data=st.data())
    def send_first_byte(self, data: st.DataObject) -> None:
        """A request asks whether its first byte may go out."""
        self.step()
        ticket = data.draw(st.sampled_from(self.inside + self.leaving))
        may = self.core.first_byte(ticket)
        assert may is (ticket in self.inside)
        assert self.core.may_be_preempted(ticket) is not may
        if may:
            self.began.add(ticket)
        assert self.core.take() == []

    @rule(capacity=st.integers(1, 6))
    def resize(self, capacity: int) -> None:
        """A worker comes, goes, or ails."""
        self.step()
        self.capacity = capacity
        self.core.resize(capacity, self.now)
        self.take_in()

    @rule(eighths=st.sampled_from([0, 1, 2, 4, 8, 20]))
    def pass_time(self, eighths: int) -> None:
        """Time passes, and the core is woken at each moment it has asked for."""
        self.step()
        until = self.now + eighths * EIGHTH
        wakes = 0
        while (due := self.core.due()) is not None and due <= until:
            wakes += 1
            assert wakes < 400, "the core asks to be woken for nothing"
            self.now = max(self.now, due)
            self.note_overdue()
            self.core.advance(self.now)
            self.take_in()
        self.now = until
        self.note_overdue()

    # What is always true

    @invariant()
    def the_counts_are_those_of_the_verdicts(self) -> None:
        """No slot is lost or doubled; nobody who has left is remembered."""
        if not hasattr(self, "core"):
            return
        assert self.core.total_inside == len(self.inside) + len(self.leaving)
        for level in PriorityClass:
            assert self.core.inside(level) == self.level_inside(level)
            assert self.core.waiting(level) == sum(each.level is level for each in self.waiting)
            assert self.core.reserved(level) == self.reserved(level)
            assert 0.0 <= self.core.pressure(level) <= 1.0
        assert set(self.tickets) == {*self.waiting, *self.inside, *self.leaving}
        self.safe |= {each for each in self.inside if not self.core.may_be_preempted(each)}

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """Who could be let in is in; who could make room has made it; nobody waits longer than the class may."""
        if not hasattr(self, "core"):
            return
        assert self.usual() is None
        if len(self.inside) + len(self.leaving) < self.capacity:
            assert not self.starving()
        assert (self.core.due() is None) == (not self.waiting)
        for each in self.waiting:
            assert each.arrived_at + self.classes[each.level].queue_timeout_s >= self.now
        self.whoever_may_ask_has_asked()

    def whoever_may_ask_has_asked(self) -> None:
        """When nobody is leaving, the highest class that waits finds nobody to give way whose slot would help."""
        heads = self.heads()
        if not heads or self.leaving or not self.classes[heads[0].level].can_preempt:
            return
        level = heads[0].level
        below = [each for each in self.inside if each.level < level and each not in self.began | self.promoted]
        if below:
            total = len(self.inside)
            kept = sum(max(0, self.reserved(each) - self.level_inside(each)) for each in PriorityClass if each > level)
            assert total - 1 + kept >= self.capacity, "a slot could have been made"


def test_the_scheduler_keeps_its_invariants() -> None:
    """Ten thousand steps and more of everything that can happen leave every invariant true."""
    machines.run(SchedulerMachine)
