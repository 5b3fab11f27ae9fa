"""The fixtures of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from conformance.harness.errors import CheckError, Unavailable
from conformance.harness.gateway import Gateway
from conformance.harness.marks import DEFAULT_ENGINE
from conformance.harness.noise import Noise, measure
from conformance.harness.run import PLANNED, RUN
from conformance.harness.turns import turn
from conformance.harness.verdicts import HANDLES, Handles, gather
from conformance.harness.worker import Worker
from fake_workers.control import Control

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="session")
def noise() -> Noise:
    """How late this machine is, measured once a process; `noise.allow(limit_s)` is a limit that accounts for it."""
    return measure()


@pytest.fixture(scope="session")
def noise_s(noise: Noise) -> float:
    """Seconds to add to a limit of the contract on this machine."""
    return noise.margin_s


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The engine behind the gateway; `@engines(...)` sets it."""
    return str(getattr(request, "param", DEFAULT_ENGINE))


@pytest_asyncio.fixture(loop_scope="function")
async def _handles(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[Handles]:
    """Both handles of one check, with the evidence they gather."""
    planned = request.node.stash[PLANNED]
    if planned.problem:
        raise CheckError(planned.problem)
    run = request.config.stash[RUN]
    environment = run.environments.get(planned.configuration)
    if environment is None or environment.problem:
        raise Unavailable(
            environment.problem if environment else f"configuration {planned.configuration!r} was not started"
        )
    at = next((worker for worker in environment.workers if worker.engine == engine), None)
    if at is None:
        raise CheckError(f"configuration {planned.configuration!r} has no worker of engine {engine!r}")
    control = Control(environment.control_url)
    worker = Worker(at, control)
    handles = Handles(Gateway(environment, worker, run.proofs), worker)
    request.node.stash[HANDLES] = handles
    async with turn(environment.turn):
        try:
            yield handles
            await gather(request.node, handles)
            await worker.settle()
        finally:
            await control.aclose()


@pytest.fixture
def gateway(_handles: Handles) -> Gateway:
    """The gateway under test, as a client."""
    return _handles.gateway


@pytest.fixture
def worker(_handles: Handles) -> Worker:
    """The worker behind it: scripts and journal."""
    return _handles.worker
