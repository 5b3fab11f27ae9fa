"""Who is let in, who waits and in which order, and what is judged before there is a place for a request."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import Crowd
from conformance.checks.admission_scenes import PLACES, SLOTS
from conformance.checks.routes_support import NOBODYS_MODEL, expect_code, expect_status
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause, configured

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Worker

QUEUE_TIMEOUT_S = 1.0  # of configuration admission-timeout
FULL = 429
OTHER_MODEL = "conformance-sglang"
STEPS = 6
MOST_TRIES = 60
RATE_PERIOD_S = 1.0  # of configuration admission-rate, whose burst is SLOTS


@clause("admission.limit.reached")
async def test_as_many_run_as_the_limit_says(gateway: Gateway, worker: Worker) -> None:
    """Two requests are at workers at the same time, and both are served."""
    async with Crowd(gateway, worker) as crowd:
        for guest in await crowd.fill(SLOTS):
            await guest.finish()


@pytest.mark.parametrize(
    "places",
    [
        case("rate_limiting.admission_queue_full.when_disabled", 0),
        case("rate_limiting.admission_queue_full.when_full", PLACES),
    ],
)
async def test_one_too_many_is_sent_away(gateway: Gateway, worker: Worker, places: int) -> None:
    """With every slot and every place taken the next is sent away at once; those that run and wait are all served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        waiting = await crowd.queue(places) if places else []
        answer = await (await crowd.send()).answer()
        expect_code(expect_status(answer, FULL), "admission_queue_full")
        for guest in (*running, *waiting):
            await guest.finish()


@clause("admission.limit.respected")
async def test_no_more_run_than_the_limit_says(gateway: Gateway, worker: Worker) -> None:
    """While the slots are taken no worker gets what waits."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS)
        for guest in await crowd.queue(PLACES):
            await guest.must_wait("dispatched over the limit")


@clause("admission.queue.waits")
async def test_who_waits_is_served(gateway: Gateway, worker: Worker) -> None:
    """When a slot is free, one that waited is served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        waiting = await crowd.queue(PLACES)
        await running[0].finish()
        await (await crowd.next_to_run(waiting)).finish()


@clause("admission.queue.fifo")
async def test_first_come_first_served(gateway: Gateway, worker: Worker) -> None:
    """Of two that wait, the one known to have waited before the other came is served first, again and again."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.in_turn(await crowd.fill(SLOTS), STEPS)


@configured("admission-queue")
@clause("request_headers.priority.ignored_without_scheduler")
async def test_nobody_jumps_the_queue(gateway: Gateway, worker: Worker) -> None:
    """Without the scheduler, one of class system that came later is not served before one of class bulk."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        older, newer = await crowd.line_up(running, newer={"says": "system"}, says="bulk")
        await newer.must_wait("dispatched over the limit")
        await running.pop(0).finish()
        if await crowd.next_to_run([older, newer]) is not older:
            raise Disproved("not first come, first served", "a header has changed who is served first")


@clause("admission.limit.all_models")
async def test_models_share_the_slots(gateway: Gateway, worker: Worker) -> None:
    """While requests for one model have every slot, one for another model is sent away; when one ends it is served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        expect_code(expect_status(await (await crowd.send(model=OTHER_MODEL)).answer(), FULL), "admission_queue_full")
        await running[0].finish()
        await (await crowd.run(model=OTHER_MODEL)).finish()


@clause("rate_limiting.admission_queue_timeout.after")
async def test_waiting_ends_at_the_timeout(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Who waits in vain is sent away when the queue timeout is over: not before, and not much later."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.run()
        waiting = await crowd.send()
        answer = await waiting.answer()
        expect_code(expect_status(answer, 503), "admission_queue_timeout")
        times = answer.times
        assert times.head is not None
        assert times.head - times.started >= QUEUE_TIMEOUT_S - 0.01
        assert times.head - times.started <= noise.allow(QUEUE_TIMEOUT_S + 0.5)


# -- what needs no slot, and what is judged first


@pytest.mark.parametrize(
    "path",
    [
        case("admission.public_needs_no_slot", "/v1/models"),
        case("admission.health_needs_no_slot", "/health"),
        case("admission.health_needs_no_slot", "/readiness"),
        case("admission.admin_needs_no_slot", "/workers"),
    ],
)
async def test_what_is_no_serving_needs_no_slot(gateway: Gateway, worker: Worker, path: str) -> None:
    """While every slot is taken and a completion is sent away, the route answers 200."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS)
        expect_status(await (await crowd.send()).answer(), FULL)
        expect_status(await gateway.get(path), 200)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        pytest.param(COMPLETIONS, {"prompt": "Hello"}, id="completions"),
        pytest.param(EMBEDDINGS, {"input": "Hello"}, id="embeddings"),
    ],
)
@clause("admission.every_route")
async def test_every_serving_route_needs_a_slot(
    gateway: Gateway, worker: Worker, path: str, fields: dict[str, Any]
) -> None:
    """The slots are the same ones for all routes: what chat completions have taken, this route has not."""
    body = {"model": gateway.model, **fields}
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS)
        expect_code(expect_status(await gateway.post(path, body), FULL), "admission_queue_full")
        await running[0].finish()
        for _ in range(MOST_TRIES):  # a slot may need a moment to be free
            if (answer := await gateway.post(path, body)).status != FULL:
                break
            await asyncio.sleep(0.05)
        expect_status(answer, 200)


