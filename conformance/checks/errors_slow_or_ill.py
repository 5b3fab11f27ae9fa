"""Workers that fall ill or take too long: what counts as ill, when that ends, and who is told what meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.errors_envelope import check_envelope
from conformance.checks.routes_support import expect_status, expect_success
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.marks import case, clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@pytest.mark.parametrize(
    "health",
    [
        case("codes.no_available_workers.health.server_error", 500),
        case("codes.no_available_workers.health.server_error", 503),
        case("codes.no_available_workers.health.not_found", 404),
        case("codes.no_available_workers.health.redirect", 302),
    ],
)
async def test_only_success_is_health(gateway: Gateway, health: int) -> None:
    """A worker that was served is no longer asked once its health check answers with anything but success."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])
        expect_success(await registry.chat(model))
        fleet.workers["own0"].health = health
        await registry.until_chat(model, 503)


@clause("codes.no_available_workers.health.recovers")
async def test_recovered_worker_is_asked_again(gateway: Gateway) -> None:
    """A worker that was out because of its health is asked again when it is back."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])
        fleet.workers["own0"].health = 500
        await registry.until_chat(model, 503)
        fleet.workers["own0"].health = None
        await registry.until_chat(model, 200)


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["whole", "stream"])
@clause("codes.upstream_timeout.status")
async def test_slow_worker_is_504(gateway: Gateway, worker: Worker, fields: dict[str, Any]) -> None:
    """A worker that says nothing for longer than the request timeout: 504."""
    script = worker.script(wire.never_answer(10.0))
    answer = await gateway.chat(script, **fields)
    await script.received()
    expect_status(answer, 504)


@clause("codes.upstream_timeout.code")
async def test_slow_worker_has_a_code(gateway: Gateway, worker: Worker) -> None:
    """The 504 is in the envelope."""
    script = worker.script(wire.never_answer(10.0))
    answer = expect_status(await gateway.chat(script), 504)
    await script.received()
    check_envelope(answer)


@clause("codes.upstream_timeout.worker_let_go")
async def test_slow_worker_is_let_go(gateway: Gateway, worker: Worker) -> None:
    """The worker's connection is closed when the time is up, not when the worker is done."""
    script = worker.script(wire.never_answer(10.0))
    await gateway.chat(script)
    await script.received()
    await script.peer_left(within_s=3.0)
