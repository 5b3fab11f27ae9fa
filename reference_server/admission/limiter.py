"""The plain limit: so many requests at a time, so many waiting, first come first served. A sans-I/O core.

Clauses: rate_limiting.admission_queue_*; where the contract is silent (order, burst, which way a slot comes back) it
does what the real gateway does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_server.admission.tickets import Place, Ticket, Verdict

if TYPE_CHECKING:
    from reference_server.admission.rate import RequestRate


class Limiter:
    """At most `limit` requests inside and `queue_size` waiting, none longer than `queue_timeout_s`.

    With a `rate`, being let in costs a token too; who finds none waits in the same queue.
    """

    def __init__(self, limit: int, queue_size: int, queue_timeout_s: float, rate: RequestRate | None = None) -> None:
        self._limit = limit
        self._queue_size = queue_size
        self._queue_timeout_s = queue_timeout_s
        self._rate = rate
        self._waiting: dict[Ticket, None] = {}  # in the order of arrival
        self._inside = 0
        self._verdicts: list[tuple[Ticket, Verdict]] = []
        self._now = 0.0

    @property
    def inside(self) -> int:
        """How many requests hold a slot."""
        return self._inside

    @property
    def waiting(self) -> int:
        """How many requests wait for one."""
        return len(self._waiting)

    def arrive(self, now: float) -> Ticket:
        """A request comes in; `take` tells what becomes of it."""
        self.advance(now)
        ticket = Ticket(now)
        if self._is_open():  # then nobody waits: whoever could come in has just done so
            self._admit(ticket)
        elif len(self._waiting) < self._queue_size:
            ticket.place = Place.WAITING
            self._waiting[ticket] = None
        else:
            self._verdicts.append((ticket, Verdict.FULL if self._queue_size else Verdict.DISABLED))
        return ticket

    def leave(self, ticket: Ticket, now: float) -> None:
        """The request is over, or its client does not wait any longer."""
        if ticket.place is Place.INSIDE:
            self._inside -= 1
        elif ticket.place is Place.WAITING:
            del self._waiting[ticket]
        ticket.place = Place.GONE
        self.advance(now)

    def advance(self, now: float) -> None:
        """Send away who has waited too long, then let in who may come."""
        self._now = now
        while self._waiting and self._first().arrived_at + self._queue_timeout_s <= now:
            late = self._first()
            del self._waiting[late]
            late.place = Place.GONE
            self._verdicts.append((late, Verdict.LATE))
        while self._waiting and self._is_open():
            following = self._first()
            del self._waiting[following]
            self._admit(following)

    def due(self) -> float | None:
        """When the first in the queue has waited too long, or a token for it is there."""
        if not self._waiting:
            return None
        late = self._first().arrived_at + self._queue_timeout_s
        if self._rate is None or self._inside >= self._limit:
            return late
        return min(late, self._rate.ready_at(self._now))

    def take(self) -> list[tuple[Ticket, Verdict]]:
        """The verdicts since the last call."""
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def _first(self) -> Ticket:
        return next(iter(self._waiting))

    def _is_open(self) -> bool:
        return self._inside < self._limit and (self._rate is None or self._rate.ready(self._now))

    def _admit(self, ticket: Ticket) -> None:
        if self._rate is not None:
            self._rate.take(self._now)
        self._inside += 1
        ticket.place = Place.INSIDE
        self._verdicts.append((ticket, Verdict.ADMITTED))
