"""The priority scheduler, one sentence at a time, in virtual time."""

from __future__ import annotations

from typing import Any

from reference_server.admission.configuration import ClassSettings, SchedulerSettings
from reference_server.admission.priority import PriorityClass
from reference_server.admission.rate import RequestRate
from reference_server.admission.scheduler import Scheduler
from reference_server.admission.tickets import Place, Ticket, Verdict

BULK, DEFAULT, INTERACTIVE, SYSTEM = PriorityClass


def scheduler(capacity: int = 1, rate: RequestRate | None = None, **by_class: dict[str, Any]) -> Scheduler:
    """Classes without reservations, of ten places, that starve after 10 s; what is named is changed."""
    classes = {}
    for level in PriorityClass:
        fields: dict[str, Any] = {
            "reserved_floor": 0, "queue_size": 10, "queue_timeout_s": 100.0, "starvation_threshold_s": 10.0,
            "can_preempt": level >= INTERACTIVE,
        }  # fmt: skip
        classes[level] = ClassSettings(**{**fields, **by_class.get(level.label, {})})
    return Scheduler(SchedulerSettings(classes=classes), capacity, rate)


def began(core: Scheduler, level: PriorityClass, now: float = 0.0) -> Ticket:
    """A request that is inside and has sent its first byte."""
    ticket = core.arrive(level, now)
    assert ticket.place is Place.INSIDE
    assert core.first_byte(ticket)
    return ticket


def admitted(core: Scheduler) -> list[Ticket]:
    """Who was let in since the last look."""
    return [ticket for ticket, verdict in core.take() if verdict is Verdict.ADMITTED]


def test_at_most_every_other_slot_is_a_promotion() -> None:
    """While somebody waits in the usual order, a promotion is followed by one of them."""
    core = scheduler(system={"starvation_threshold_s": 90.0})
    holder = began(core, SYSTEM)
    bulk = [core.arrive(BULK, 0.0) for _ in range(3)]
    system = [core.arrive(SYSTEM, 20.0) for _ in range(3)]
    core.take()
    order = []
    for _ in range(6):
        core.leave(holder, 20.0)
        (holder,) = admitted(core)
        order.append(holder)
    assert order == [bulk[0], system[0], bulk[1], system[1], bulk[2], system[2]]
    assert [ticket.promoted for ticket in order] == [True, False, True, False, True, False]


def test_who_was_due_first_is_promoted_first() -> None:
    """Promotions go by when the threshold passed, not by class and not by arrival."""
    core = scheduler(bulk={"starvation_threshold_s": 30.0}, interactive={"starvation_threshold_s": 50.0})
    holder = began(core, SYSTEM)
    bulk, default, interactive = core.arrive(BULK, 0.0), core.arrive(DEFAULT, 5.0), core.arrive(INTERACTIVE, 6.0)
    core.take()
    core.leave(holder, 40.0)  # default was due at 15, bulk at 30; interactive waits in the usual order
    assert admitted(core) == [default]
    core.leave(default, 40.0)
    assert admitted(core) == [interactive]
    core.leave(interactive, 40.0)
    assert admitted(core) == [bulk]


def test_a_slot_taken_for_a_higher_class_goes_to_it() -> None:
    """Who waits too long does not get the slot that a victim left for somebody else."""
    core = scheduler(capacity=2, interactive={"starvation_threshold_s": 90.0})
    began(core, SYSTEM)
    starving_first = core.arrive(DEFAULT, 0.0)
    core.take()
    starving = core.arrive(BULK, 0.0)
    core.take()
    higher = core.arrive(INTERACTIVE, 20.0)
    assert core.take() == [(starving_first, Verdict.PREEMPTED)]
    core.leave(starving_first, 20.0)
    assert admitted(core) == [higher]
    core.leave(higher, 20.0)
    assert admitted(core) == [starving]


def test_who_was_promoted_is_not_preempted() -> None:
    """It would only wait from the beginning again."""
    core = scheduler()
    holder = began(core, SYSTEM)
    bulk = core.arrive(BULK, 0.0)
    default = core.arrive(DEFAULT, 5.0)
    core.leave(holder, 12.0)
    core.take()
    assert bulk.promoted
    core.arrive(SYSTEM, 12.0)
    assert core.take() == []
    core.leave(bulk, 12.0)
    assert len(admitted(core)) == 1
    assert default.place is Place.WAITING


