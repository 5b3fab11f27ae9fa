"""The asyncio shell of the priority scheduler: header and tenant in, permits that may be taken away out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reference_server.admission import priority, refusals
from reference_server.admission.desk import Desk, now
from reference_server.admission.metrics import SchedulerMetrics
from reference_server.admission.tickets import Place, Verdict

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from reference_server.admission.configuration import SchedulerSettings
    from reference_server.admission.priority import PriorityClass
    from reference_server.admission.scheduler import Scheduler
    from reference_server.admission.tickets import Ticket
    from reference_server.call import Call
    from reference_server.stages.admit import Permit
    from reference_server.stages.identify import Caller


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
