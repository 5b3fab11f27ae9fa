"""The ways a request can be sent away, each played until the request in question has, or is about to have, its answer.

Nothing here is a check.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import Crowd, Guest, left_or_done
from conformance.harness.errors import Disproved
from conformance.harness.marks import DEFAULT_ENGINE, case
from fake_workers.script import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from _pytest.mark.structures import MarkDecorator

SLOTS, PLACES = 2, 2
"""Of configurations `admission`, `admission-queue` and `priority`: how many run, and how many wait (of a class)."""
DOORS = {
    "limit": ("admission", "admission-queue", DEFAULT_ENGINE),
    "scheduler": ("admission.scheduler", "priority", "sglang"),
}
"""What admits: how its clauses begin, the configuration, and the engine behind the gateway there."""
POLLED_BOUND_S = 6.0
MOST_REQUESTS = 12


def behind_each_door(**names: str) -> MarkDecorator:
    """Run the check (parameter `way`) for each of these names behind each door, under the clause it stands for.

    The two doors have as many slots and places, and the promises are the same.
    """
    cases = [
        case(f"{prefix}.{clause}", engine, name, name=f"{door}-{name}", configuration=configuration)
        for door, (prefix, configuration, engine) in DOORS.items()
        for name, clause in names.items()
    ]
    return pytest.mark.parametrize(("engine", "way"), cases, indirect=["engine"])


@dataclass(frozen=True)
class Scene:
    """A way of being sent away, and what the contract's table says of it; `retry_after` None where it is computed."""

    name: str
    code: str
    status: int
    retry_after: str | None
    configuration: str
    act: Callable[..., Awaitable[Guest]]
    engine: str = DEFAULT_ENGINE

    async def play(self, crowd: Crowd, **fields: Any) -> Guest:
        """The request that is sent away; `fields` are laid over its body."""
        return await self.act(crowd, **fields)


async def disabled(crowd: Crowd, **fields: Any) -> Guest:
    """Every slot is taken, and there is no queue."""
    await crowd.fill(SLOTS)
    return await crowd.send(**fields)


async def queue_full(crowd: Crowd, **fields: Any) -> Guest:
    """Every slot is taken, and so is every place of the queue."""
    await crowd.fill(SLOTS)
    await crowd.queue(PLACES)
    return await crowd.send(**fields)


async def timed_out(crowd: Crowd, **fields: Any) -> Guest:
    """The only slot stays taken for longer than a request may wait."""
    await crowd.run()
    return await crowd.send(**fields)


async def class_full(crowd: Crowd, **fields: Any) -> Guest:
    """Every slot is taken, and so is every place of the class bulk."""
    await crowd.fill(SLOTS)
    await crowd.queue(PLACES, says="bulk")
    return await crowd.send(says="bulk", **fields)


async def class_timed_out(crowd: Crowd, **fields: Any) -> Guest:
    """The one slot that is not reserved stays taken for longer than class bulk may wait."""
    await crowd.run(says="interactive")
    return await crowd.send(says="bulk", **fields)


async def preempted(crowd: Crowd, **fields: Any) -> Guest:
    """Two requests of class bulk run, none has said a word, and one of class system arrives: the one that made room."""
    silent = [Reply(hold_before={-1: "go"})]
    running = await crowd.fill(SLOTS, says="bulk", answers=silent, **fields)
    await crowd.send(says="system")
    return await left_or_done(running)


async def over_budget(crowd: Crowd, key: str = "red", **fields: Any) -> Guest:
    """A tenant sends requests until one is sent away."""
    for _ in range(MOST_REQUESTS):
        guest = await crowd.send(key=crowd.gateway.keys[key], answers=[Reply()], **fields)
        if (await guest.answer()).status != 200:
            return guest
    raise Disproved("not refused", f"{MOST_REQUESTS} requests were served, where the budget is for two a minute")


async def overloaded(crowd: Crowd, **fields: Any) -> Guest:
    """The model's only worker says that too many requests wait: the first request that is sent away."""
    control, name = crowd.worker.control, crowd.worker.name
    crowd.after.push_async_callback(control.set_load, name)
    await control.set_load(name, running=0, waiting=40, usage=0.0)
    return await until_shed(crowd, POLLED_BOUND_S, **fields)


async def until_shed(crowd: Crowd, within_s: float, **fields: Any) -> Guest:
    """Send requests until one is sent away; Disproved when all are served."""
    deadline = time.monotonic() + within_s
    while True:
        guest = await crowd.send(answers=[Reply()], **fields)
        if (await guest.answer()).status != 200:
            return guest
        if time.monotonic() > deadline:
            raise Disproved("not refused", f"the worker says it is overloaded for {within_s:g} s and is still asked")
        await asyncio.sleep(0.05)


async def until_served(crowd: Crowd, within_s: float, **fields: Any) -> Guest:
    """Send requests until one is served; Disproved when none is."""
    deadline = time.monotonic() + within_s
    while True:
        guest = await crowd.send(answers=[Reply()], **fields)
        if (await guest.answer()).status == 200:
            return guest
        if time.monotonic() > deadline:
            raise Disproved("still refused", f"for {within_s:g} s nothing is served: {guest.exchange.brief()}")
        await asyncio.sleep(0.05)


SCENES = (
    Scene("disabled", "admission_queue_full", 429, "2", "admission", disabled),
    Scene("full", "admission_queue_full", 429, "2", "admission-queue", queue_full),
    Scene("timeout", "admission_queue_timeout", 503, "2", "admission-timeout", timed_out),
    Scene("class-full", "scheduler_queue_full", 429, "2", "priority", class_full, "sglang"),
    Scene("class-timeout", "scheduler_queue_timeout", 503, "2", "priority-reserved", class_timed_out, "sglang"),
    Scene("preempted", "scheduler_preempted", 503, "1", "priority", preempted, "sglang"),
    Scene("budget", "tenant_rate_limit_exceeded", 429, None, "tenant-limits", over_budget),
    Scene("overload", "worker_overload_protection_shed", 503, "1", "overload", overloaded, "sglang"),
)
