"""Every hand-written check of the suite against a peer that is no gateway, side by side in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from typing import TYPE_CHECKING

from conformance.harness import noise, pace
from conformance.harness.configurations import Configuration, configurations
from conformance.harness.environment import Environment, WorkerAt
from fake_workers.control import Control
from fake_workers.fleet import Fleet
from fake_workers.spec import WorkerSpec
from spec import features
from tests.mutants.judge import Check, Verdict, collect, judge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PACE = 0.02
AT_ONCE = 40
BOUND_S = 60.0
NOWHERE = "http://127.0.0.1:9"


@cache
def checks(*, every_case: bool = False) -> dict[str, Check]:
    """The hand-written checks, as for a target that claims every feature and runs in every configuration.

    Of the cases of one function that judge the same clauses, the first stands for all unless `every_case`.
    """
    targets = [word for name in configurations() for word in ("--target", f"{name}={NOWHERE}")]
    found = collect("--unproven", *targets, "--features", ",".join(features()))
    written = {nodeid: check for nodeid, check in found.items() if not check.generated}
    if every_case:
        return written
    first = {(check.written, check.clauses): nodeid for nodeid, check in reversed(written.items())}
    return {nodeid: written[nodeid] for nodeid in first.values()}


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Nobody waits long for what will not come."""
    pace.set_pace(PACE)
    try:
        yield
    finally:
        pace.set_pace(1)


async def judged(url: str, *, every_case: bool = False) -> dict[str, Verdict]:
    """The verdicts of the hand-written checks about whatever is at this URL, by node id."""
    by_configuration: dict[str, list[Check]] = {}
    for check in checks(every_case=every_case).values():
        by_configuration.setdefault(check.configuration, []).append(check)
    found: dict[str, Verdict] = {}
    room = asyncio.Semaphore(AT_ONCE)
    measured = noise.measure()

    async def one(check: Check, environment: Environment, control: Control) -> None:
        async with room:
            try:
                async with asyncio.timeout(BOUND_S):
                    # Nothing proven for one check may help another: each has to stand alone here.
                    found[check.nodeid] = await judge(check, environment, control, {}, measured)
            except TimeoutError:
                found[check.nodeid] = Verdict("harness error", f"took over {BOUND_S:g} s")

    with hurried():
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            for name, members in by_configuration.items():
                environment, control = await stack.enter_async_context(_environment(configurations()[name], url))
                for check in members:
                    group.create_task(one(check, environment, control))
    return found


def worker_at(fleet: Fleet) -> WorkerAt:
    """The first worker of a fleet, as checks know it."""
    name, worker = next(iter(fleet.workers.items()))
    return WorkerAt(name, worker.spec.engine, worker.spec.model, worker.url)


@contextlib.asynccontextmanager
async def _environment(chosen: Configuration, url: str) -> AsyncIterator[tuple[Environment, Control]]:
    """Workers that run but that nobody routes to, and what a check is told of them."""
    specs = [WorkerSpec(name=each.name, engine=each.engine, model=each.model) for each in chosen.workers]
    async with Fleet(specs) as fleet:
        workers = [WorkerAt(spec.name, spec.engine, spec.model, at) for spec, at in zip(specs, fleet.urls, strict=True)]
        control = Control(fleet.control_url)
        try:
            yield (
                Environment(
                    configuration=chosen.name,
                    gateway_url=url,
                    control_url=fleet.control_url,
                    workers=workers,
                    aliases=chosen.aliases,
                    keys=chosen.keys,
                    default_key=chosen.keys.get(chosen.default_key or ""),
                    features=sorted(features()),
                ),
                control,
            )
        finally:
            await control.aclose()
