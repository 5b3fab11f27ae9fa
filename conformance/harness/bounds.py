"""No check runs forever.

Each coroutine gets a bound of its own, well inside pytest-timeout's, which would end the whole process.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

from conformance.harness.errors import HarnessError

CHECK_BOUND_S = 60.0


def bound(item: pytest.Item) -> None:
    """Replace the item's coroutine function by one that gives up with a HarnessError after `CHECK_BOUND_S`."""
    check = getattr(item, "obj", None)
    if not isinstance(item, pytest.Function) or not inspect.iscoroutinefunction(check):
        return

    @functools.wraps(check)
    async def bounded(*args: Any, **kwargs: Any) -> None:
        """The check, with a bound."""
        try:
            async with asyncio.timeout(CHECK_BOUND_S) as limit:
                await check(*args, **kwargs)
        except TimeoutError:
            if not limit.expired():
                raise
            raise HarnessError(f"the check took over {CHECK_BOUND_S:g} s; one of its waits needs a bound") from None

    item.obj = bounded
