"""What the storm blows at: a reference server as a process of its own before a fake worker, and what shows of it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.storm.clients import LEVELS
from tests.support import running, started

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOTS = 8
QUEUE = 8
QUEUE_TIMEOUT_S = 10
GAUGES = {
    "limit": {"smg_admission_inflight", "smg_admission_queue_depth"},
    "scheduler": {"smg_scheduler_inflight", "smg_scheduler_queue_depth", "smg_scheduler_utilization"},
}
"""By mode: the gauges that say who is inside and who waits."""
QUEUE_GAUGES = {"limit": "smg_admission_queue_depth", "scheduler": "smg_scheduler_queue_depth"}
PROGRAM = [sys.executable, "-m", "reference_server"]
_WORKER = [sys.executable, "-m", "fake_workers.cli", "--exit-with-parent", "--worker"]
_POLL_S = 0.2
_MB = 1e6


@dataclass(frozen=True)
class Reading:
    """The process at one moment.

    Attributes:
        fds: open file descriptors.
        rss_mb: resident memory, in millions of bytes.
        connections: TCP connections, of clients and to workers.
        gauges: those of `GAUGES` that are not 0, by name and labels.
    """

    fds: int
    rss_mb: float
    connections: int
    gauges: dict[str, float]

    @property
    def still(self) -> bool:
        """Nobody is inside, nobody waits, and no connection is open."""
        return not self.gauges and not self.connections


class Site:
    """The running programs; `address` is the server's, `control_url` the fake workers'."""

    def __init__(self, mode: str, pid: int, url: str, control_url: str) -> None:
        host, port = url.removeprefix("http://").rsplit(":", 1)
        self.mode = mode
        self.address = (host, int(port))
        self.control_url = control_url
        self._process = psutil.Process(pid)
        listening = [each for each in self._process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
        (metrics_port,) = {each.laddr.port for each in listening} - {int(port)}
        self._metrics_url = f"http://{host}:{metrics_port}/metrics"

    async def gauges(self) -> dict[str, float]:
        """The gauges that are not 0.

        Raises:
            LookupError: a gauge is not there at all.
        """
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            text = (await client.get(self._metrics_url)).text
        families = {each.name: each for each in text_string_to_metric_families(text)}
        if missing := GAUGES[self.mode] - set(families):
            raise LookupError(f"no gauge {', '.join(sorted(missing))} at {self._metrics_url}")
        samples = [sample for name in sorted(GAUGES[self.mode]) for sample in families[name].samples]
        return {" ".join([each.name, *each.labels.values()]): each.value for each in samples if each.value}

    def rss_mb(self) -> float:
        """Resident memory now, in millions of bytes."""
        return round(self._process.memory_info().rss / _MB, 1)

    async def read(self) -> Reading:
        """Look at it now."""
        gauges = await self.gauges()
        connections = [each for each in self._process.net_connections("tcp") if each.status != psutil.CONN_LISTEN]
        return Reading(self._process.num_fds(), self.rss_mb(), len(connections), gauges)

    async def settle(self, within_s: float, most_fds: int | None = None) -> Reading:
        """Look again and again until it is still, with at most so many descriptors, or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while True:
            found = await self.read()
            if loop.time() >= deadline or (found.still and (most_fds is None or found.fds <= most_fds)):
                return found
            await asyncio.sleep(_POLL_S)

    def waiting(self, gauges: dict[str, float]) -> float:
        """How many wait, by these gauges."""
        return sum(value for name, value in gauges.items() if name.split(" ")[0] == QUEUE_GAUGES[self.mode])


def _flags(mode: str, folder: Path) -> list[str]:
    if mode == "limit":
        return [
            "--max-concurrent-requests", str(SLOTS), "--queue-size", str(QUEUE),
            "--queue-timeout-secs", str(QUEUE_TIMEOUT_S),
        ]  # fmt: skip
    rules: dict[str, Any] = {
        "reserved_floor": 0, "queue_size": QUEUE // len(LEVELS), "queue_timeout_secs": QUEUE_TIMEOUT_S,
        "starvation_threshold_secs": 1,
    }  # fmt: skip
    classes = {level: {**rules, "can_preempt": level in {"system", "interactive"}} for level in LEVELS}
    file = folder / "classes.yaml"
    file.write_text(json.dumps({"classes": classes}), "utf-8")
    return [
        "--priority-scheduler-enabled", "--priority-scheduler-default-max-class", "system",
        "--priority-scheduler-config", str(file),
    ]  # fmt: skip


@contextmanager
def site(mode: str, program: list[str]) -> Iterator[Site]:
    """Start everything, at ports of the system's choice, and stop it in the end."""
    with tempfile.TemporaryDirectory() as folder, running([*_WORKER, f"engine=sglang,model=m,slots={SLOTS}"]) as fleet:
        command = [
            *program, "launch", "--port", "0", "--prometheus-port", "0", "--log-level", "error", "--exit-with-parent",
            "--worker-urls", *(each["url"] for each in fleet["workers"]), *_flags(mode, Path(folder)),
        ]  # fmt: skip
        with started(command) as (pid, ready):
            yield Site(mode, pid, ready["url"], fleet["control"])
