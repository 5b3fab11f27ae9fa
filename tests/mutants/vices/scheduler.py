"""Vices of the priority scheduler: classes, queues, reservations, promotion, and who gives way to whom."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from reference_server.admission.priority import PriorityClass
from reference_server.admission.tickets import Place
from tests.mutants.vice import Front, Vice, add, both, swap
from tests.mutants.vices.admission import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from reference_server.call import Call
    from reference_server.stages.identify import Caller

SCHEDULER = "reference_server.admission.scheduler:Scheduler"
ASKED_FOR = "reference_server.admission.priority:asked_for"
OF_STRANGER = "reference_server.identity.tenants:of_stranger"
PREFIX, PREEMPTED = "admission.scheduler", "rate_limiting.scheduler_preempted"
BULK, DEFAULT, INTERACTIVE, SYSTEM = PriorityClass


def scheduling(**changes: Callable[[Any], Any]) -> Vice:
    """Other settings of the scheduler: each named one as its edit makes of it."""

    def change(settings: Any) -> Any:
        if settings is None:
            return None
        return dataclasses.replace(settings, **{name: edit(getattr(settings, name)) for name, edit in changes.items()})

    return limits(scheduler=change)


def classes(**changes: Callable[[Any], Any]) -> Vice:
    """Other settings of every class: each named one as its edit makes of it."""

    def change(known: Mapping[PriorityClass, Any]) -> dict[PriorityClass, Any]:
        return {
            level: dataclasses.replace(each, **{name: edit(getattr(each, name)) for name, edit in changes.items()})
            for level, each in known.items()
        }

    return scheduling(classes=change)


# -- which class, and whose queue


def reads(edit: Callable[[str | None], str | None]) -> Vice:
    """X-SMG-Priority read as if it were what the edit makes of it."""
    return swap(ASKED_FOR, lambda original, value: original(edit(value)))


KNOWN = {level.label for level in PriorityClass}

add(
    "takes_absent_for_bulk",
    "Without X-SMG-Priority a request is of class bulk.",
    (f"{PREFIX}.absent_is_default",),
    reads(lambda value: value or "bulk"),
)
add(
    "takes_unknown_for_bulk",
    "Whoever asks for a class that is none gets class bulk.",
    (f"{PREFIX}.unknown_is_default",),
    reads(lambda value: "bulk" if value and value.strip().lower() not in KNOWN else value),
)
add(
    "knows_classes_by_their_case",
    "Only a class in lower case is known.",
    (f"{PREFIX}.any_case",),
    reads(lambda value: value if value is None or value == value.lower() else "default"),
)
add(
    "keeps_blanks_of_classes",
    "A class with blanks round it is unknown.",
    (f"{PREFIX}.blanks",),
    Vice(front=Front(to_gateway=lambda data: data.replace(b":   bulk  ", b": bulk-with-blanks"))),
)
for _level in PriorityClass:
    if _level is not DEFAULT:
        add(
            f"knows_no_class_{_level.label}",
            f"Class {_level.label} is taken for default.",
            ("request_headers.priority.classes", "rate_limiting.scheduler_queue_full.own_class"),
            reads(lambda value, label=_level.label: "default" if value == label else value),
        )  # type: ignore[misc]  # bound now
add("has_one_queue", "Whoever waits takes a place of every class.", ("rate_limiting.scheduler_queue_full.own_class", "request_headers.priority.classes"),
    swap(f"{SCHEDULER}.queue_size", lambda original, self, level: original(self, level) - sum(len(queue) for each, queue in self._waiting.items() if each != level)))  # fmt: skip
add(
    "clamps_nobody",
    "A tenant's policy is not looked at.",
    (f"{PREFIX}.clamp", "request_headers.tenant_id.trusted", "request_headers.tenant_id.renamed"),
    scheduling(tenant_max_class=lambda _policies: {}),
)
add(
    "clamps_everybody",
    "The default maximum class is default, whatever is configured.",
    (f"{PREFIX}.default_max_class",),
    scheduling(default_max_class=lambda _most: DEFAULT),
)
add("clamps_upwards", "A tenant with a policy gets the class of its policy.", (f"{PREFIX}.clamp_keeps_lower",),
    swap("reference_server.admission.priority_desk:SchedulerDesk._level", lambda original, self, this, caller: self._settings.tenant_max_class.get(caller.tenant_key) or original(self, this, caller)))  # fmt: skip
add("trusts_no_tenant_header", "The tenant header is not read though it is trusted.", ("request_headers.tenant_id.trusted", "rate_limiting.tenant_rate_limit_exceeded.header_identity"),
    Vice(settings=lambda s: dataclasses.replace(s, trust_tenant_header=False)))  # fmt: skip
add(
    "calls_it_x_smg_tenant_id",
    "The tenant header keeps its default name.",
    ("request_headers.tenant_id.renamed",),
    Vice(settings=lambda s: dataclasses.replace(s, tenant_header_name="x-smg-tenant-id")),
)


def _header_first(original: Any, this: Call, settings: Any, group: Any) -> Caller:
    """The header names the tenant, whoever's key it is."""
    caller: Caller = original(this, settings, group)
    name = this.header(settings.tenant_header_name)
    return dataclasses.replace(caller, tenant_key=f"header:{name}") if name and settings.trust_tenant_header else caller


