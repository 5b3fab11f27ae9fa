"""Reading workers through the admin API: one of them, and all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import expect_status, expect_success
from conformance.checks.workers_support import Registry, listed, own_fleet, own_model, stranger, worker_id
from conformance.harness import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@pytest.mark.parametrize(
    "member",
    [
        case("workers_api.get.id", "id"),
        case("workers_api.get.url", "url"),
        case("workers_api.get.model", "model_id"),
        case("workers_api.get.healthy", "is_healthy"),
        case("workers_api.get.status", "status"),
    ],
)
async def test_worker_shows_its_members(gateway: Gateway, worker: Worker, member: str) -> None:
    """A worker of the configuration is shown as what it is."""
    known = await worker_id(gateway, worker.url)
    shown = expect_success(await gateway.get(f"/workers/{known}")).json
    wanted = {"id": known, "url": worker.url, "model_id": worker.model, "is_healthy": True, "status": "ready"}
    assert shown.get(member) == wanted[member]


@clause("workers_api.get.found")
async def test_registered_worker_is_found(gateway: Gateway) -> None:
    """The id an addition gave is an id that is found."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        expect_status(await registry.get(await registry.add(fleet.urls[0])), 200)


@clause("workers_api.get.pending")
async def test_worker_that_is_not_up_is_pending(gateway: Gateway) -> None:
    """A worker whose address nobody answers is shown as pending and not healthy."""
    async with own_fleet(own_model()) as fleet:
        gone = fleet.urls[0]
    async with Registry(gateway) as registry:
        answer = expect_status(await registry.post({"url": gone}), 202)
        shown = expect_success(await registry.get(registry.id_of(answer))).json
        assert (shown.get("status"), shown.get("is_healthy")) == ("pending", False)


@clause("workers_api.get.unknown_not_found")
async def test_unknown_worker_is_not_found(gateway: Gateway, worker: Worker) -> None:
    """An id nobody has: 404."""
    await gateway.proof(worker, CHAT, {})
    expect_status(await gateway.get(f"/workers/{stranger()}"), 404)


@clause("workers_api.get.unknown_code")
async def test_unknown_worker_has_its_code(gateway: Gateway) -> None:
    """An id nobody has: WORKER_NOT_FOUND."""
    assert expect_status(await gateway.get(f"/workers/{stranger()}"), 404).json.get("code") == "WORKER_NOT_FOUND"


@clause("workers_api.get.bad_id_refused")
async def test_bad_id_is_refused(gateway: Gateway) -> None:
    """What cannot be an id is a bad request."""
    expect_status(await gateway.get("/workers/no-uuid-at-all"), 400)


@clause("workers_api.list.array")
async def test_list_holds_the_configurations_workers(gateway: Gateway, worker: Worker) -> None:
    """The array has an entry for the worker this check runs behind."""
    listing = expect_status(await gateway.get("/workers"), 200).json
    assert worker.url in [entry.get("url") for entry in listing["workers"]]


@clause("workers_api.list.total")
async def test_total_counts_the_array(gateway: Gateway) -> None:
    """The total is the length of the array of the same answer."""
    body = expect_success(await gateway.get("/workers")).json
    assert body.get("total") == len(body["workers"])


@clause("workers_api.list.stats")
async def test_stats_count_kinds(gateway: Gateway) -> None:
    """The stats have a count for each kind, and ordinary workers are regular ones."""
    body = expect_success(await gateway.get("/workers")).json
    kinds = {
        name: sum(entry.get("worker_type") == name for entry in body["workers"])
        for name in ("prefill", "decode", "regular")
    }
    assert {name: body["stats"].get(f"{name}_count") for name in kinds} == kinds
    assert kinds["regular"] >= 3


@clause("workers_api.list.added_appears")
async def test_added_worker_is_listed(gateway: Gateway) -> None:
    """The list shows what was added, by id and url."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        assert (known, fleet.urls[0]) in {(entry.get("id"), entry.get("url")) for entry in await listed(gateway)}


@clause("workers_api.list.removed_disappears")
async def test_removed_worker_is_not_listed(gateway: Gateway) -> None:
    """The list no longer shows what was removed."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        await registry.until_listed(known, present=True)
        await registry.delete(known)
        await registry.until_listed(known, present=False)


@clause("workers_api.list.filter_by_model")
async def test_list_is_filtered_by_model(gateway: Gateway, worker: Worker) -> None:
    """With a model in the query the list has that model's workers only, and there are others."""
    found = expect_success(await gateway.get(f"/workers?model={worker.model}")).json["workers"]
    assert {entry["model_id"] for entry in found} == {worker.model}
    assert len(await listed(gateway)) > len(found)
