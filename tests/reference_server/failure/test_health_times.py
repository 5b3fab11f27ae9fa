"""When a worker is taken out and let in again, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.settings import HealthSettings, OverloadSettings, Settings
from reference_server.workers.lifecycle import Lifecycle
from reference_server.workers.registry import Registry
from reference_server.workers.watcher import Watcher
from reference_server.workers.worker import ModelInfo, WorkerFacts, WorkerSpec
from tests.virtual_time import run_virtually

if TYPE_CHECKING:
    from collections.abc import Callable

FACTS = WorkerFacts("vllm", (ModelInfo("m"),))


class Probes:
    """A detector whose worker is alive as the clock says; each probe takes its time."""

    def __init__(self, alive: Callable[[float], bool], takes_s: float) -> None:
        self._alive = alive
        self._takes_s = takes_s
        self.began: list[float] = []

    async def detect(self, _spec: WorkerSpec) -> WorkerFacts:
        """Found at once."""
        return FACTS

    async def is_alive(self, _spec: WorkerSpec) -> bool:
        """Whether it was alive when it was asked."""
        now = asyncio.get_running_loop().time()
        self.began.append(now)
        await asyncio.sleep(self._takes_s)
        return self._alive(now)


async def _changes(probes: Probes, health: HealthSettings, until_s: float) -> list[tuple[float, bool]]:
    """When the worker became unhealthy or healthy, looked at often."""
    loop = asyncio.get_running_loop()
    settings = Settings(health=health, overload=OverloadSettings(enabled=False, monitored=False))
    registry = Registry(settings, loop.time)
    unused: Any = None
    lifecycle = Lifecycle(
        settings=settings,
        registry=registry,
        detector=probes,  # type: ignore[arg-type]  # scripted
        monitor=unused,
        clock=loop.time,
        watcher=Watcher(),
    )
    worker = registry.add(WorkerSpec("http://w"))
    lifecycle.begin(worker)
    await asyncio.sleep(0.001)
    changes: list[tuple[float, bool]] = []
    seen = worker.healthy
    while loop.time() < until_s:
        await asyncio.sleep(0.01)
        if worker.healthy is not seen:
            seen = worker.healthy
            changes.append((round(loop.time(), 1), seen))
    await lifecycle.stop()
    return changes


def test_out_after_failures_in_a_row_and_in_again_after_successes() -> None:
    """Probed each second, two of each: out with the second failure, in with the second success, and not before."""
    probes = Probes(lambda now: not (0.5 < now < 2.5 or 6.5 < now < 7.5), takes_s=0.0)
    health = HealthSettings(interval_s=1, failure_threshold=2, success_threshold=2)
    assert run_virtually(_changes(probes, health, 10)) == [(2.0, False), (4.0, True)]


def test_probes_keep_their_pace_however_long_they_take() -> None:
    """The pause between probes counts from beginning to beginning; one that takes longer is followed at once."""
    health = HealthSettings(interval_s=1)
    quick, slow = Probes(lambda _: True, 0.9), Probes(lambda _: True, 2.0)
    assert run_virtually(_changes(quick, health, 5.5)) == []
    assert quick.began == pytest.approx([1, 2, 3, 4, 5])
    assert run_virtually(_changes(slow, health, 5.5)) == []
    assert slow.began == pytest.approx([1, 3, 5])
