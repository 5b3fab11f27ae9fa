"""The asyncio shell of admission: futures for those who wait, one timer for the core, permits for those inside."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from reference_server.admission import priority, refusals
from reference_server.admission.limiter import Limiter
from reference_server.admission.metrics import LimiterMetrics, SchedulerMetrics
from reference_server.admission.options import first_capacity
from reference_server.admission.rate import RequestRate
from reference_server.admission.scheduler import Scheduler
from reference_server.admission.tickets import Place, Verdict
from reference_server.stages.admit import OpenDoor

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from reference_server.admission.configuration import AdmissionSettings, SchedulerSettings
    from reference_server.admission.priority import PriorityClass
    from reference_server.admission.tickets import Core, Ticket
    from reference_server.call import Call
    from reference_server.stages.admit import Admission, Permit
    from reference_server.stages.identify import Caller

_LEAST_LIMIT, _LIMIT_PER_CORE = 4096, 1024
_TICK_S = 0.001


class Desk:
    """Lets a core decide who comes in. All of it happens in one event loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._answers: dict[Ticket, asyncio.Future[Verdict]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def until_decided(self, ticket: Ticket) -> Verdict:
        """Wait for the verdict on a ticket that has just arrived; on cancellation it is as if it had never come."""
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = answer
        self.follow_up()
        if not answer.done():
            self.queued(ticket)
        try:
            return await answer
        except asyncio.CancelledError:
            self.leave(ticket)
            raise

    def leave(self, ticket: Ticket) -> None:
        """The request has ended. A second time changes nothing."""
        self._answers.pop(ticket, None)
        self._core.leave(ticket, now())
        self.follow_up()

    def follow_up(self) -> None:
        """Pass on what the core has decided, and see to it that it is woken in time."""
        for ticket, verdict in self._core.take():
            self.decided(ticket, verdict)
            answer = None if verdict is Verdict.PREEMPTED else self._answers.pop(ticket, None)
            if answer is not None and not answer.done():
                answer.set_result(verdict)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._core.due()
        if due is not None:
            # Never at once: what is due and not decided yet is a matter of the clock's last digit.
            self._timer = asyncio.get_running_loop().call_at(max(due, now() + _TICK_S), self._wake)

    def queued(self, ticket: Ticket) -> None:
        """Called for each ticket that has to wait for its verdict."""

    def decided(self, ticket: Ticket, verdict: Verdict) -> None:
        """Called for each verdict."""

    def _wake(self) -> None:
        self._timer = None
        self._core.advance(now())
        self.follow_up()


class LimiterDesk(Desk):
    """The plain limit."""

    preempts = False

    def __init__(self, limiter: Limiter, registry: CollectorRegistry) -> None:
        super().__init__(limiter)
        self._limiter = limiter
        self._metrics = LimiterMetrics(registry, limiter)

    async def acquire(self, this: Call, caller: Caller) -> Permit:  # noqa: ARG002 - all requests are equal here
        """A permit, perhaps after waiting.

        Raises:
            GatewayError: 429 admission_queue_full, 503 admission_queue_timeout.
        """
        ticket = self._limiter.arrive(now())
        verdict = await self.until_decided(ticket)
        if verdict is not Verdict.ADMITTED:
            raise refusals.refusal(refusals.LIMITER, verdict)
        return SimplePermit(lambda: self.leave(ticket))

    def resize(self, slots: int) -> None:
        """The limit is what the operator says, however many slots the workers have."""

    def decided(self, ticket: Ticket, verdict: Verdict) -> None:  # noqa: ARG002 - the hook's signature
        """Count it."""
        self._metrics.count(verdict)


class SchedulerDesk(Desk):
    """The priority scheduler: reads the class asked for, holds it against the tenant, and tells who gives way."""

    preempts = True

    def __init__(
        self, scheduler: Scheduler, settings: SchedulerSettings, stand_in_slots: int, registry: CollectorRegistry
    ) -> None:
        super().__init__(scheduler)
        self._scheduler = scheduler
        self._settings = settings
        self._stand_in_slots = stand_in_slots
        self._metrics = SchedulerMetrics(registry, scheduler, settings.tenant_metric_top_n)
        self._calls: dict[Ticket, Call] = {}
        self._queued: set[Ticket] = set()

    async def acquire(self, this: Call, caller: Caller) -> Permit:
        """A permit, perhaps after waiting. When it is to be given back, `this.preempted` is set.

        Raises:
            GatewayError: 429 scheduler_queue_full, 503 scheduler_queue_timeout.
        """
        level = self._level(this, caller)
        ticket = self._scheduler.arrive(level, now())
        self._calls[ticket] = this
        try:
            verdict = await self.until_decided(ticket)
        except asyncio.CancelledError:
            if ticket.preempted_by is None:  # else that is its outcome
                self._metrics.outcome(level, "client_cancelled")
            raise
        if verdict is not Verdict.ADMITTED:
            self._calls.pop(ticket, None)
            self._metrics.refused(level, verdict)
            raise refusals.refusal(refusals.SCHEDULER, verdict)
        return SchedulerPermit(self, ticket)

    def resize(self, slots: int) -> None:
        """The workers have so many slots; while there are none the operator's number stands in."""
        self._scheduler.resize(slots or self._stand_in_slots, now())
        self.follow_up()

    def queued(self, ticket: Ticket) -> None:
        """Its waiting time will be counted."""
        self._queued.add(ticket)

    def _no_longer_queued(self, ticket: Ticket) -> None:
        if ticket in self._queued:
            self._queued.remove(ticket)
            self._metrics.waited(ticket.level, now() - ticket.arrived_at)

    def decided(self, ticket: Ticket, verdict: Verdict) -> None:
        """Count it; tell a request that it has to give way."""
        if verdict is Verdict.PREEMPTED and ticket.preempted_by is not None:
            self._metrics.preempted(ticket.level, ticket.preempted_by)
            self._calls[ticket].preempted.set()
            return
        self._no_longer_queued(ticket)
        if ticket.promoted:
            self._metrics.promoted(ticket.level)

    def leave(self, ticket: Ticket) -> None:
        """The request has ended. A second time changes nothing."""
        self._calls.pop(ticket, None)
        self._no_longer_queued(ticket)
        super().leave(ticket)

    def may_be_preempted(self, ticket: Ticket) -> bool:
        """Whether the request could still have to give way, or has to."""
        return self._scheduler.may_be_preempted(ticket)

    def first_byte(self, ticket: Ticket) -> bool:
        """Whether the request may send its first byte; from then on it is not preempted."""
        if ticket.place is Place.INSIDE and not ticket.began:
            self._metrics.outcome(ticket.level, "admitted")
        return self._scheduler.first_byte(ticket)

    def end(self, ticket: Ticket) -> None:
        """The request gives its slot back, whether or not it has sent anything."""
        if ticket.place is Place.INSIDE and not ticket.began:
            self._metrics.outcome(ticket.level, "admitted")
        self.leave(ticket)

    def _level(self, this: Call, caller: Caller) -> PriorityClass:
        asked, known = priority.asked_for(this.header(priority.HEADER))
        if not known:
            self._metrics.unknown(caller.tenant_key)
        most = self._settings.tenant_max_class.get(caller.tenant_key, self._settings.default_max_class)
        if asked > most:
            self._metrics.clamped(caller.tenant_key, asked, most)
        return min(asked, most)


class SimplePermit:
    """A permit that nobody takes away."""

    may_be_preempted = False

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release

    def first_byte(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Give the slot back."""
        self._release()


class SchedulerPermit:
    """A permit of the priority scheduler."""

    def __init__(self, desk: SchedulerDesk, ticket: Ticket) -> None:
        self._desk = desk
        self._ticket = ticket

    @property
    def may_be_preempted(self) -> bool:
        """Whether a higher class could still take the slot, or has taken it."""
        return self._desk.may_be_preempted(self._ticket)

    def first_byte(self) -> bool:
        """Whether the first byte may go out; from then on the slot is safe."""
        return self._desk.first_byte(self._ticket)

    def release(self) -> None:
        """Give the slot back."""
        self._desk.end(self._ticket)


def build(settings: AdmissionSettings, registry: CollectorRegistry) -> Admission:
    """What the settings ask for."""
    limit = settings.max_concurrent_requests
    if limit < 0:
        limit = max(_LEAST_LIMIT, _LIMIT_PER_CORE * _cores())
    rate = RequestRate(settings.requests_per_s, limit) if settings.requests_per_s and limit else None
    if settings.scheduler is not None:
        stand_in = first_capacity(settings)
        scheduler = Scheduler(settings.scheduler, stand_in, rate)
        return SchedulerDesk(scheduler, settings.scheduler, stand_in, registry)
    if limit == 0:
        return OpenDoor()
    return LimiterDesk(Limiter(limit, settings.queue_size, settings.queue_timeout_s, rate), registry)


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now() -> float:
    """The time of the running loop, by which its timers go."""
    return asyncio.get_running_loop().time()
