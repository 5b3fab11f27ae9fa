"""Stage *admit*: a place for the request, or none (`reference_server.admission` decides).

`Admission.acquire` may wait or raise `GatewayError` (429, 503), and the `Permit` it returns is released exactly once on
every way out, because it is put into the call's `undo` before anything else happens.

Who preempts says so: then `Call.preempted` is set when a request has to give its place back, and whoever sends asks
`Permit.first_byte` before the first byte of the answer. Until it has said yes the request may be taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.stages.identify import Caller


class Permit(Protocol):
    """The right to be served, until it is released."""

    @property
    def may_be_preempted(self) -> bool:
        """Whether the place could still be taken away, or has been. If not, nothing need be held back."""
        ...

    def first_byte(self) -> bool:
        """Whether the first byte of the answer may go out; from then on the place is not taken away."""
        ...

    def release(self) -> None:
        """Give the place back."""
        ...


class Admission(Protocol):
    """Who decides about places."""

    preempts: bool  # whether a place may be taken away

    async def acquire(self, this: Call, caller: Caller) -> Permit:
        """A permit, perhaps after waiting.

        Raises:
            GatewayError: there is no place for this request.
        """
        ...

    def resize(self, slots: int) -> None:
        """The healthy workers together serve so many requests at a time; 0: there is none."""
        ...


class OpenDoor:
    """Admits everyone at once and counts who is inside (`--max-concurrent-requests 0`)."""

    preempts = False

    def __init__(self) -> None:
        self.inside = 0

    async def acquire(self, this: Call, caller: Caller) -> Permit:  # noqa: ARG002 - the protocol's signature
        """A permit, at once."""
        self.inside += 1
        return _Place(self)

    def resize(self, slots: int) -> None:
        """Everyone is admitted all the same."""


class _Place:
    """One permit of an `OpenDoor`."""

    may_be_preempted = False

    def __init__(self, door: OpenDoor) -> None:
        self._door = door
        self._held = True

    def first_byte(self) -> bool:
        """Always."""
        return True

    def release(self) -> None:
        """Leave; a second time changes nothing."""
        if self._held:
            self._held = False
            self._door.inside -= 1


async def admit(this: Call, caller: Caller, admission: Admission) -> None:
    """Wait for a place; it is given back when the call is settled.

    Raises:
        GatewayError: there is no place for this request.
    """
    this.permit = await admission.acquire(this, caller)
    this.undo.callback(this.permit.release)
