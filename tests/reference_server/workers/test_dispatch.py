"""Dispatching to real sockets: choice, retries, breakers, keys and what is left behind."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.errors import GatewayError
from reference_server.settings import BreakerSettings, RetrySettings
from reference_server.workers.breaker import BreakerState
from reference_server.workers.exchange import UpstreamBodyError, UpstreamRequest
from reference_server.workers.overload import LoadReport, RankLoad
from reference_server.workers.worker import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.workers.fleet import Fleet

StartWorker = Any  # fixtures of conftest.py, which cannot be imported
StartFleet = Any
Kit = Any

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def _request(model: str = "m", limit: int | None = None, **changes: Any) -> UpstreamRequest:
    fields: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [("content-type", "application/json")],
        "body": b"{}",
        "model": model,
        "read_limit_bytes": limit,
    }
    return UpstreamRequest(**(fields | changes))


async def _ask(fleet: Fleet, request: UpstreamRequest | None = None) -> tuple[int, bytes]:
    response = await fleet.dispatch(request or _request())
    return response.status, await response.read(1000)


def _breaker(fleet: Fleet, number: int = 0) -> BreakerState:
    return list(fleet.registry)[number].breaker.state(time.monotonic())


async def test_an_unknown_model_is_not_found(start_fleet: StartFleet, start_worker: StartWorker, kit: Kit) -> None:
    """A model that no worker serves is 404 model_not_found, and no worker hears of it."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    fleet = await start_fleet(worker)
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request("other"))
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    assert worker.seen == []


async def test_without_workers_every_model_is_unknown(start_fleet: StartFleet) -> None:
    """A gateway without workers knows no model and is not ready."""
    fleet = await start_fleet()
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request())
    assert caught.value.code == "model_not_found"
    assert fleet.models() == []
    assert not fleet.readiness().ready


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
async def test_busy_answers_are_repeated_up_to_the_attempts(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, status: int
) -> None:
    """A busy worker is asked as often as configured, then its own answer is the client's."""
    worker = await start_worker(kit.saying(kit.response(b"busy", status, ("retry-after", "7"))), model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=3, initial_backoff_ms=1))
    response = await fleet.dispatch(_request())
    assert (response.status, await response.read(100)) == (status, b"busy")
    assert ("retry-after", "7") in response.headers
    assert len(worker.seen) == 3


@pytest.mark.parametrize("status", [200, 204, 302, 400, 401, 404, 409, 422, 500, 501, 505, 529])
async def test_other_answers_are_relayed_at_once(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, status: int
) -> None:
    """Any other answer of the only worker is the client's after one attempt."""
    head = b"HTTP/1.1 204 No Content\r\n\r\n" if status == 204 else kit.response(b"said", status)
    worker = await start_worker(kit.saying(head), model="m")
    fleet = await start_fleet(worker)
    assert await _ask(fleet) == (status, b"" if status == 204 else b"said")
    assert len(worker.seen) == 1


@pytest.mark.parametrize("status", [500, 503])
async def test_a_retry_prefers_another_worker(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, status: int
) -> None:
    """With one bad worker of two every client gets the good one's answer."""
    bad = await start_worker(kit.saying(kit.response(b"bad", status)), model="m")
    good = await start_worker(kit.saying(kit.response(b"good")), model="m")
    fleet = await start_fleet(bad, good)
    answers = [await _ask(fleet) for _ in range(6)]
    assert answers == [(200, b"good")] * 6
    assert 1 <= len(bad.seen) <= 6
    assert len(good.seen) == 6


async def test_a_500_is_tried_once_on_each_worker(start_fleet: StartFleet, start_worker: StartWorker, kit: Kit) -> None:
    """Three workers that all answer 500 are each asked once."""
    workers = [await start_worker(kit.saying(kit.response(b"x", 500)), model="m") for _ in range(3)]
    fleet = await start_fleet(*workers)
    assert (await _ask(fleet))[0] == 500
    assert [len(worker.seen) for worker in workers] == [1, 1, 1]


@pytest.mark.parametrize("how", ["overloaded", "gone in the pause"])
async def test_a_500_is_not_tried_again_where_nobody_else_can_be_asked(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, how: str
) -> None:
    """A second worker that is overloaded, or goes during the pause, is no reason to ask the first one again."""
    bad = await start_worker(kit.saying(kit.response(b"bad", 500)), model="m")
    other = await start_worker(kit.saying(kit.response(b"good")), model="m")
    fleet = await start_fleet(bad, other, retry=RetrySettings(initial_backoff_ms=100, jitter_factor=0))
    known = next(each for each in fleet.registry if each.url == other.url)
    if how == "overloaded":
        known.load = LoadReport((RankLoad(num_waiting_reqs=99),), time.monotonic())
    asking = asyncio.ensure_future(_ask(fleet))
    await asyncio.sleep(0.05)
    if how == "gone in the pause":
        fleet.remove(known)
    assert await asyncio.wait_for(asking, 5) == (500, b"bad")
    assert (len(bad.seen), len(other.seen)) == (1, 0)


