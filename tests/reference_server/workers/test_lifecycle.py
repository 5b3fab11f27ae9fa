"""From registration to removal: workers that come late, fall ill, recover and leave."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.errors import GatewayError
from reference_server.settings import BreakerSettings, HealthSettings, OverloadSettings, WorkerStartupSettings
from reference_server.workers.breaker import BreakerState, Outcome
from reference_server.workers.exchange import UpstreamRequest
from reference_server.workers.worker import ModelInfo, Status, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.workers.fleet import Fleet

StartWorker = Any  # fixtures of conftest.py, which cannot be imported
StartFleet = Any
Kit = Any

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"


def _request(model: str = "m") -> UpstreamRequest:
    return UpstreamRequest("POST", "/v1/chat/completions", [], b"{}", model)


async def _code(fleet: Fleet) -> str:
    """The code a request is refused with now."""
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request())
    return caught.value.code


async def test_a_worker_that_comes_late_is_registered_when_it_answers(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """A worker that is still loading is probed again and again until it is up."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    worker.pages[b"/health"] = kit.response(b"", 503)
    fleet = await start_fleet(worker, ready=0)
    await until(lambda: len(worker.probes) >= 3)
    assert await _code(fleet) == "model_not_found"
    assert fleet.readiness().total == 0
    worker.pages.clear()
    await until(lambda: fleet.readiness().ready)
    assert [card.id for card in fleet.models()] == ["m"]


