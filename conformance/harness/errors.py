"""Everything that can go wrong in a run, by whose fault it is.

```
HarnessError                  the run cannot judge: our fault or the environment's
├── TargetError               a gateway could not be installed, started, reached or recognised
│   └── Unavailable           ... so that a check's environment is missing
├── FleetError                the fake workers could not be started or have gone
└── CheckError                a check is written wrongly (unknown clause, skip at run time, ...)
UserError                     wrong option, wrong file: told to the user before anything starts
Disproved(AssertionError)     the gateway did not do what the clause says; `kind` says how, for fingerprints
```
"""

from __future__ import annotations


class HarnessError(Exception):
    """The suite cannot judge; never a verdict about the gateway."""


class TargetError(HarnessError):
    """The gateway under test could not be installed, started, reached or recognised as one."""


class Unavailable(TargetError):  # noqa: N818 - reads as the state it is
    """The environment a check needs could not be brought up."""


class FleetError(HarnessError):
    """The fake workers could not be started, or have gone."""


class CheckError(HarnessError):
    """A check is written wrongly."""


class UserError(Exception):
    """An option or a file the user gave is wrong; the message says what, where and what to do instead."""


class Disproved(AssertionError):  # noqa: N818 - it is an assertion that did not hold, not a programming error
    """A clause does not hold.

    Args:
        kind: a short slug of how it fails, part of the failure's fingerprint (see `conformance.reports.fingerprint`).
        message: what was seen, for a reader.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
