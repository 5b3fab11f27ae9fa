"""Stage *admit*: a place for the request, or none. For now everyone gets one at once.

The seam is complete: `Admission.acquire` may wait or raise `GatewayError` (429, 503), and the `Permit` it returns is
released exactly once on every way out, because it is put into the call's `undo` before anything else happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.stages.identify import Caller


class Permit(Protocol):
    """The right to be served, until it is released."""

    def release(self) -> None:
        """Give the place back."""
        ...


class Admission(Protocol):
    """Who decides about places."""

    async def acquire(self, this: Call, caller: Caller) -> Permit:
        """A permit, perhaps after waiting.

        Raises:
            GatewayError: there is no place for this request.
        """
        ...


class OpenDoor:
    """Admits everyone at once and counts who is inside."""

    def __init__(self) -> None:
        self.inside = 0

    async def acquire(self, this: Call, caller: Caller) -> Permit:  # noqa: ARG002 - the protocol's signature
        """A permit, at once."""
        self.inside += 1
        return _Place(self)


class _Place:
    """One permit of an `OpenDoor`."""

    def __init__(self, door: OpenDoor) -> None:
        self._door = door
        self._held = True

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
    permit = await admission.acquire(this, caller)
    this.undo.callback(permit.release)
