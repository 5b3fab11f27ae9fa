"""What is counted of workers is what happened to them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from reference_server.errors import GatewayError
from reference_server.metrics.workers import WorkerMetrics
from reference_server.settings import BreakerSettings, HealthSettings, OverloadSettings, RetrySettings
from reference_server.workers.exchange import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reference_server.workers.fleet import Fleet

    Start = Callable[..., Awaitable[Any]]

CHAT = "/v1/chat/completions"


class Counted:
    """The metrics of one fleet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.watcher = WorkerMetrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float | None:
        """A sample's value; `None` where there is none."""
        return self.registry.get_sample_value(f"smg_worker_{name}", labels)


async def _ask(fleet: Fleet, path: str = CHAT) -> int:
    request = UpstreamRequest("POST", path, [], b"{}", "m", read_limit_bytes=1000)
    try:
        response = await fleet.dispatch(request)
    except GatewayError as refused:
        return refused.status
    await response.aclose()
    return response.status


async def test_repetitions_are_counted_with_their_pauses(kit: Any, start_worker: Start, start_fleet: Start) -> None:
    """Two failures and a success: three requests sent, two repetitions, the first and second pause; none exhausted."""
    busy, good = kit.saying(kit.response(b"{}", 503)), kit.saying(kit.response(b"{}"))
    worker = await start_worker(busy, busy, good, busy, busy, model="m")
    counted = Counted()
    fleet = await start_fleet(
        worker, watcher=counted.watcher, retry=RetrySettings(max_attempts=3, initial_backoff_ms=20, jitter_factor=0)
    )
    chat = {"worker_type": "regular", "endpoint": "chat"}
    assert await _ask(fleet) == 200
    assert counted("requests_total", worker=worker.url, model="m") == 3
    assert counted("retries_total", **chat) == 2
    assert counted("retry_backoff_seconds_sum", attempt="1") == pytest.approx(0.02)
    assert counted("retry_backoff_seconds_sum", attempt="2") == pytest.approx(0.03)
    assert counted("retries_exhausted_total", **chat) is None
    assert await _ask(fleet) == 503
    assert counted("retries_exhausted_total", **chat) == 1
    assert await _ask(fleet, "/v1/embeddings") == 503
    assert counted("retries_exhausted_total", worker_type="regular", endpoint="other") == 1


async def test_breakers_are_shown_as_they_are(kit: Any, start_worker: Start, start_fleet: Start, until: Start) -> None:
    """Outcomes, transitions and the present state; half-open by time alone; a client error is a success."""
    answers = [kit.saying(kit.response(b"{}", status)) for status in (500, 500, 400, 429, 200)]
    worker = await start_worker(*answers, model="m")
    counted = Counted()
    fleet = await start_fleet(
        worker,
        watcher=counted.watcher,
        breaker=BreakerSettings(failure_threshold=2, success_threshold=2, timeout_s=0.2),
        retry=RetrySettings(max_attempts=1),
    )
    counted.watcher.follow(fleet.registry, time.monotonic, OverloadSettings())
    assert counted("cb_state", worker=worker.url) == 0
    assert [await _ask(fleet) for _ in range(3)] == [500, 500, 503]
    assert counted("cb_state", worker=worker.url) == 1
    assert counted("cb_outcomes_total", worker=worker.url, outcome="failure") == 2
    await until(lambda: counted("cb_state", worker=worker.url) == 2)
    assert [await _ask(fleet) for _ in range(3)] == [400, 429, 200]
    assert counted("cb_state", worker=worker.url) == 0
    assert counted("cb_outcomes_total", worker=worker.url, outcome="success") == 2
    assert counted("cb_outcomes_total", worker=worker.url, outcome="uncounted") is None
    for before, after in (("closed", "open"), ("open", "half_open"), ("half_open", "closed")):
        assert counted("cb_transitions_total", **{"worker": worker.url, "from": before, "to": after}) == 1


async def test_health_is_shown_until_the_worker_is_gone(
    kit: Any, start_worker: Start, start_fleet: Start, until: Start
) -> None:
    """Checks are counted by result; a worker's gauge follows its health, and goes with it."""
    worker = await start_worker(model="m")
    counted = Counted()
    health = HealthSettings(interval_s=0.05, failure_threshold=2, success_threshold=1, timeout_s=1)
    fleet = await start_fleet(worker, watcher=counted.watcher, health=health)
    counted.watcher.follow(fleet.registry, time.monotonic, OverloadSettings())
    checks = {"worker_type": "regular"}
    await until(lambda: (counted("health_checks_total", result="success", **checks) or 0) >= 1)
    assert counted("health", worker=worker.url) == 1
    worker.pages[b"/health"] = kit.response(b"", 500)
    await until(lambda: counted("health", worker=worker.url) == 0)
    assert (counted("health_checks_total", result="failure", **checks) or 0) >= 2
    (known,) = fleet.registry
    fleet.remove(known)
    await until(lambda: counted("health", worker=worker.url) is None)
