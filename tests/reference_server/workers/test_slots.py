"""How many requests the workers together serve at a time, as the priority scheduler is told."""

from __future__ import annotations

import pytest

from reference_server.settings import HealthSettings, Settings
from reference_server.workers.detect import _slots
from reference_server.workers.registry import Registry
from reference_server.workers.worker import Worker, WorkerFacts, WorkerSpec


def _ready(registry: Registry, number: int, slots: int) -> Worker:
    worker = registry.add(WorkerSpec(f"http://127.0.0.1:{9000 + number}"))
    registry.mark_ready(worker, WorkerFacts("sglang", (), slots=slots))
    return worker


def test_the_slots_follow_the_workers() -> None:
    """The sum over those that are ready and healthy, told whenever one comes or goes."""
    told: list[int] = []
    registry = Registry(Settings(health=HealthSettings(failure_threshold=1)), lambda: 0.0)
    first = _ready(registry, 1, 3)
    registry.on_slots = told.append
    second = _ready(registry, 2, 64)
    registry.add(WorkerSpec("http://127.0.0.1:9003"))  # not probed yet: it does not count
    registry.remove(first)
    second.health.record(ok=False)
    registry.count_slots()
    assert told == [67, 64, 0]


@pytest.mark.parametrize("said", [None, 0, -1, True, "8", 2.5, [], {}])
def test_a_worker_that_does_not_say_counts_sixty_four(said: object) -> None:
    """Only a whole number above nought is taken for one."""
    assert _slots(said) == 64
    assert _slots(7) == 7