def test_the_victim_is_of_the_lowest_class_and_the_last_one_in() -> None:
    """Of (default, bulk, bulk) the last bulk; of (interactive, default, default) for a system the last default."""
    for levels, victim in (((DEFAULT, BULK, BULK), 2), ((INTERACTIVE, DEFAULT, DEFAULT), 2), ((BULK, DEFAULT), 0)):
        core = scheduler(capacity=len(levels))
        inside = [core.arrive(level, 0.0) for level in levels]
        core.take()
        core.arrive(SYSTEM, 1.0)
        assert core.take() == [(inside[victim], Verdict.PREEMPTED)]


def test_the_same_class_and_the_lower_ones_preempt_nobody() -> None:
    """Default and bulk may not ask, and interactive does not push interactive away."""
    for inside, comes in ((BULK, DEFAULT), (INTERACTIVE, INTERACTIVE), (SYSTEM, INTERACTIVE), (BULK, BULK)):
        core = scheduler()
        core.arrive(inside, 0.0)
        core.take()
        core.arrive(comes, 1.0)
        assert core.take() == []


def test_one_victim_for_each_who_waits_and_no_more() -> None:
    """Time, departures and further verdicts do not make a second victim for the same waiter."""
    core = scheduler(capacity=3)
    victims = [core.arrive(BULK, 0.0) for _ in range(3)]
    core.take()
    core.arrive(SYSTEM, 1.0)
    assert core.take() == [(victims[2], Verdict.PREEMPTED)]
    core.advance(2.0)
    core.resize(3, 2.0)
    assert core.take() == []
    core.arrive(SYSTEM, 2.0)
    assert core.take() == [(victims[1], Verdict.PREEMPTED)]


def test_a_preemptor_needs_no_place_in_its_queue() -> None:
    """A class that may not wait still preempts; what is shed is only who finds no victim."""
    core = scheduler(capacity=2, system={"queue_size": 0})
    victim = core.arrive(BULK, 0.0)
    began(core, BULK)
    core.take()
    higher = core.arrive(SYSTEM, 1.0)
    assert core.take() == [(victim, Verdict.PREEMPTED)]
    shed = core.arrive(SYSTEM, 1.0)
    assert core.take() == [(shed, Verdict.FULL)]
    core.leave(victim, 1.0)
    assert admitted(core) == [higher]


def test_slots_on_their_way_are_counted_from_the_top() -> None:
    """What was taken for a higher class makes no room in the queue of a lower one."""
    core = scheduler(capacity=2, interactive={"queue_size": 0})
    core.arrive(BULK, 0.0)
    began(core, BULK)
    core.take()
    core.arrive(SYSTEM, 1.0)
    assert [verdict for _, verdict in core.take()] == [Verdict.PREEMPTED]
    lower = core.arrive(INTERACTIVE, 1.0)
    assert core.take() == [(lower, Verdict.FULL)]


def test_reservations_of_higher_classes_are_left_alone() -> None:
    """Of four slots, one reserved for system and one for interactive: the lower ones share two."""
    core = scheduler(4, system={"reserved_floor": 1}, interactive={"reserved_floor": 1, "can_preempt": False})
    inside = [core.arrive(level, 0.0) for level in (DEFAULT, BULK, DEFAULT, BULK)]
    assert [ticket.place for ticket in inside] == [Place.INSIDE] * 2 + [Place.WAITING] * 2
    assert core.arrive(INTERACTIVE, 0.0).place is Place.INSIDE
    assert core.arrive(INTERACTIVE, 0.0).place is Place.WAITING
    assert core.arrive(SYSTEM, 0.0).place is Place.INSIDE


def test_preemption_that_would_not_help_is_left_alone() -> None:
    """With more inside than slots (workers left), one victim makes no room, so nobody is taken."""
    core = scheduler(capacity=3)
    for _ in range(3):
        core.arrive(BULK, 0.0)
    core.resize(1, 0.0)
    core.take()
    core.arrive(SYSTEM, 1.0)
    assert core.take() == []


def test_a_spent_rate_refuses_at_once() -> None:
    """Over the rate a request is refused though slots are free; a refusal costs no token."""
    core = scheduler(9, RequestRate(1.0, 1))
    first, second, third = core.arrive(BULK, 0.0), core.arrive(SYSTEM, 0.5), core.arrive(BULK, 1.0)
    assert core.take() == [(first, Verdict.ADMITTED), (second, Verdict.HASTY), (third, Verdict.ADMITTED)]
