"""Overload protection in front of fake engines: who is left alone, what clients hear, and what is counted."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from fake_workers.control import Control
from fake_workers.fleet import Fleet as FakeFleet
from fake_workers.script import Stall, Wire
from fake_workers.spec import WorkerSpec as FakeSpec
from reference_server.errors import GatewayError
from reference_server.metrics.workers import WorkerMetrics
from reference_server.settings import HealthSettings, OverloadSettings, RetrySettings, Settings
from reference_server.workers.exchange import UpstreamRequest
from reference_server.workers.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from reference_server.workers.exchange import RoutingHints
    from reference_server.workers.worker import Worker

WITHIN_S = 5.0
BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
FAST = OverloadSettings(interval_s=0.05)
SHED = "worker_overload_protection_shed"


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, for a bounded time."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.005)


class Stand:
    """Two engines of one model, and a fleet before them with its metrics."""

    def __init__(self, engines: FakeFleet, overload: OverloadSettings) -> None:
        self.engines = engines
        self.overload = overload
        self.registry = CollectorRegistry()
        metrics = WorkerMetrics(self.registry)
        self.fleet = Fleet(
            Settings(
                worker_urls=tuple(engines.urls), overload=overload, health=HealthSettings(interval_s=3600),
                retry=RetrySettings(max_attempts=2, initial_backoff_ms=1),
            ),
            metrics,
        )  # fmt: skip
        metrics.follow(self.fleet.registry, time.monotonic, overload)

    async def load(self, *waiting: int) -> None:
        """Let the engines report so many waiting requests, and wait until the gateway has heard of it."""
        for worker, number in zip(self.engines.workers.values(), waiting, strict=True):
            worker.set_load({"waiting": number})
        await until(lambda: [worker.load and worker.load.waiting for worker in self.fleet.registry] == list(waiting))

    async def ask(self, model: str = "m") -> tuple[int, str, str]:
        """Send a request: status, the worker that answered or the error's code, and Retry-After."""
        request = UpstreamRequest(
            "POST", "/v1/chat/completions", [("content-type", "application/json")], BODY, model, read_limit_bytes=10_000
        )
        try:
            response = await self.fleet.dispatch(request)
        except GatewayError as error:
            return error.status, error.code, dict(error.headers).get("retry-after", "")
        await response.aclose()
        return response.status, response.worker_url, ""

    def chats(self) -> int:
        """How many requests the engines have got."""
        return sum(entry.method == "POST" for entry in self.engines.journal.all_entries())

    def sample(self, name: str, **labels: str) -> float | None:
        """One metric."""
        return self.registry.get_sample_value(name, labels)


