"""What passes between the cores of admission and their shell: one ticket a request, verdicts on tickets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from reference_server.admission.priority import PriorityClass


class Verdict(Enum):
    """What a core decides about a ticket. A ticket gets ADMITTED or one refusal; PREEMPTED only after ADMITTED."""

    ADMITTED = "admitted"
    FULL = "full"  # there is no place, and none to wait for
    DISABLED = "disabled"  # there is no place, and nobody may wait
    HASTY = "hasty"  # more requests a second than may come
    LATE = "late"  # waited longer than it may
    PREEMPTED = "preempted"  # has to give its place back before its first byte


class Place(Enum):
    """Where a ticket is."""

    WAITING = "waiting"
    INSIDE = "inside"
    LEAVING = "leaving"  # preempted; it holds its slot until it has left
    GONE = "gone"


@dataclass(slots=True, eq=False)
class Ticket:
    """One request from its arrival to its end. Times are seconds of the shell's clock. Only its core changes it."""

    arrived_at: float
    level: PriorityClass = PriorityClass.DEFAULT
    place: Place = Place.GONE
    began: bool = False  # its first body byte is on its way: it can no longer be preempted
    promoted: bool = False  # let in out of order, because it had waited too long
    preempted_by: PriorityClass | None = None


class Core(Protocol):
    """A sans-I/O core of admission: is told events and times, and tells verdicts.

    Times must not run backwards. Verdicts are collected until `take` is called.
    """

    def leave(self, ticket: Ticket, now: float) -> None:
        """The request is over, or its client does not wait any longer. A second time changes nothing."""
        ...

    def advance(self, now: float) -> None:
        """Decide whatever time alone decides."""
        ...

    def due(self) -> float | None:
        """When `advance` must be called next, unless something else happens before."""
        ...

    def take(self) -> list[tuple[Ticket, Verdict]]:
        """The verdicts since the last call, in the order in which they were reached."""
        ...
