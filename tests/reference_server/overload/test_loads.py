"""Reading loads from what engines say, and asking for them at the right place and pace."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.settings import BreakerSettings, HealthSettings
from reference_server.workers.breaker import Breaker
from reference_server.workers.exchange import UpstreamConnectionError
from reference_server.workers.health import HealthState
from reference_server.workers.loads import LOADS, METRICS, LoadMonitor, read_loads, read_metrics
from reference_server.workers.overload import RankLoad
from reference_server.workers.worker import Worker, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

SGLANG = b"""\
# HELP sglang:token_usage used share
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="a } 1 b"} 0.5
sglang:num_queue_reqs{model_name="m"} 8.0
sglang:num_running_reqs{model_name="m"} 2.0
sglang:num_running_reqs_offline_batch{model_name="m"} 100
"""
VLLM = b"""\
vllm:num_requests_waiting{engine="0"} 3.0
vllm:num_requests_waiting{engine="1"} 4.0 1700000000
vllm:num_requests_running{engine="0"} 1.0
vllm:gpu_cache_usage_perc{engine="0"} 0.1
vllm:kv_cache_usage_perc{engine="0"} 0.7
vllm:kv_cache_usage_perc{engine="1"} 0.9
"""


def document(*entries: object) -> bytes:
    """A /v1/loads document."""
    return json.dumps({"timestamp": "t", "version": "v", "loads": list(entries)}).encode()


def test_a_document_tells_of_each_rank() -> None:
    """Members may be missing, null or unknown; each entry is a rank."""
    ranks = read_loads(document({"num_waiting_reqs": 20}, {"dp_rank": 1, "token_usage": 1, "x": [], "timestamp": None}))
    assert ranks == (RankLoad(num_waiting_reqs=20, num_total_reqs=20), RankLoad(dp_rank=1, token_usage=1))
    assert read_loads(document()) == ()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"{}", b'{"loads":{}}', b'{"loads":[1]}', b'{"loads":null}', b"[" * 100_000,
        document({"num_waiting_reqs": 8.0}), document({"num_waiting_reqs": "8"}), document({"num_waiting_reqs": True}),
        document({"num_waiting_reqs": 2**31}), document({"token_usage": "0.9"}), document({"dp_rank": 0}, None),
        b'{"loads":[{"token_usage":NaN}]}', b'{"loads":[{"num_waiting_reqs":' + b"9" * 5000 + b"}]}",
        document(*[{}] * 5000),
    ],
)  # fmt: skip
def test_other_documents_are_none(body: bytes) -> None:
    """What is not such a document is not guessed at."""
    assert read_loads(body) is None


def test_metrics_of_both_engines() -> None:
    """Counts are summed over label sets, usage averaged; the newer name of a gauge wins; neighbours do not count."""
    (sglang,) = read_metrics(SGLANG) or ()
    assert (sglang.num_waiting_reqs, sglang.num_running_reqs, sglang.token_usage) == (8, 2, 0.5)
    (vllm,) = read_metrics(VLLM) or ()
    assert (vllm.num_waiting_reqs, vllm.num_running_reqs) == (7, 1)
    assert vllm.token_usage == pytest.approx(0.8)
    assert read_metrics(SGLANG.replace(b"sglang:", b"sglang_")) == (sglang,)
    assert read_metrics(VLLM.replace(b"\n", b"\r\n")) == (vllm,)


@pytest.mark.parametrize(
    "body", [b"", b"vllm:num_requests_waiting 9", b"other:token_usage 0.9", b"sglang:token_usage x"]
)
def test_metrics_without_usage_tell_nothing(body: bytes) -> None:
    """The use of the KV cache has to be among them."""
    assert read_metrics(body) is None


@given(st.binary() | st.text(alphabet='sglang:token_usage{}" 0.19\nNaInf').map(str.encode))
def test_no_bytes_raise(body: bytes) -> None:
    """Whatever a worker answers, reading it never raises."""
    read_loads(body)
    read_metrics(body)
    read_loads(b'{"loads":[{"token_usage":' + body + b"}]}")


class Engine:
    """Answers what a test says, by path; an exception is raised. Remembers what was asked, and stops the monitor."""

    def __init__(self, **answers: Sequence[tuple[int, bytes] | Exception]) -> None:
        self.answers = {LOADS: list(answers["loads"]), METRICS: list(answers.get("metrics", []))}
        self.asked: list[str] = []
        self.now = 0.0
        self.done = asyncio.Event()

    async def ask(self, spec: WorkerSpec, path: str) -> tuple[int, bytes]:
        """The next answer to this path; once there is none, the test is over."""
        del spec
        self.asked.append(path)
        if not self.answers[path]:
            self.done.set()
            await asyncio.Event().wait()
        answer = self.answers[path].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, interval_s: float = 0.001) -> Worker:
        """Let a monitor ask until there is no answer left."""
        spec = WorkerSpec(url="http://worker.example")
        worker = Worker("id", 0, spec, Breaker(BreakerSettings()), HealthState(HealthSettings(), 0.0))
        monitor = LoadMonitor(interval_s, self.ask, lambda: self.now)
        watching = asyncio.ensure_future(monitor.watch(worker))
        try:
            await asyncio.wait_for(self.done.wait(), 5.0)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        return worker


def waiting(worker: Worker) -> int | None:
    """What the worker was last heard to have waiting."""
    return None if worker.load is None else worker.load.waiting


GOOD = (200, document({"num_waiting_reqs": 5}))


async def test_the_last_report_is_kept() -> None:
    """Each poll replaces the report of the one before."""
    engine = Engine(loads=[(200, document({"num_waiting_reqs": 1})), GOOD])
    assert waiting(await engine.watch()) == 5
    assert engine.asked == [LOADS] * 3


@pytest.mark.parametrize(
    "trouble", [(500, b""), (401, b""), (503, b"{}"), (200, document()), UpstreamConnectionError()]
)
async def test_trouble_leaves_the_report(trouble: Any) -> None:
    """A worker that fails for a moment is asked at the same place again and keeps what it said."""
    engine = Engine(loads=[GOOD, trouble, GOOD, trouble])
    assert waiting(await engine.watch()) == 5
    assert engine.asked == [LOADS] * 5


@pytest.mark.parametrize("answer", [(404, b"{}"), (405, b""), (501, b""), (200, b"no json"), (200, b'{"loads":3}')])
async def test_an_engine_without_loads_is_asked_for_metrics(answer: Any) -> None:
    """The missing route is remembered: from then on only /metrics is asked for."""
    engine = Engine(loads=[answer], metrics=[(200, VLLM), (500, b""), UpstreamConnectionError(), (200, SGLANG)])
    assert waiting(await engine.watch()) == 8
    assert engine.asked == [LOADS, METRICS, METRICS, METRICS, METRICS, METRICS]


async def test_an_engine_that_says_nothing_has_no_report() -> None:
    """Neither loads nor metrics: nothing is known."""
    engine = Engine(loads=[(404, b"")], metrics=[(404, b""), (200, b"")])
    assert (await engine.watch()).load is None


async def test_a_report_is_as_old_as_its_arrival() -> None:
    """The time of a report is that of the monitor's clock."""
    engine = Engine(loads=[GOOD])
    engine.now = 123.0
    assert cast("Any", await engine.watch()).load.at == 123.0