async def test_a_worker_that_never_answers_is_forgotten(
    start_fleet: StartFleet, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """When its start-up time is over a worker that never answered is given up."""
    worker = await start_worker(model="m")
    await worker.stop()
    startup = WorkerStartupSettings(timeout_s=0.3, check_interval_s=0.1)
    fleet = await start_fleet(worker, ready=0, worker_startup=startup)
    assert [known.status for known in fleet.registry] == [Status.PENDING]
    await until(lambda: not len(fleet.registry), 2)


async def test_a_sick_worker_gets_nothing_and_recovers(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """While its health checks fail a worker's models are listed but refused with 503; then it works again."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    health = HealthSettings(interval_s=0.03, failure_threshold=2, success_threshold=2, timeout_s=1.0)
    fleet = await start_fleet(worker, health=health)
    worker.pages[b"/health"] = kit.response(b"", 500)
    await until(lambda: fleet.readiness().healthy == 0)
    assert await _code(fleet) == "no_available_workers"
    assert [card.id for card in fleet.models()] == ["m"]
    assert fleet.readiness().total == 1
    worker.pages.clear()
    await until(lambda: fleet.readiness().ready)
    assert (await fleet.dispatch(_request())).status == 200


async def test_without_health_checks_a_worker_is_never_probed_again(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """With health checks disabled only registration probes a worker."""
    worker = await start_worker(model="m")
    unasked = OverloadSettings(enabled=False, monitored=False)
    fleet = await start_fleet(worker, health=HealthSettings(enabled=False, interval_s=0.01), overload=unasked)
    probes = len(worker.probes)
    worker.pages[b"/health"] = kit.response(b"", 500)
    await asyncio.sleep(0.1)
    assert len(worker.probes) == probes
    assert fleet.readiness().ready


async def test_a_leaving_worker_finishes_what_it_has_and_gets_nothing_new(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """While a removed worker still streams new requests are 503; the stream ends, then its model is unknown."""
    go_on = asyncio.Event()

    async def answer(turn: Any) -> None:
        await turn.send(STREAM)
        await go_on.wait()
        await turn.send(b"5\r\nworld\r\n0\r\n\r\n")

    worker = await start_worker(answer, model="m")
    fleet = await start_fleet(worker)
    response = await fleet.dispatch(_request())
    (known,) = fleet.registry
    fleet.remove(known)
    assert known.status is Status.DRAINING
    assert await _code(fleet) == "no_available_workers"
    assert not fleet.readiness().ready
    go_on.set()
    assert await response.read(100) == b"helloworld"
    await until(lambda: not len(fleet.registry), 1)
    assert await _code(fleet) == "model_not_found"


async def test_a_second_removal_does_not_wait(start_fleet: StartFleet, start_worker: StartWorker, kit: Kit) -> None:
    """Removing a leaving worker again forgets it at once, without cutting what it still streams."""
    worker = await start_worker(kit.saying_then_waiting(STREAM), model="m")
    fleet = await start_fleet(worker)
    response = await fleet.dispatch(_request())
    (known,) = fleet.registry
    fleet.remove(known)
    fleet.remove(known)
    assert len(fleet.registry) == 0
    assert await anext(response.body()) == b"hello"
    await response.aclose()
    assert known.in_flight == 0


async def test_a_changed_worker_is_probed_again_and_keeps_serving(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """A worker whose registration is replaced serves on under its old facts until it has been probed again."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    startup = WorkerStartupSettings(timeout_s=0.2, check_interval_s=0.05)
    fleet = await start_fleet(worker, worker_startup=startup)
    (known,) = fleet.registry
    worker.pages[b"/health"] = kit.response(b"", 500)
    fleet.registry.replace_spec(known, WorkerSpec(url=worker.url, models=(ModelInfo("new"),)))
    fleet.reprobe(known)
    await until(lambda: known.job is None, 2)
    assert [card.id for card in fleet.models()] == ["m"]
    assert (await fleet.dispatch(_request())).status == 200
    worker.pages.clear()
    fleet.reprobe(known)
    await until(lambda: [card.id for card in fleet.models()] == ["new"], 2)


async def test_models_are_listed_once_in_a_stable_order(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """A model of several workers is listed once, in the order of the workers, owned by nobody but the operator."""
    workers = [await start_worker(model=name) for name in ("b", "a", "b")]
    fleet = await start_fleet(*workers)
    assert [(card.id, card.created, card.owned_by) for card in fleet.models()] == [
        ("b", 0, "self_hosted"),
        ("a", 0, "self_hosted"),
    ]


async def test_the_same_url_twice_is_one_worker(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """A URL given twice, also with a slash, registers one worker."""
    worker = await start_worker(model="m")
    fleet = await start_fleet(worker, worker_urls=(worker.url, worker.url + "/", worker.url))
    assert len(fleet.registry) == 1


async def test_with_workers_by_api_only_none_is_registered_at_start(
    start_fleet: StartFleet, start_worker: StartWorker
) -> None:
    """With enable_igw the URLs of the settings are not registered."""
    worker = await start_worker(model="m")
    fleet = await start_fleet(worker, ready=0, enable_igw=True)
    assert len(fleet.registry) == 0


async def test_stopping_ends_every_job_and_cuts_every_stream(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """After stop no task of the fleet is left and workers feel that it has gone."""
    worker = await start_worker(kit.saying_then_waiting(STREAM), model="m")
    before = asyncio.all_tasks()
    fleet = await start_fleet(worker)
    await fleet.dispatch(_request())
    await fleet.stop()
    await asyncio.wait_for(worker.seen[0].peer_left.wait(), 1)
    left = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before}  # type: ignore[union-attr] # coroutines have one
    assert not {name for name in left if "Lifecycle" in name or "aiohttp" in name}


async def test_a_worker_that_falls_ill_and_recovers_is_asked_again_at_once(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """Good probes alone leave an open breaker alone; a recovery makes it half-open, however long it had to go."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    health = HealthSettings(interval_s=0.03, failure_threshold=1, success_threshold=1)
    fleet = await start_fleet(worker, health=health, breaker=BreakerSettings(failure_threshold=1, timeout_s=600))
    (known,) = fleet.registry
    known.breaker.record(Outcome.FAILURE, time.monotonic())
    probed = len(worker.probes)
    await until(lambda: len(worker.probes) > probed + 2, 2)
    assert await _code(fleet) == "no_available_workers"
    worker.pages[b"/health"] = kit.response(b"", 500)
    await until(lambda: not known.healthy, 2)
    worker.pages.clear()
    await until(lambda: known.healthy, 2)
    assert known.breaker.state(time.monotonic()) is BreakerState.HALF_OPEN
    assert (await fleet.dispatch(_request())).status == 200
