"""What ends a load run without a verdict about the gateway; whose fault it is decides the exit status.

```
conformance.harness.errors.UserError      wrong option or file           exit 2
conformance.harness.errors.HarnessError   nothing could be judged        exit 4
└── GeneratorLate                         the load was not as asked for  exit 3
```
"""

from __future__ import annotations

from conformance.harness.errors import HarnessError


class GeneratorLate(HarnessError):  # noqa: N818 - reads as the state it is
    """The generator did not send when it was due, so its figures would be its own and not the gateway's."""
