"""asyncio without waiting: a loop whose clock jumps to the next timer as soon as nothing else is left to do."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")


class _Jump(selectors.SelectSelector):
    """A selector that instead of waiting moves the clock on."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if nothing is, the time asked for has passed."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everything waits for ever")
            self._loop.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for code without sockets and threads. Its clock starts at 0 and stands still while code runs."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.now


def run_virtually(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in virtual time.

    Raises:
        AssertionError: nothing is left to do and it has not ended.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
