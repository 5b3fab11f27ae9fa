"""What workers report about their load: asked for again and again, in the two ways engines have.

`/v1/loads` first. A worker that does not know it (404, 405, 501) or answers with something else is asked for `/metrics`
from then on. A worker that says nothing readable keeps its last report until that is too old to mean anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from reference_server.workers.exchange import UpstreamError
from reference_server.workers.overload import LoadReport, RankLoad

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reference_server.workers.worker import Worker, WorkerSpec

    Ask = Callable[[WorkerSpec, str], Awaitable[tuple[int, bytes]]]

_log = logging.getLogger(__name__)
LOADS = "/v1/loads?include=core,disagg,queues,memory"
METRICS = "/metrics"
_UNKNOWN_STATUSES = frozenset({404, 405, 501})
_OK = 200
_MOST_RANKS = 4096
_LARGEST = 2**31 - 1
_WHOLE_FIELDS = frozenset(field.name for field in fields(RankLoad) if field.type == "int")
_SAMPLE = re.compile(r"(sglang[:_]|vllm:)([a-z_]+)(?:\{.*\})?[ \t]+(\S+)(?:[ \t]+-?[0-9]+)?[ \t]*")
_WAITING = frozenset({"num_queue_reqs", "num_requests_waiting"})
_RUNNING = frozenset({"num_running_reqs", "num_requests_running"})
_USAGE = ("token_usage", "kv_cache_usage_perc", "gpu_cache_usage_perc")


class LoadMonitor:
    """Asks workers for their load; `ask` sends a GET with the worker's key and returns status and body."""

    def __init__(self, interval_s: float, ask: Ask, clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._ask = ask
        self._clock = clock

    async def watch(self, worker: Worker) -> None:
        """Ask a worker now and every interval, until cancelled; its report is kept in `worker.load`."""
        source = LOADS
        while True:
            began_at = self._clock()
            source, report = await self._poll(worker, source)
            worker.load = report or worker.load
            await asyncio.sleep(max(0.0, began_at + self._interval_s - self._clock()))

    async def _poll(self, worker: Worker, source: str) -> tuple[str, LoadReport | None]:
        """Where to ask the next time, and what was reported."""
        try:
            status, body = await self._ask(worker.spec, source)
            if source == LOADS:
                ranks = read_loads(body) if status == _OK else None
                if status not in _UNKNOWN_STATUSES and (status != _OK or ranks is not None):
                    return LOADS, self._report(ranks)
                _log.info("worker %s has no readable %s; its %s is asked for", worker.url, LOADS, METRICS)
                status, body = await self._ask(worker.spec, METRICS)
            return METRICS, self._report(read_metrics(body) if status == _OK else None)
        except UpstreamError:
            return source, None

    def _report(self, ranks: tuple[RankLoad, ...] | None) -> LoadReport | None:
        return LoadReport(ranks, self._clock()) if ranks else None


def read_loads(body: bytes) -> tuple[RankLoad, ...] | None:
    """The ranks of a `/v1/loads` document, none for an empty list; `None`: it is no such document.

    Every member may be missing and unknown ones are passed over; a member of another type spoils the document.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = document.get("loads") if isinstance(document, dict) else None
    if not isinstance(entries, list) or len(entries) > _MOST_RANKS:
        return None
    ranks = [_rank(entry) for entry in entries]
    return None if None in ranks else tuple(rank for rank in ranks if rank is not None)


def _rank(entry: Any) -> RankLoad | None:
    if not isinstance(entry, dict):
        return None
    found: dict[str, Any] = {}
    for field in fields(RankLoad):
        value = entry.get(field.name)
        if value is None:
            continue
        wanted = int if field.name in _WHOLE_FIELDS else (int, float)
        if isinstance(value, bool) or not isinstance(value, wanted) or not abs(value) <= _LARGEST:
            return None
        found[field.name] = value
    found.setdefault("num_total_reqs", found.get("num_running_reqs", 0) + found.get("num_waiting_reqs", 0))
    return RankLoad(**found)


def read_metrics(body: bytes) -> tuple[RankLoad, ...] | None:
    """The one rank that an engine's `/metrics` tell of; `None` where the use of the KV cache is not among them.

    Counts are summed over the label sets of a series, the use of the cache is averaged.
    """
    counts = {"waiting": 0.0, "running": 0.0}
    usages: dict[str, list[float]] = {}
    for line in body.decode(errors="replace").splitlines():
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            continue
        name, value = sample[2], _number(sample[3])
        if value is None:
            continue
        if name in _WAITING:
            counts["waiting"] += value
        elif name in _RUNNING:
            counts["running"] += value
        elif name in _USAGE:
            usages.setdefault(name, []).append(value)
    found = next((usages[name] for name in _USAGE if name in usages), None)
    if found is None:
        return None
    waiting, running = round(counts["waiting"]), round(counts["running"])
    usage = math.fsum(found) / len(found)
    return (
        RankLoad(
            num_running_reqs=running,
            num_waiting_reqs=waiting,
            num_total_reqs=running + waiting,
            token_usage=usage,
        ),
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None