async def test_failures_of_the_transport_are_repeated(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """A worker that hangs up before answering is asked again; the client sees only the answer that came."""
    fail = kit.saying_then_closing(b"")
    worker = await start_worker(fail, fail, kit.saying(kit.response(b"third")), model="m")
    fleet = await start_fleet(worker)
    assert await _ask(fleet) == (200, b"third")
    assert [seen.body for seen in worker.seen] == [b"{}"] * 3


async def test_the_last_failure_is_the_clients(start_fleet: StartFleet, start_worker: StartWorker, kit: Kit) -> None:
    """When every attempt fails the client gets the last failure, after exactly the attempts configured."""
    worker = await start_worker(kit.saying_then_closing(b""), model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=4, initial_backoff_ms=1))
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request())
    assert caught.value.code == "call_upstream_request_error"
    assert len(worker.seen) == 4


async def test_a_dead_worker_is_a_failed_connection(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """A worker that listens no more is 500 call_upstream_connection_failed while its breaker is closed."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    fleet = await start_fleet(worker)
    await worker.stop()
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request())
    assert (caught.value.status, caught.value.code) == (500, "call_upstream_connection_failed")


async def test_without_retries_there_is_one_attempt(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """With retries disabled a worker is asked once, whatever it answers."""
    worker = await start_worker(kit.saying(kit.response(b"busy", 503)), kit.saying_then_closing(b""), model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=1))
    assert await _ask(fleet) == (503, b"busy")
    with pytest.raises(GatewayError):
        await fleet.dispatch(_request())
    assert len(worker.seen) == 2


async def test_a_stale_connection_is_replaced_even_without_retries(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """A pooled connection that died under the request costs the client nothing."""
    ok = kit.saying(kit.response())
    worker = await start_worker(ok, kit.saying_then_closing(b""), ok, model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=1))
    await _ask(fleet)
    await asyncio.sleep(0.25)
    assert await _ask(fleet) == (200, b'{"ok":true}')
    assert len(worker.seen) == 3


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort", "read_response_body_failed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + b"x" * 500, "upstream_response_too_large"),
    ],
)
async def test_a_broken_body_is_repeated_while_nothing_was_handed_on(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, broken: bytes, code: str
) -> None:
    """An answer read whole that breaks or is too large is asked for again; if it never succeeds it is an error."""
    fail = kit.saying_then_closing(broken)
    worker = await start_worker(fail, kit.saying(kit.response(b"whole")), fail, model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=3, initial_backoff_ms=1))
    assert await _ask(fleet, _request(limit=100)) == (200, b"whole")
    assert len(worker.seen) == 2
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request(limit=100))
    assert caught.value.code == code
    assert len(worker.seen) == 5


async def test_a_stream_is_handed_on_at_its_head_and_not_repeated(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """An event stream is never read whole: it is handed over at its head, and its cut is the client's to see."""
    worker = await start_worker(kit.saying_then_closing(STREAM, b"5\r\nhello\r\n"), model="m")
    fleet = await start_fleet(worker)
    response = await fleet.dispatch(_request(limit=3))
    assert response.is_event_stream
    pieces = response.body()
    assert await anext(pieces) == b"hello"
    with pytest.raises(UpstreamBodyError):
        await anext(pieces)
    assert len(worker.seen) == 1


async def test_the_breaker_opens_after_failed_requests_and_closes_again(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """So many failed client requests open a worker's breaker: 503 at once and no dispatch; later successes close it."""
    bad, good = kit.saying(kit.response(b"bad", 503)), kit.saying(kit.response(b"good"))
    worker = await start_worker(bad, bad, bad, bad, good, model="m")
    fleet = await start_fleet(
        worker,
        retry=RetrySettings(max_attempts=2, initial_backoff_ms=1),
        breaker=BreakerSettings(failure_threshold=2, success_threshold=2, timeout_s=0.3),
    )
    assert [await _ask(fleet), await _ask(fleet)] == [(503, b"bad")] * 2  # one outcome each, two attempts each
    assert _breaker(fleet) is BreakerState.OPEN
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request())
    assert (caught.value.status, caught.value.code) == (503, "no_available_workers")
    assert len(worker.seen) == 4
    assert fleet.readiness().ready  # an open breaker does not change readiness
    await asyncio.sleep(0.3)
    assert await _ask(fleet) == (200, b"good")
    assert _breaker(fleet) is BreakerState.HALF_OPEN
    assert await _ask(fleet) == (200, b"good")
    assert _breaker(fleet) is BreakerState.CLOSED


@pytest.mark.parametrize("threshold", [1, 2])
async def test_a_cut_stream_is_a_success_and_then_a_failure(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, threshold: int
) -> None:
    """The head of a stream speaks for its worker, the cut against it: cuts alone open no breaker but the quickest."""
    worker = await start_worker(kit.saying_then_closing(STREAM, b"5\r\nhello\r\n"), model="m")
    fleet = await start_fleet(worker, breaker=BreakerSettings(failure_threshold=threshold))
    for _ in range(3):
        response = await fleet.dispatch(_request())
        with pytest.raises(UpstreamBodyError):
            await response.read(1000)
        if threshold == 1:
            break
    assert _breaker(fleet) is (BreakerState.OPEN if threshold == 1 else BreakerState.CLOSED)


async def test_a_stream_that_goes_well_closes_a_half_open_breaker_with_its_head(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """Whether a worker is back is known when it answers, not when a long stream has ended."""
    worker = await start_worker(kit.saying(kit.response(b"bad", 503)), kit.saying_then_waiting(STREAM), model="m")
    breaker = BreakerSettings(failure_threshold=1, success_threshold=1, timeout_s=0.05)
    fleet = await start_fleet(worker, breaker=breaker, retry=RetrySettings(max_attempts=1))
    assert (await _ask(fleet))[0] == 503
    assert _breaker(fleet) is BreakerState.OPEN
    await asyncio.sleep(0.06)
    response = await fleet.dispatch(_request())
    assert _breaker(fleet) is BreakerState.CLOSED
    await response.aclose()


async def test_clients_that_leave_do_not_count_against_a_worker(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """Abandoned requests and streams say nothing about a worker."""
    worker = await start_worker(kit.saying_then_waiting(b""), kit.saying_then_waiting(STREAM), model="m")
    fleet = await start_fleet(worker, breaker=BreakerSettings(failure_threshold=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await fleet.dispatch(_request())
    response = await fleet.dispatch(_request())
    await response.aclose()
    assert _breaker(fleet) is BreakerState.CLOSED
    assert [known.in_flight for known in fleet.registry] == [0]


async def test_leaving_during_a_pause_between_attempts_ends_everything(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit
) -> None:
    """A client that leaves while a retry is due gets no further attempt made for it."""
    worker = await start_worker(kit.saying(kit.response(b"busy", 503)), model="m")
    fleet = await start_fleet(worker, retry=RetrySettings(max_attempts=5, initial_backoff_ms=200))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await fleet.dispatch(_request())
    await asyncio.sleep(0.3)
    assert len(worker.seen) == 1
    assert [known.in_flight for known in fleet.registry] == [0]


async def test_requests_under_way_are_counted(start_fleet: StartFleet, start_worker: StartWorker, kit: Kit) -> None:
    """A worker's load is the number of requests it has not finished."""
    worker = await start_worker(kit.saying_then_waiting(STREAM), model="m")
    fleet = await start_fleet(worker)
    responses = [await fleet.dispatch(_request()) for _ in range(3)]
    (known,) = fleet.registry
    assert known.in_flight == 3
    for response in responses:
        await response.aclose()
        await response.aclose()
    assert known.in_flight == 0


@pytest.mark.parametrize(
    ("headers", "seen"),
    [([], ["Bearer of-worker"]), ([("Authorization", "Bearer mine")], ["Bearer mine"])],
)
async def test_a_workers_key_is_sent_only_where_the_client_sent_none(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, headers: list[tuple[str, str]], seen: list[str]
) -> None:
    """The key a worker was registered with is sent if the client sent no Authorization, and never beside it."""
    worker = await start_worker(kit.saying(kit.response()), model="m")
    fleet = await start_fleet()
    fleet.add(_spec(worker.url, api_key="of-worker"))
    async with asyncio.timeout(2):
        while not fleet.models():  # noqa: ASYNC110 - registration is awaited by its effect
            await asyncio.sleep(0.005)
    await _ask(fleet, _request(headers=headers))
    assert [value for name, value in worker.seen[0].headers if name == "authorization"] == seen


def _spec(url: str, **changes: Any) -> WorkerSpec:
    return WorkerSpec(url=url, **changes)


async def test_ten_thousand_abandoned_dispatches_leave_nothing(
    start_fleet: StartFleet, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """Ten thousand clients that leave, at every moment, leave no load, no task and no open file."""

    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough

    async def answer(turn: Any) -> None:
        if turn.number % 3 == 0:
            await turn.send(STREAM, b"5\r\nhello\r\n")
        await turn.until_peer_leaves()

    worker = await start_worker(answer, model="m")
    fleet = await start_fleet(worker)
    files, tasks = open_files(), len(asyncio.all_tasks())

    async def abandoned(turns: int) -> None:
        task = asyncio.create_task(_ask(fleet))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    for batch in range(100):
        await asyncio.gather(*(abandoned((batch + number) % 12) for number in range(100)))
    await until(lambda: open_files() <= files + 2 and len(asyncio.all_tasks()) <= tasks + 2)
    assert [known.in_flight for known in fleet.registry] == [0]
