"""What can go wrong, and whose fault it is.

::

    FakeWorkerError
    ├── SpecError            the user's: a worker described wrongly, a port that cannot be used
    ├── ScriptError          the test's: a script that makes no sense
    └── ControlError         the control port could not do what was asked
        ├── ControlGone      nobody answers there any more (the fleet was stopped or killed)
        ├── ControlRefused   it answered, and the answer was no
        └── ControlTimeout   no answer in time, or the awaited event did not happen in time
"""

from __future__ import annotations


class FakeWorkerError(Exception):
    """Base of everything raised on purpose by this package."""


class SpecError(FakeWorkerError):
    """A worker or fleet is described wrongly; the message says what to write instead."""


class ScriptError(FakeWorkerError):
    """A script makes no sense; the message says which step and why."""


class ControlError(FakeWorkerError):
    """The control port could not do what was asked."""


class ControlGone(ControlError):  # noqa: N818 - reads as a sentence where it is caught, like asyncio.IncompleteRead
    """Nobody answers on the control port: the fleet was stopped or never started."""


class ControlRefused(ControlError):  # noqa: N818 - see ControlGone
    """The control port answered with an error; ``status`` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status for callers that tell 404 from 400."""
        super().__init__(message)
        self.status = status


class ControlTimeout(ControlError):  # noqa: N818 - see ControlGone
    """The awaited event did not happen in time."""