@pytest.mark.parametrize(
    ("body", "key", "status"),
    [
        case("admission.before_parse", b"{", True, FULL, name="no-json"),
        case("admission.before_parse", {"temperature": 9}, True, FULL, name="field"),
        case("admission.before_model", {"model": NOBODYS_MODEL}, True, FULL, name="model"),
        case("admission.after_credentials", {}, False, 401, name="keyless"),
        case("admission.after_size", {"user": "x" * 30_000}, True, 413, name="size"),
        case("admission.after_size", {"user": "x" * 30_000}, False, 413, name="size-keyless"),
    ],
)
async def test_the_order_of_judgements(
    gateway: Gateway, worker: Worker, body: dict[str, Any] | bytes, key: bool, status: int
) -> None:
    """While every slot is taken, a request with another fault besides is told of the fault that is judged first."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS)
        expect_status(await (await crowd.send()).answer(), FULL)
        whole = body if isinstance(body, bytes) else gateway.chat_body(**body)
        token = gateway.keys["shared"] if key else None
        expect_status(await gateway.post(CHAT, whole, key=token), status)


# -- requests a second


@clause("admission.request_rate.refused")
async def test_more_than_the_rate_is_sent_away(gateway: Gateway, worker: Worker) -> None:
    """Requests that end at once, but come faster than the rate, are sent away as if every slot were taken."""
    answer = await until_refused(gateway, worker)
    expect_code(answer, "admission_queue_full")
    assert answer.headers.get_all("retry-after") == ["2"]


@clause("admission.request_rate.bounded")
async def test_the_rate_is_kept(gateway: Gateway, worker: Worker) -> None:
    """Over two seconds no more are served than the burst and one a second, and one at least after one was refused."""
    began = time.monotonic()
    statuses = []
    while time.monotonic() < began + 2 * RATE_PERIOD_S:  # noqa: ASYNC110 - only time brings the rate
        statuses.append((await gateway.chat(worker.script())).status)
        await asyncio.sleep(0.02)
    took_s = time.monotonic() - began
    assert FULL in statuses
    assert 200 in statuses[statuses.index(FULL) :]
    assert statuses.count(200) <= SLOTS + took_s / RATE_PERIOD_S


@clause("admission.request_rate.burst")
async def test_a_burst_is_served(gateway: Gateway, worker: Worker) -> None:
    """Once one was refused, after a time without requests as many as there are slots are served at once."""
    await until_refused(gateway, worker)
    # The only way to let the rate's budget come back is to let time pass.
    for _ in range(5 * SLOTS):
        await asyncio.sleep(RATE_PERIOD_S / 4)
    answers = await asyncio.gather(*(gateway.chat(worker.script()) for _ in range(SLOTS)))
    assert [answer.status for answer in answers] == [200] * SLOTS


@clause("admission.request_rate.queued")
async def test_the_rate_is_waited_for(gateway: Gateway, worker: Worker) -> None:
    """With a queue, those that come faster than the rate wait for it, and are served no faster than it allows."""
    began = time.monotonic()
    answers = await asyncio.gather(*(gateway.chat(worker.script()) for _ in range(SLOTS + PLACES)))
    took_s = time.monotonic() - began
    assert [answer.status for answer in answers] == [200] * (SLOTS + PLACES)
    # The burst is for as many as there are slots; each of the others waits for a token of its own.
    assert took_s >= PLACES * RATE_PERIOD_S - 0.05


async def until_refused(gateway: Gateway, worker: Worker) -> Exchange:
    """Send requests one after the other until one is refused; Disproved when none is."""
    for _ in range(4 * SLOTS):
        answer = await gateway.chat(worker.script())
        if answer.status != 200:
            return expect_status(answer, FULL)
    raise Disproved("not refused", f"{4 * SLOTS} requests in a row are served, where the rate is one a second")
