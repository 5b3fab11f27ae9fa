"""The priority scheduler: which class a request is of, whose queue it waits in, and who is served first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.admission_kit import SERVED_BOUND_S, TENANT, WINDOW_S, Crowd
from conformance.checks.admission_scenes import PLACES, SLOTS
from conformance.checks.routes_support import expect_code, expect_status
from conformance.harness.errors import Disproved
from conformance.harness.marks import case, clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Worker

CLASSES = ("system", "interactive", "default", "bulk")
"""From the highest to the lowest."""
STEPS = 4
BULK_TIMEOUT_S = PROMOTION_S = 1.0
"""Of configuration priority-reserved: how long class bulk may wait, and when a waiting default is promoted."""
RENAMED = "x-conformance-tenant"

scheduler = engines("sglang")  # an engine that says how many requests it runs at a time


@scheduler
@clause("admission.scheduler.class_order")
async def test_higher_classes_are_served_first(gateway: Gateway, worker: Worker) -> None:
    """Whatever order they came in, those that wait are served class by class, the highest first."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="system")  # nobody preempts the highest class
        waiting = {
            guest.script.marker: (says, guest)
            for says in reversed(CLASSES)
            for guest in await crowd.queue(PLACES, says=says)
        }
        served = []
        while waiting:
            await running.pop(0).finish()
            running.append(await crowd.next_to_run([guest for _, guest in waiting.values()]))
            served.append(waiting.pop(running[-1].script.marker)[0])
    if served != [each for each in CLASSES for _ in range(PLACES)]:
        raise Disproved("served in another order", f"classes were served in the order {', '.join(served)}")


@pytest.mark.parametrize("says", CLASSES)
@scheduler
@clause("admission.scheduler.fifo_in_class")
async def test_first_come_first_served_in_a_class(gateway: Gateway, worker: Worker, says: str) -> None:
    """Of two of one class that wait, the one known to have waited before the other came is served first."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.in_turn(await crowd.fill(SLOTS, says="system"), STEPS, says=says)


@pytest.mark.parametrize("says", CLASSES)
@scheduler
@clause("rate_limiting.scheduler_queue_full.own_class", "request_headers.priority.classes")
async def test_each_class_has_its_own_queue(gateway: Gateway, worker: Worker, says: str) -> None:
    """When the queue of one class is full the next of it is sent away, while one of each other class still waits."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="system")
        await crowd.queue(PLACES, says=says)
        expect_code(expect_status(await (await crowd.send(says=says)).answer(), 429), "scheduler_queue_full")
        others = [await crowd.send(says=each) for each in CLASSES if each != says]
        for guest in others:
            await guest.must_wait("another class's full queue counts", 0.1)


@pytest.mark.parametrize(
    ("how", "queue"),
    [
        case("admission.scheduler.absent_is_default", {}, "default", name="absent"),
        case("admission.scheduler.unknown_is_default", {"says": "king"}, "default", name="unknown"),
        case("admission.scheduler.unknown_is_default", {"says": "system,bulk"}, "default", name="list"),
        case("admission.scheduler.any_case", {"says": "BuLK"}, "bulk", name="case"),
        case("admission.scheduler.blanks", {"says": "  bulk  "}, "bulk", name="blanks"),
        case("admission.scheduler.clamp", {"says": "system", "tenant": "small"}, "default", name="clamped"),
        case("admission.scheduler.clamp_keeps_lower", {"says": "bulk", "tenant": "small"}, "bulk", name="lower"),
        case(
            "admission.scheduler.default_max_class",
            {"says": "system", "tenant": "unheard-of"},
            "system",
            name="other-tenant",
        ),
    ],
)
@scheduler
async def test_which_class_a_request_is_of(gateway: Gateway, worker: Worker, how: dict[str, Any], queue: str) -> None:
    """It takes the places of that class, and of no other: the next of that class is sent away, another's waits."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="system")
        await crowd.queue(PLACES, next_says=queue, **how)
        other = await crowd.send(says="bulk" if queue == "default" else "default")
        await other.must_wait("takes another class's places", WINDOW_S / 2)


@scheduler
@clause("request_headers.tenant_id.trusted")
async def test_the_header_names_the_tenant(gateway: Gateway, worker: Worker) -> None:
    """Whom the header calls small gets the class that the policy of header:small allows, no more."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.fill(SLOTS, says="system")
        await crowd.queue(PLACES, says="system", tenant="small", next_says="default")


