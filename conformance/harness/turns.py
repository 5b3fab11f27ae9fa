"""One check at a time: the lock of a configuration whose gateway a check needs to itself, across processes."""

from __future__ import annotations

import asyncio
import fcntl
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TURN_BOUND_S = 100.0
LOOK_EVERY_S = 0.02


@asynccontextmanager
async def turn(file: str) -> AsyncIterator[None]:
    """Hold the lock file while a check runs; an empty name needs none.

    The system lets go of it when the process dies, so no crash blocks the others.

    Raises:
        HarnessError: it was not to be had within `TURN_BOUND_S`.
    """
    if not file:
        yield
        return
    deadline = time.monotonic() + TURN_BOUND_S
    with Path(file).open("ab") as lock:  # noqa: ASYNC230 - nothing is read or written
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HarnessError(
                        f"the checks before this one kept the gateway for {TURN_BOUND_S:g} s; run with fewer processes"
                    ) from None
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                break
        yield
