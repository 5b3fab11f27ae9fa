"""The priority scheduler: classes, reservations, queues, promotion of who waits too long, preemption. A sans-I/O core.

Clauses: rate_limiting.scheduler_*. Where the contract is silent it does what the real gateway does, but for two things:

* Who has waited too long is promoted by the time at which that became so, whatever the class, and while somebody waits
  in the usual order at most every other slot goes to a promotion. (The real one promotes the lowest class first and as
  often as it can, so a long bulk queue would starve everyone else.)
* Who was promoted is not preempted: it would only wait from the beginning again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_server.admission.priority import HIGHEST_FIRST, PriorityClass
from reference_server.admission.reservations import granted
from reference_server.admission.tickets import Place, Ticket, Verdict

if TYPE_CHECKING:
    from reference_server.admission.configuration import SchedulerSettings
    from reference_server.admission.rate import RequestRate

Queue = dict[Ticket, None]  # an ordered set: in the order of arrival or of admission


class Scheduler:
    """`capacity` slots in all; see `SchedulerSettings` for the rest. With a `rate`, who finds no token is sent away."""

    def __init__(self, settings: SchedulerSettings, capacity: int, rate: RequestRate | None = None) -> None:
        self._classes = settings.classes
        self._rate = rate
        self._capacity = capacity
        self._reserved = granted(self._classes, capacity)
        self._waiting: dict[PriorityClass, Queue] = {level: {} for level in PriorityClass}
        self._victims: dict[PriorityClass, Queue] = {level: {} for level in PriorityClass}  # inside, may be preempted
        self._inside = dict.fromkeys(PriorityClass, 0)  # with those that are leaving
        self._leaving = dict.fromkeys(PriorityClass, 0)
        self._order_is_due = False  # the next slot goes in the usual order if somebody waits for it
        self._verdicts: list[tuple[Ticket, Verdict]] = []
        self._now = 0.0

    @property
    def capacity(self) -> int:
        """Slots in all."""
        return self._capacity

    @property
    def total_inside(self) -> int:
        """How many requests hold a slot, those included that were preempted and have not left yet."""
        return sum(self._inside.values())

    def inside(self, level: PriorityClass) -> int:
        """How many requests of a class hold a slot."""
        return self._inside[level]

    def waiting(self, level: PriorityClass) -> int:
        """How many requests of a class wait for one."""
        return len(self._waiting[level])

    def reserved(self, level: PriorityClass) -> int:
        """How many slots a class has for itself at the present capacity."""
        return self._reserved[level]

    def queue_size(self, level: PriorityClass) -> int:
        """How many requests of a class may wait."""
        return self._classes[level].queue_size

    def pressure(self, level: PriorityClass) -> float:
        """0 to 1, how hard it is for a class: the fuller of its queue and of the slots that others leave it."""
        size = self.queue_size(level)
        queue = len(self._waiting[level]) / size if size else 0.0
        open_slots = self._capacity - sum(self._reserved[each] for each in PriorityClass if each > level)
        beyond = max(0, self._inside[level] - self._reserved[level])
        slots = beyond / open_slots if open_slots > 0 else float(beyond > 0)
        return min(1.0, max(queue, slots))

    def arrive(self, level: PriorityClass, now: float) -> Ticket:
        """A request of a class comes in; `take` tells what becomes of it."""
        self.advance(now)
        ticket = Ticket(now, level)
        if self._rate is not None and not self._rate.ready(now):
            self._verdicts.append((ticket, Verdict.HASTY))
            return ticket
        ticket.place = Place.WAITING
        queue = self._waiting[level]
        queue[ticket] = None
        self._decide()
        if ticket.place is Place.WAITING and len(queue) > self.queue_size(level) + self._slots_on_their_way(level):
            del queue[ticket]
            ticket.place = Place.GONE
            self._verdicts.append((ticket, Verdict.FULL))
        elif self._rate is not None:
            self._rate.take(now)
        return ticket

    def first_byte(self, ticket: Ticket) -> bool:
        """Whether the ticket may send its first byte; if so, it is never preempted from now on."""
        if ticket.place is not Place.INSIDE:
            return False
        ticket.began = True
        self._victims[ticket.level].pop(ticket, None)
        return True

    def may_be_preempted(self, ticket: Ticket) -> bool:
        """Whether a request of a higher class could still take the ticket's slot, or has done so."""
        if ticket.place is Place.LEAVING:
            return True
        higher = (level for level in PriorityClass if level > ticket.level)
        return ticket in self._victims[ticket.level] and any(self._classes[level].can_preempt for level in higher)

    def leave(self, ticket: Ticket, now: float) -> None:
        """The request is over, or its client does not wait any longer."""
        if ticket.place is Place.WAITING:
            del self._waiting[ticket.level][ticket]
        elif ticket.place is not Place.GONE:
            self._inside[ticket.level] -= 1
            self._victims[ticket.level].pop(ticket, None)
        if ticket.place is Place.LEAVING:
            self._leaving[ticket.level] -= 1
            self._order_is_due = True  # a slot taken away for a higher class goes to a higher class
        ticket.place = Place.GONE
        self.advance(now)

    def resize(self, capacity: int, now: float) -> None:
        """The workers have more or fewer slots than before. Nobody inside is touched."""
        self._capacity = capacity
        self._reserved = granted(self._classes, capacity)
        self.advance(now)

    def advance(self, now: float) -> None:
        """Send away who has waited too long, then let in who may come, then make room for those who may ask for it."""
        self._now = now
        for level, queue in self._waiting.items():
            limit_s = self._classes[level].queue_timeout_s
            while (first := _first(queue)) is not None and first.arrived_at + limit_s <= now:
                del queue[first]
                first.place = Place.GONE
                self._verdicts.append((first, Verdict.LATE))
        self._decide()

    def due(self) -> float | None:
        """When somebody has waited too long for the queue, or long enough to be let in out of order."""
        times = []
        for level, queue in self._waiting.items():
            first = _first(queue)
            if first is None:
                continue
            times.append(first.arrived_at + self._classes[level].queue_timeout_s)
            starving_at = self._starving_at(first)
            if starving_at > self._now and self.total_inside < self._capacity:
                times.append(starving_at)
        return min(times, default=None)

    def take(self) -> list[tuple[Ticket, Verdict]]:
        """The verdicts since the last call."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def _decide(self) -> None:
        while (following := self._following()) is not None:
            self._admit(following)
        self._make_room()

    def _following(self) -> Ticket | None:
        """Who gets a slot now, if there is one for anybody."""
        if self.total_inside >= self._capacity:
            return None
        usual = self._next_in_order()
        starving = self._longest_starving()
        if starving is None or starving is usual or (usual is not None and self._order_is_due):
            return usual
        starving.promoted = True
        return starving

    def _next_in_order(self) -> Ticket | None:
        """The first of the highest class that may have a slot without touching what is reserved for higher ones."""
        for level in HIGHEST_FIRST:
            first = _first(self._waiting[level])
            if first is not None and self.total_inside + self._held_back_from(level) < self._capacity:
                return first
        return None

    def _held_back_from(self, level: PriorityClass) -> int:
        """Slots that are free and reserved for higher classes."""
        higher = (each for each in PriorityClass if each > level)
        return sum(max(0, self._reserved[each] - self._inside[each]) for each in higher)

    def _longest_starving(self) -> Ticket | None:
        firsts = [first for queue in self._waiting.values() if (first := _first(queue)) is not None]
        starving = [first for first in firsts if self._starving_at(first) <= self._now]
        return min(starving, key=self._starving_at, default=None)

    def _starving_at(self, ticket: Ticket) -> float:
        return ticket.arrived_at + self._classes[ticket.level].starvation_threshold_s

    def _admit(self, ticket: Ticket) -> None:
        del self._waiting[ticket.level][ticket]
        self._inside[ticket.level] += 1
        self._order_is_due = ticket.promoted
        ticket.place = Place.INSIDE
        if not ticket.promoted:
            self._victims[ticket.level][ticket] = None
        self._verdicts.append((ticket, Verdict.ADMITTED))

    def _make_room(self) -> None:
        """Preempt for whoever may ask for it and is not served by a preemption that is under way.

        Slots on their way go to the highest classes, so nobody preempts past a higher class that waits.
        """
        on_their_way = sum(self._leaving.values())
        for level in HIGHEST_FIRST:
            for _ in range(len(self._waiting[level])):
                if on_their_way:
                    on_their_way -= 1
                    continue
                if not self._classes[level].can_preempt or not self._one_more_would_do(level):
                    return
                victim = self._victim_below(level)
                if victim is None:
                    return
                self._preempt(victim, level)

    def _one_more_would_do(self, level: PriorityClass) -> bool:
        """Whether one slot more than those on their way lets one more of this class in.

        By then whoever is above it has come in, and so have those of its own class for whom room was made.
        """
        higher = [each for each in PriorityClass if each > level]
        expected = {each: self._inside[each] - self._leaving[each] + len(self._waiting[each]) for each in higher}
        held_back = sum(max(0, self._reserved[each] - expected[each]) for each in higher)
        return self.total_inside - 1 + held_back < self._capacity

    def _victim_below(self, level: PriorityClass) -> Ticket | None:
        """The request to give way: of the lowest class, and of that the one let in last."""
        for lower in sorted(each for each in PriorityClass if each < level):
            if self._victims[lower]:
                return next(reversed(self._victims[lower]))
        return None

    def _preempt(self, victim: Ticket, level: PriorityClass) -> None:
        del self._victims[victim.level][victim]
        self._leaving[victim.level] += 1
        victim.place = Place.LEAVING
        victim.preempted_by = level
        self._verdicts.append((victim, Verdict.PREEMPTED))

    def _slots_on_their_way(self, level: PriorityClass) -> int:
        """How many of a class wait only until those preempted for them have left: they take no place in its queue."""
        left = sum(self._leaving.values())
        for higher in HIGHEST_FIRST:
            if higher == level:
                break
            left -= min(left, len(self._waiting[higher]))
        return left


def _first(queue: Queue) -> Ticket | None:
    return next(iter(queue), None)
