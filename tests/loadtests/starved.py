"""A locust file whose generator burns its own time: what it measures is itself, so it must refuse to judge."""

from __future__ import annotations

import time
from typing import Any

import gevent
from locust import events

from loadtests.steady import Steady

__all__ = ["Steady"]
BURN_S = 0.35


def _burn() -> None:
    while True:
        until = time.monotonic() + BURN_S
        while time.monotonic() < until:
            pass
        gevent.sleep(0.01)


@events.test_start.add_listener  # type: ignore[untyped-decorator]  # locust does not type its hooks
def _starve(**_: Any) -> None:
    gevent.spawn(_burn)
