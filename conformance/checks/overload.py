"""Overload protection: whom a gateway asks, and whom it sends away, by what the workers say of their load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import Crowd
from conformance.checks.admission_scenes import POLLED_BOUND_S, overloaded, until_served, until_shed
from conformance.checks.routes_support import (
    NOBODYS_MODEL,
    each_path,
    expect_code,
    expect_equal,
    expect_status,
    send,
)
from conformance.harness.errors import Disproved
from conformance.harness.marks import case, clause, engines
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

CODE = "worker_overload_protection_shed"
PAIR, FIRST, SECOND = "conformance/pair", "first", "second"
CALM = {"running": 0, "waiting": 0, "usage": 0.0}
WAITING, USAGE = 4, 0.5
"""The thresholds of configuration overload."""
DEFAULT_INTERVAL_S = 10
REQUESTS = 6

loaded = engines("sglang")  # the engine of the workers of configuration overload


@loaded
@clause("rate_limiting.worker_overload_protection_shed.recovers")
async def test_served_again_when_the_load_falls(gateway: Gateway, worker: Worker) -> None:
    """When the worker says that nothing waits any more, requests are served again."""
    async with Crowd(gateway, worker) as crowd:
        expect_code(await (await overloaded(crowd)).answer(), CODE)
        await worker.control.set_load(worker.name, **CALM)
        guest = await until_served(crowd, POLLED_BOUND_S)
        await guest.script.only()


@pytest.mark.parametrize(
    ("load", "shed"),
    [
        case(f"rate_limiting.{CODE}.waiting_inclusive", {"waiting": WAITING}, True, name="waiting-at"),
        case(f"rate_limiting.{CODE}.waiting_under", {"waiting": WAITING - 1}, False, name="waiting-under"),
        case(f"rate_limiting.{CODE}.usage_inclusive", {"usage": USAGE}, True, name="usage-at"),
        case(f"rate_limiting.{CODE}.usage_under", {"usage": USAGE - 0.01}, False, name="usage-under"),
    ],
)
@loaded
async def test_the_thresholds(gateway: Gateway, worker: Worker, load: dict[str, Any], shed: bool) -> None:
    """At a threshold requests are sent away; a step under it they are served, though a moment ago they were not."""
    async with Crowd(gateway, worker) as crowd:
        if shed:
            crowd.after.push_async_callback(worker.control.set_load, worker.name)
            await worker.control.set_load(worker.name, **{**CALM, **load})
            expect_code(await (await until_shed(crowd, POLLED_BOUND_S)).answer(), CODE)
            return
        # That it is served again proves that the new load has been read.
        expect_code(await (await overloaded(crowd)).answer(), CODE)
        await worker.control.set_load(worker.name, **{**CALM, **load})
        await until_served(crowd, POLLED_BOUND_S)


@loaded
@clause("rate_limiting.worker_overload_protection_shed.every_worker")
async def test_shed_only_when_all_are_over(gateway: Gateway, worker: Worker) -> None:
    """With one of a model's two workers over the threshold the other gets all requests; with both over, none does."""
    control = worker.control
    async with Crowd(gateway, worker) as crowd:
        for name in (FIRST, SECOND):
            crowd.after.push_async_callback(control.set_load, name)
            await control.set_load(name, **CALM)
        await control.set_load(FIRST, **{**CALM, "waiting": 10 * WAITING})
        await _until_only(crowd, SECOND)
        seen = [(await (await _served(crowd)).script.only()).worker for _ in range(REQUESTS)]
        expect_equal("an overloaded worker is asked", seen, [SECOND] * REQUESTS)
        await control.set_load(SECOND, **{**CALM, "waiting": 10 * WAITING})
        expect_code(await (await until_shed(crowd, POLLED_BOUND_S, model=PAIR)).answer(), CODE)
        # Another model's worker is none of their business.
        expect_status(await gateway.chat(worker.script()), 200)


@loaded
@clause("rate_limiting.worker_overload_protection_shed.after_validation")
async def test_a_bad_body_is_told_first(gateway: Gateway, worker: Worker) -> None:
    """While a model's only worker is overloaded a wrong body is still told so, and so is an unknown model."""
    async with Crowd(gateway, worker) as crowd:
        expect_code(await (await overloaded(crowd)).answer(), CODE)
        expect_status(await gateway.chat(worker.script(), temperature=9), 400)
        expect_status(await gateway.chat(worker.script(), model=NOBODYS_MODEL), 404)
        expect_code(expect_status(await gateway.chat(worker.script()), 503), CODE)


@loaded
@each_path("completions", "embeddings")
@clause("rate_limiting.worker_overload_protection_shed.every_route")
async def test_every_route_is_shed(gateway: Gateway, worker: Worker, path: str) -> None:
    """While a model's only worker is overloaded, requests of this route are sent away too."""
    async with Crowd(gateway, worker) as crowd:
        await until_served(crowd, POLLED_BOUND_S, path=path)  # a check before this one may have left it overloaded
        expect_code(await (await overloaded(crowd)).answer(), CODE)
        expect_code(expect_status(await send(gateway, path, worker.script()), 503), CODE)


async def _served(crowd: Crowd) -> Any:
    """One request for the model with two workers, served."""
    guest = await crowd.send(answers=[Reply()], model=PAIR)
    expect_status(await guest.answer(), 200)
    return guest


async def _until_only(crowd: Crowd, name: str) -> None:
    """Send requests until several in a row went to this worker; Disproved when that does not come."""
    deadline = asyncio.get_running_loop().time() + POLLED_BOUND_S
    in_a_row = 0
    while in_a_row < REQUESTS:
        if asyncio.get_running_loop().time() > deadline:
            raise Disproved("an overloaded worker is asked", f"for {POLLED_BOUND_S:g} s the overloaded worker is asked")
        in_a_row = in_a_row + 1 if (await (await _served(crowd)).script.only()).worker == name else 0
        await asyncio.sleep(0.02)


@loaded
@clause("rate_limiting.worker_overload_protection_shed.default_interval")
async def test_the_default_interval(gateway: Gateway, worker: Worker) -> None:
    """With nothing else configured a shed says Retry-After 10, and the load is read at least that often."""
    control = worker.control
    async with Crowd(gateway, worker) as crowd:
        crowd.after.push_async_callback(control.set_load, worker.name)
        await control.set_load(worker.name, running=0, waiting=100, usage=1.0)
        answer = await (await until_shed(crowd, DEFAULT_INTERVAL_S + POLLED_BOUND_S)).answer()
        expect_code(answer, CODE)
        expect_equal("another Retry-After", answer.headers.get_all("retry-after"), [str(DEFAULT_INTERVAL_S)])
