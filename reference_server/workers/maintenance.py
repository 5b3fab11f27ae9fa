"""Admin routes about all workers at once: what they have reported, and emptying their caches.

Shapes and key order are those of the real gateway, compared call by call; wording is ours.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import metadata
from typing import TYPE_CHECKING, Any

from reference_server.workers.admin import AdminAnswer
from reference_server.workers.exchange import UpstreamError

if TYPE_CHECKING:
    from reference_server.workers.fleet import Fleet
    from reference_server.workers.overload import RankLoad
    from reference_server.workers.worker import Worker

_DISTRIBUTION = "inference-gateway-conformance"


def get_loads(fleet: Fleet) -> AdminAnswer:
    """GET /get_loads: the last report of every worker that has given one. Nobody is asked for it."""
    reports = [(worker, worker.load.ranks) for worker in fleet.registry if worker.load is not None]
    ranks = [rank for _, ranks in reports for rank in ranks]
    body: dict[str, Any] = {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": f"reference-gateway-{metadata.version(_DISTRIBUTION)}",
        "dp_rank_count": len(ranks),
        "loads": [
            {"worker": worker.url, "worker_type": "regular", **asdict(rank)} for worker, own in reports for rank in own
        ],
    }
    if ranks:
        body["aggregate"] = _aggregate(ranks)
    return AdminAnswer(200, (), body)


def _aggregate(ranks: list[RankLoad]) -> dict[str, Any]:
    def mean(values: list[float]) -> float:
        return math.fsum(values) / len(values)

    return {
        "total_running_reqs": sum(rank.num_running_reqs for rank in ranks),
        "total_waiting_reqs": sum(rank.num_waiting_reqs for rank in ranks),
        "total_reqs": sum(rank.num_total_reqs for rank in ranks),
        "avg_token_usage": mean([rank.token_usage for rank in ranks]),
        "avg_throughput": mean([rank.gen_throughput for rank in ranks]),
        "avg_utilization": mean([rank.utilization for rank in ranks]),
    }


async def flush_cache(fleet: Fleet) -> AdminAnswer:
    """POST /flush_cache: every worker is asked to empty its prefix cache; 206 where one could or would not."""
    workers = [worker for worker in fleet.registry if worker.facts is not None]
    problems = await asyncio.gather(*(_flush(fleet, worker) for worker in workers))
    failed = [
        {"worker": worker.url, "error": problem}
        for worker, problem in zip(workers, problems, strict=True)
        if problem is not None
    ]
    flushed = len(workers) - len(failed)
    counts = {
        "workers_flushed": flushed,
        "total_http_workers": len(workers),
        "total_grpc_workers": 0,
        "total_zmq_workers_skipped": 0,
        "total_workers": len(workers),
    }
    if not failed:
        message = f"The caches of all {flushed} workers are empty" if workers else "There is no worker to ask"
        return AdminAnswer(200, (), {"status": "success", "message": message, **counts})
    successful = [worker.url for worker, problem in zip(workers, problems, strict=True) if problem is None]
    message = f"{flushed} caches are empty, {len(failed)} workers failed"
    body = {"status": "partial_success", "message": message, **counts, "successful": successful, "failed": failed}
    return AdminAnswer(206, (), body)


async def _flush(fleet: Fleet, worker: Worker) -> str | None:
    """What went wrong, if anything did."""
    try:
        status = await fleet.post(worker, "/flush_cache")
    except UpstreamError as error:
        return error.message
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    return f"POST /flush_cache answered {status}"
