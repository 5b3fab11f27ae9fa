"""Gauges of what workers report about their load, under the real gateway's names; read off when somebody asks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from reference_server.workers.overload import OverloadGuard
    from reference_server.workers.worker import Worker

_SHOWN = {
    "running_requests": ("num_running_reqs", "Running requests, as the engine reports them."),
    "waiting_requests": ("num_waiting_reqs", "Waiting requests, as the engine reports them."),
    "token_usage": ("token_usage", "Used share of the KV cache (0 to 1), as the engine reports it."),
    "cache_hit_rate": ("cache_hit_rate", "Hit rate of the prefix cache (0 to 1), as the engine reports it."),
    "gen_throughput": ("gen_throughput", "Generated tokens a second, as the engine reports them."),
}
_LABELS = ["worker", "model", "dp_rank"]


class LoadGauges:
    """Asked by the metrics library, in a thread of its own: it only reads."""

    def __init__(self, workers: Iterable[Worker], clock: Callable[[], float], guard: OverloadGuard) -> None:
        self._workers = workers
        self._clock = clock
        self._guard = guard

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing in advance: the workers come later."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The last report of every worker there is now, and how many workers of each model are over a threshold."""
        families = {
            name: GaugeMetricFamily(f"smg_engine_{name}", text, labels=_LABELS) for name, (_, text) in _SHOWN.items()
        }
        over: Counter[str] = Counter()
        for worker in self._workers:
            report = worker.load
            for model in worker.models:
                over[model.id] += self._guard.over(report, self._clock())
                for rank in report.ranks if report else ():
                    for name, (field, _) in _SHOWN.items():
                        families[name].add_metric([worker.url, model.id, str(rank.dp_rank)], getattr(rank, field))
        yield from families.values()
        overloaded = GaugeMetricFamily("smg_workers_overloaded", "Workers over a threshold of load.", labels=["model"])
        for model_id, number in over.items():
            overloaded.add_metric([model_id], number)
        yield overloaded