IDENTIFY = "reference_server.pipeline:identify"
add(
    "believes_the_header_first",
    "The tenant header wins over the key.",
    (
        "request_headers.tenant_id.key_wins",
        "rate_limiting.tenant_rate_limit_exceeded.key_wins",
        "auth.shared.one_identity",
    ),
    swap(IDENTIFY, _header_first),
)
add(
    "knows_one_tenant",
    "All keys of tenants are one tenant.",
    ("auth.tenant.own_identity", "rate_limiting.tenant_rate_limit_exceeded.own_bucket"),
    swap("reference_server.identity.tenants:of_tenant", lambda _original, _tenant: "auth:tenant"),
)


# -- who is served, and when


def _lowest_first(_original: Any, self: Any) -> Any:
    for level in PriorityClass:
        for ticket in self._waiting[level]:
            if self.total_inside + self._held_back_from(level) < self._capacity:
                return ticket
    return None


add(
    "serves_low_classes_first",
    "Of those that wait the lowest class is served first.",
    (f"{PREFIX}.class_order",),
    swap(f"{SCHEDULER}._next_in_order", _lowest_first),
)
add(
    "serves_the_last_of_a_class",
    "Of a class the one that came last is served first.",
    (f"{PREFIX}.fifo_in_class",),
    swap("reference_server.admission.scheduler:_first", lambda _original, queue: next(reversed(queue), None)),
)
add(
    "reserves_nothing",
    "Nothing is kept free for a class.",
    (f"{PREFIX}.reserved",),
    classes(reserved_floor=lambda _floor: 0),
)
add(
    "promotes_nobody",
    "Nobody is promoted however long the wait.",
    (f"{PREFIX}.starvation_reserved", f"{PREFIX}.starvation_bounded"),
    classes(starvation_threshold_s=lambda _s: 3600.0),
)
add(
    "promotes_at_once",
    "Whoever waits is promoted almost at once.",
    (f"{PREFIX}.starvation_reserved",),
    classes(starvation_threshold_s=lambda s: s / 4),
)
add(
    "waits_as_long_as_bulk",
    "Every class waits as long as bulk may.",
    ("rate_limiting.scheduler_queue_timeout.own_class",),
    classes(queue_timeout_s=lambda _s: 1.0),
)
add(
    "lets_bulk_wait",
    "Class bulk waits as long as the others may.",
    ("rate_limiting.scheduler_queue_timeout.own_class",),
    classes(queue_timeout_s=lambda _s: 20.0),
)


# -- who gives way

add(
    "preempts_nobody",
    "Nobody gives way.",
    (f"{PREEMPTED}.preemptor_served", f"{PREEMPTED}.status"),
    classes(can_preempt=lambda _may: False),
)
add(
    "lets_all_preempt",
    "Every class may preempt a lower one.",
    (f"{PREEMPTED}.may_preempt",),
    classes(can_preempt=lambda _may: True),
)


