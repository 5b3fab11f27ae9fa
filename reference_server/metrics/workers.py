"""What is counted of workers, under the real gateway's names: requests, repetitions, breakers, health.

Gauges are read off the workers when somebody asks for them, so they are never old, and a removed worker has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from reference_server.metrics.loads import LoadGauges
from reference_server.workers.breaker import Outcome
from reference_server.workers.overload import OverloadGuard
from reference_server.workers.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import CollectorRegistry

    from reference_server.settings import OverloadSettings
    from reference_server.workers.breaker import BreakerState
    from reference_server.workers.worker import Worker

_KIND = "regular"  # the real gateway's word for a worker that does all of a request's work
_ENDPOINTS = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
_PAUSES_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class WorkerMetrics(Watcher):
    """A `Watcher` that counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._sent = self._counter("requests", "Requests sent to a worker, repetitions included.", "worker", "model")
        self._repeated = self._counter("retries", "Repetitions of requests.", "worker_type", "endpoint")
        self._exhausted = self._counter(
            "retries_exhausted", "Requests whose last attempt failed too.", "worker_type", "endpoint"
        )
        self._pauses = Histogram(
            "smg_worker_retry_backoff_seconds",
            "Pauses before repetitions, by which repetition it is.",
            ("attempt",),
            buckets=_PAUSES_S,
            registry=registry,
        )
        self._ended = self._counter(
            "cb_outcomes", "Outcomes that circuit breakers counted: success or failure.", "worker", "outcome"
        )
        self._moved = self._counter("cb_transitions", "Transitions of circuit breakers.", "worker", "from", "to")
        self._probed = self._counter("health_checks", "Health checks: success or failure.", "worker_type", "result")

        self._shed = self._counter("overload_shed", "Requests refused because workers are overloaded.", "stage")
        for stage in ("selection", "dispatch"):
            self._shed.labels(stage)  # shown from the start, as zero

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"smg_worker_{name}", text, labels, registry=self._registry)  # the library adds _total

    def follow(self, workers: Iterable[Worker], clock: Callable[[], float], overload: OverloadSettings) -> None:
        """Show the present state of these workers, whoever they are at the time.

        `clock` is that of their breakers and load reports.
        """
        self._registry.register(_Gauges(workers, clock))
        self._registry.register(LoadGauges(workers, clock, OverloadGuard(overload)))

    def sent(self, worker_url: str, model: str) -> None:
        """A request is being sent to a worker."""
        self._sent.labels(worker_url, model).inc()

    def repeated(self, path: str, number: int, pause_s: float) -> None:
        """A request is sent again after a pause, for the `number`-th time."""
        self._repeated.labels(_KIND, _ENDPOINTS.get(path, "other")).inc()
        self._pauses.labels(str(number)).observe(pause_s)

    def exhausted(self, path: str) -> None:
        """No attempt is left for a request that would be repeated."""
        self._exhausted.labels(_KIND, _ENDPOINTS.get(path, "other")).inc()

    def ended(self, worker_url: str, outcome: Outcome) -> None:
        """An outcome was told to a breaker; one that does not count there does not here."""
        if outcome is not Outcome.UNCOUNTED:
            self._ended.labels(worker_url, outcome.value).inc()

    def moved(self, worker_url: str, before: BreakerState, after: BreakerState) -> None:
        """A breaker changed its state."""
        self._moved.labels(worker_url, before.name.lower(), after.name.lower()).inc()

    def shed(self, stage: str) -> None:
        """A request was refused for overload."""
        self._shed.labels(stage).inc()

    def probed(self, *, ok: bool) -> None:
        """A worker's health was asked for."""
        self._probed.labels(_KIND, "success" if ok else "failure").inc()


class _Gauges:
    """Asked by the metrics library, in a thread of its own: it only reads."""

    def __init__(self, workers: Iterable[Worker], clock: Callable[[], float]) -> None:
        self._workers = workers
        self._clock = clock

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing in advance: the workers come later."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges of every worker there is now."""
        health = _gauge("health", "Whether a worker takes requests.")
        state = _gauge("cb_state", "State of a worker's circuit breaker: 0 closed, 1 open, 2 half-open.")
        now = self._clock()
        for worker in self._workers:
            health.add_metric([worker.url], float(worker.healthy))
            state.add_metric([worker.url], worker.breaker.state(now).value)
        yield from (health, state)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"smg_worker_{name}", text, labels=["worker"])