@pytest.fixture(params=["sglang", "vllm"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Start a stand with engines of a dialect; vLLM tells its load by metrics only."""
    async with FakeFleet(
        [FakeSpec(engine=request.param, model="m"), FakeSpec(engine=request.param, model="m")]
    ) as engines:
        stands: list[Stand] = []

        async def begin(overload: OverloadSettings = FAST) -> Stand:
            stand = Stand(engines, overload)
            stands.append(stand)
            await stand.fleet.start()
            await until(lambda: stand.fleet.readiness().healthy == 2)
            return stand

        try:
            yield begin
        finally:
            for stand in stands:
                await stand.fleet.stop()


async def test_an_overloaded_worker_is_left_alone(start: Callable[..., Any]) -> None:
    """While one of two workers is over, every request goes to the other."""
    stand: Stand = await start()
    await stand.load(8, 7)
    assert {(await stand.ask())[1] for _ in range(4)} == {stand.engines.urls[1]}
    await stand.load(0, 8)
    assert {(await stand.ask())[1] for _ in range(4)} == {stand.engines.urls[0]}


async def test_where_all_are_over_requests_are_shed(start: Callable[..., Any]) -> None:
    """503, Retry-After, no worker hears of it; and it is over as soon as a worker says so."""
    stand: Stand = await start()
    await stand.load(8, 20)
    assert await stand.ask() == (503, SHED, "1")
    with pytest.raises(GatewayError) as refused:
        stand.fleet.require("m")
    assert refused.value.message == "All workers for model 'm' are overloaded"
    assert stand.chats() == 0
    assert stand.sample("smg_worker_overload_shed_total", stage="selection") == 2
    assert stand.sample("smg_workers_overloaded", model="m") == 2
    labels = {"worker": stand.engines.urls[1], "model": "m", "dp_rank": "0"}
    assert stand.sample("smg_engine_waiting_requests", **labels) == 20
    await stand.load(8, 0)
    assert (await stand.ask())[:2] == (200, stand.engines.urls[1])
    assert stand.sample("smg_workers_overloaded", model="m") == 1


async def test_other_reasons_come_first(start: Callable[..., Any]) -> None:
    """A model nobody serves is 404, and a model whose workers are all unhealthy 503 no_available_workers."""
    stand: Stand = await start()
    await stand.load(8, 8)
    assert (await stand.ask("other"))[:2] == (404, "model_not_found")
    for worker in stand.fleet.registry:
        for _ in range(3):
            worker.health.record(ok=False)
    assert (await stand.ask())[:2] == (503, "no_available_workers")
    assert stand.sample("smg_worker_overload_shed_total", stage="selection") == 0


async def test_switched_off_overload_changes_nothing(start: Callable[..., Any]) -> None:
    """Without protection overloaded workers are served and still shown."""
    stand: Stand = await start(OverloadSettings(enabled=False, interval_s=0.05))
    await stand.load(8, 8)
    assert (await stand.ask())[0] == 200
    labels = {"worker": stand.engines.urls[0], "model": "m", "dp_rank": "0"}
    assert stand.sample("smg_engine_waiting_requests", **labels) == 8


async def test_loads_nobody_wants_are_not_asked_for(start: Callable[..., Any]) -> None:
    """With neither protection nor monitoring no worker is asked."""
    stand: Stand = await start(OverloadSettings(enabled=False, monitored=False, interval_s=0.01))
    await asyncio.sleep(0.05)
    assert not [
        entry for entry in stand.engines.journal.all_entries() if entry.target.startswith(("/v1/loads", "/metrics"))
    ]


async def test_a_worker_that_crosses_just_before_dispatch(start: Callable[..., Any]) -> None:
    """A worker that reports overload after it was chosen gets nothing: the request is shed, though another is free."""
    stand: Stand = await start(OverloadSettings(interval_s=30.0))
    await stand.load(0, 0)
    crossed: list[Worker] = []

    class Late:
        """Chooses the first worker, which is overloaded the moment after."""

        def choose(self, model: str, candidates: Sequence[Worker], hints: RoutingHints) -> Worker:
            """The first, with another's report in the meantime."""
            del model, hints
            chosen = candidates[0]
            assert chosen.load is not None
            chosen.load = type(chosen.load)(chosen.load.ranks * 2, chosen.load.at)
            object.__setattr__(chosen.load.ranks[0], "num_waiting_reqs", 8)
            crossed.append(chosen)
            return chosen

    stand.fleet._dispatcher._policy = Late()
    assert await stand.ask() == (503, SHED, "30")
    assert len(crossed) == 1
    assert stand.chats() == 0
    assert stand.sample("smg_worker_overload_shed_total", stage="dispatch") == 1


async def test_a_repetition_that_finds_all_overloaded_ends_with_the_answer_there_is(start: Callable[..., Any]) -> None:
    """A worker's 503 is the client's when by then nobody may be asked again; that is no shed."""
    stand: Stand = await start(OverloadSettings(interval_s=30.0))
    await stand.load(0, 0)
    dispatcher = stand.fleet._dispatcher
    attempt = dispatcher._attempt

    async def attempt_then_overload(worker: Worker, request: UpstreamRequest) -> Any:
        """The worker's answer becomes a 503, and both workers report overload."""
        response: Any = await attempt(worker, request)
        response.status = 503
        for known in stand.fleet.registry:
            assert known.load is not None
            object.__setattr__(known.load.ranks[0], "num_waiting_reqs", 8)
        return response

    dispatcher._attempt = attempt_then_overload  # type: ignore[method-assign] # a worker that is overloaded while it answers
    assert (await stand.ask())[0] == 503
    assert stand.chats() == 1
    assert stand.sample("smg_worker_overload_shed_total", stage="selection") == 0


async def test_a_worker_that_never_tells_its_load_serves_all_the_same(start: Callable[..., Any]) -> None:
    """A question for loads that hangs holds up neither requests nor the end of the gateway."""
    stand: Stand = await start(OverloadSettings(interval_s=30.0))
    await stand.fleet.stop()
    stand = Stand(stand.engines, FAST)
    async with Control(stand.engines.control_url) as control:
        for name, engine in stand.engines.workers.items():
            path = "/v1/loads" if engine.spec.engine == "sglang" else "/metrics"
            await control.set_path(name, path, Wire(steps=[Stall(max_s=20)]))
        await stand.fleet.start()
        await until(lambda: stand.fleet.readiness().healthy == 2)
        await until(lambda: any(entry.path == path for entry in stand.engines.journal.all_entries()))
        assert (await stand.ask())[0] == 200
        await asyncio.wait_for(stand.fleet.stop(), WITHIN_S)