def _victims(levels: Callable[[Any], list[Any]], pick: Callable[[Any], Any]) -> Vice:
    """Another choice of who gives way: the classes in their order, and who of a class."""

    def choose(_original: Any, self: Any, level: Any) -> Any:
        return next((pick(self._victims[each]) for each in levels(level) if self._victims[each]), None)

    return swap(f"{SCHEDULER}._victim_below", choose)


def _below(level: Any) -> list[Any]:
    return [each for each in PriorityClass if each < level]


add(
    "preempts_its_equals",
    "A class preempts itself too.",
    (f"{PREEMPTED}.lower_class_only",),
    _victims(lambda level: [each for each in PriorityClass if each <= level], lambda queue: next(reversed(queue))),
)
add(
    "preempts_the_highest",
    "Of the lower classes the highest gives way.",
    (f"{PREEMPTED}.lowest_class",),
    _victims(lambda level: _below(level)[::-1], lambda queue: next(reversed(queue))),
)
add(
    "preempts_the_oldest",
    "Of a class the one admitted first gives way.",
    (f"{PREEMPTED}.most_recent",),
    _victims(_below, lambda queue: next(iter(queue))),
)


def _one_more(original: Any, self: Any) -> None:
    """Whenever somebody gives way, so does another."""
    before = len(self._verdicts)
    original(self)
    for _ticket, verdict in self._verdicts[before:]:
        if verdict.value == "preempted" and (other := self._victim_below(SYSTEM)) is not None:
            self._preempt(other, SYSTEM)


add(
    "preempts_in_pairs",
    "Two give way for one.",
    (f"{PREEMPTED}.one_victim",),
    swap(f"{SCHEDULER}._make_room", _one_more),
)


def _stays_a_victim(original: Any, self: Any, ticket: Any) -> bool:
    """The first byte does not save anybody."""
    kept = ticket in self._victims[ticket.level]
    found: bool = original(self, ticket)
    if kept:
        self._victims[ticket.level][ticket] = None
    return found


async def _cut(this: Call, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, until the request has to give way."""
    pieces = aiter(body)
    gone = asyncio.ensure_future(this.preempted.wait())
    try:
        while True:
            following = asyncio.ensure_future(anext(pieces, b""))
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                return
            if not (piece := following.result()):
                return
            yield piece
    finally:
        gone.cancel()


async def _serves_until_preempted(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
    """Serve; a stream ends when the request has to give way."""
    answer = await original(this, endpoint, state)
    if not isinstance(answer.body, bytes):
        answer.body = _cut(this, answer.body)
    return answer


add("preempts_after_the_first_byte", "Also a request that has begun to answer gives way.", (f"{PREEMPTED}.before_first_token",),
    both(swap(f"{SCHEDULER}.first_byte", _stays_a_victim), swap("reference_server.pipeline:serve", _serves_until_preempted)))  # fmt: skip


async def _shielded(original: Any, *arguments: Any) -> Any:
    """What was asked of a worker goes on, whoever has left."""
    asking = asyncio.ensure_future(original(*arguments))
    _ASKING.add(asking)
    asking.add_done_callback(_ASKING.discard)
    return await asyncio.shield(asking)


_ASKING: set[asyncio.Future[Any]] = set()
add(
    "lets_workers_go_on",
    "The worker of a preempted request is not told.",
    (f"{PREEMPTED}.worker_cancelled",),
    swap("reference_server.pipeline:dispatch", _shielded),
)


def _loses(original: Any, self: Any, ticket: Any, now: float) -> None:
    """A slot once taken is never given back."""
    if ticket.place is Place.INSIDE:
        self._victims[ticket.level].pop(ticket, None)
        ticket.place = Place.GONE
        self.advance(now)
    else:
        original(self, ticket, now)


def _twice(original: Any, self: Any, ticket: Any, now: float) -> None:
    """A slot given back counts twice."""
    if ticket.place is Place.INSIDE:
        self._inside[ticket.level] -= 1
    original(self, ticket, now)


add(
    "scheduler_loses_slots",
    "With the scheduler no slot is given back.",
    (f"{PREFIX}.slot.*",),
    swap(f"{SCHEDULER}.leave", _loses),
)
add(
    "scheduler_frees_twice",
    "With the scheduler a slot given back counts twice.",
    (f"{PREFIX}.slot.returned",),
    swap(f"{SCHEDULER}.leave", _twice),
)
