"""The asyncio shell of admission: futures for those who wait, one timer for the core, permits for those inside."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Protocol

from reference_server.admission import priority, refusals
from reference_server.admission.limiter import Limiter
from reference_server.admission.metrics import LimiterMetrics, SchedulerMetrics
from reference_server.admission.options import first_capacity
from reference_server.admission.rate import RequestRate
from reference_server.admission.scheduler import Scheduler
from reference_server.admission.tickets import Place, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry

    from reference_server.admission.configuration import AdmissionSettings, SchedulerSettings
    from reference_server.admission.tickets import Core, Ticket
    from reference_server.call import Call
    from reference_server.stages.identify import Caller

_LEAST_LIMIT, _LIMIT_PER_CORE = 4096, 1024


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
            if verdict is not Verdict.PREEMPTED and (answer := self._answers.pop(ticket, None)) is not None:
                if not answer.done():
                    answer.set_result(verdict)
        if self._timer is not None:
            self._timer.cancel()
        due = self._core.due()
        self._timer = None if due is None else asyncio.get_running_loop().call_at(due, self._wake)

    def decided(self, ticket: Ticket, verdict: Verdict) -> None:
        """Called for each verdict."""

    def _wake(self) -> None:
        self._core.advance(now())
        self.follow_up()


def now() -> float:
    """The time of the running loop, by which its timers go."""
    return asyncio.get_running_loop().time()
