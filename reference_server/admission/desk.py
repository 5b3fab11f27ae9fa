"""The asyncio shell of admission: futures for those who wait, one timer for the core, permits for those inside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reference_server.admission import refusals
from reference_server.admission.metrics import LimiterMetrics
from reference_server.admission.tickets import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from reference_server.admission.limiter import Limiter
    from reference_server.admission.tickets import Core, Ticket
    from reference_server.call import Call
    from reference_server.stages.admit import Permit
    from reference_server.stages.identify import Caller

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


def now() -> float:
    """The time of the running loop, by which its timers go."""
    return asyncio.get_running_loop().time()