@pytest.mark.parametrize(
    ("header", "queue"),
    [pytest.param(RENAMED, "default", id="new-name"), pytest.param(TENANT, "system", id="old-name")],
)
@scheduler
@clause("request_headers.tenant_id.renamed")
async def test_the_header_goes_by_its_configured_name(
    gateway: Gateway, worker: Worker, header: str, queue: str
) -> None:
    """The tenant is read from the header with the configured name, and from no other."""
    async with Crowd(gateway, worker, tenant_header=header) as crowd:
        await crowd.fill(SLOTS, says="system")
        await crowd.queue(1, says="system", tenant="small", next_says=queue)


@pytest.mark.parametrize(
    ("who", "tenant", "queue"),
    [
        case("auth.tenant.own_identity", "red", None, "system", name="red"),
        case("auth.tenant.own_identity", "blue", None, "default", name="blue"),
        case("request_headers.tenant_id.key_wins", "blue", "gold", "default", name="blue-as-gold"),
        case("request_headers.tenant_id.key_wins", "shared", "gold", "default", name="shared-as-gold"),
    ],
)
@scheduler
async def test_the_key_names_the_tenant(
    gateway: Gateway, worker: Worker, who: str, tenant: str | None, queue: str
) -> None:
    """A caller with a key gets the class its own tenant may have, whatever a header says of the tenant."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.run(says="system", key=gateway.keys["red"])
        await crowd.queue(PLACES, says="system", tenant=tenant, key=gateway.keys[who], next_says=None)
        # The places of red's class system are free, unless it was red that took them.
        probe = await crowd.send(says="system", key=gateway.keys["red"])
        if queue == "system":
            expect_code(expect_status(await probe.answer(), 429), "scheduler_queue_full")
        else:
            await probe.must_wait("waits in another class's queue")


# -- reservations and time


@scheduler
@clause("admission.scheduler.reserved")
async def test_reserved_slots_are_kept_free(gateway: Gateway, worker: Worker) -> None:
    """Of two slots, one reserved for class system, lower classes get one; the other is there when system comes."""
    async with Crowd(gateway, worker) as crowd:
        lower = await crowd.run(says="interactive")
        (waiting,) = await crowd.queue(1, says="interactive")
        await waiting.must_wait("a reserved slot is taken by a lower class")
        await (await crowd.run(says="system")).finish()
        await waiting.must_wait("a reserved slot is taken by a lower class")
        await lower.finish()
        await waiting.must_run("not served after waiting")


@scheduler
@clause("rate_limiting.scheduler_queue_timeout.own_class")
async def test_each_class_waits_for_its_own_time(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Class bulk is sent away after its second, while one of another class that came earlier waits on and is served."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.run(says="interactive")
        (patient,) = await crowd.queue(1, says="interactive")
        answer = await (await crowd.send(says="bulk")).answer()
        expect_code(expect_status(answer, 503), "scheduler_queue_timeout")
        assert answer.times.head is not None
        waited_s = answer.times.head - answer.times.started
        assert BULK_TIMEOUT_S - 0.01 <= waited_s <= noise.allow(BULK_TIMEOUT_S + 0.5)
        await patient.must_wait("another class's timeout counts")
        await running.finish()
        await patient.must_run("not served after waiting")


@scheduler
@clause("admission.scheduler.starvation_reserved")
async def test_nobody_starves(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """One that has waited for its class's threshold gets a reserved slot that nobody uses; not before."""
    async with Crowd(gateway, worker) as crowd:
        await crowd.run(says="default")
        (waiting,) = await crowd.queue(1, says="default")
        began = waiting.exchange.times.started
        await waiting.must_run("a waiting request starves", noise.allow(2 * PROMOTION_S + SERVED_BOUND_S))
        dispatched = (await waiting.script.only()).received_at
        assert time.monotonic() >= dispatched
        assert PROMOTION_S - 0.01 <= dispatched - began <= noise.allow(2 * PROMOTION_S)


@scheduler
@clause("admission.scheduler.starvation_bounded")
async def test_the_starving_come_first(gateway: Gateway, worker: Worker) -> None:
    """One that has waited for twice its class's threshold gets the next slot, though a higher class waits too."""
    async with Crowd(gateway, worker) as crowd:
        running = await crowd.fill(SLOTS, says="system")
        (starving,) = await crowd.queue(1, says="default")
        (higher,) = await crowd.queue(1, says="interactive")
        # Only time makes it starve.
        while time.monotonic() < starving.exchange.times.started + 2 * PROMOTION_S:
            await starving.must_wait("dispatched over the limit", PROMOTION_S / 4)
        await running[0].finish()
        if await crowd.next_to_run([starving, higher]) is not starving:
            raise Disproved(
                "a waiting request starves", "a higher class was served, though one of a lower was starving"
            )
