"""Removing and changing workers through the admin API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.routes_support import expect_status, expect_success
from conformance.checks.workers_support import Registry, inference, own_fleet, own_model, stranger
from conformance.harness.bodies import body_for
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from conformance.harness.worker import new_marker
from fake_workers.script import Reply, Script

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway


@clause("workers_api.remove.accepted")
async def test_removal_is_accepted(gateway: Gateway) -> None:
    """DELETE of a registered worker: 202."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        expect_status(await registry.delete(await registry.add(fleet.urls[0])), 202)


@clause("workers_api.remove.body_worker_id")
async def test_removal_repeats_the_id(gateway: Gateway) -> None:
    """The body of the 202 says which worker goes."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        assert expect_status(await registry.delete(known), 202).json.get("worker_id") == known


@clause("workers_api.remove.gone")
async def test_removed_worker_is_gone(gateway: Gateway) -> None:
    """In the end the id is unknown."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_success(await registry.get(known))
        expect_status(await registry.delete(known), 202)
        await registry.until_gone(known)


@clause("workers_api.remove.no_new_requests")
async def test_removed_worker_gets_no_new_requests(gateway: Gateway) -> None:
    """The worker that served before its removal hears of nothing after it."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_success(await registry.chat(model))
        expect_status(await registry.delete(known), 202)
        # The removal is a job of its own: it has begun when the worker is no longer shown as healthy.
        await registry.until_chat(model, 404, 503)
        before = len(inference(fleet))
        for _ in range(3):
            expect_status(await registry.chat(model), 404, 503)
        assert len(inference(fleet)) == before


@clause("workers_api.remove.stream_completes")
async def test_stream_in_flight_completes(gateway: Gateway) -> None:
    """A stream that is held when its worker is removed goes on to its end once it is let go."""
    model, marker = own_model(), new_marker()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        fleet.book.put(marker, Script.of(Reply(pieces=["one", " two", " three"], hold_before={1: "rest"})))
        body = body_for(CHAT, model, f"Say hello. {marker}", {"stream": True})
        async with gateway.open("POST", CHAT, body) as live:
            await live.until(b"one")
            expect_status(await registry.delete(known), 202)
            await registry.until_chat(model, 404, 503)
            fleet.book.release(marker, "rest")
            answer = await live.rest()
    assert answer.ended_with_done
    assert b"three" in answer.body


@clause("workers_api.remove.model_not_found")
async def test_model_goes_with_its_last_worker(gateway: Gateway) -> None:
    """The model that was served is a model nobody serves."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_success(await registry.chat(model))
        await registry.delete(known)
        await registry.until_gone(known)
        expect_status(await registry.chat(model), 404)


@clause("workers_api.remove.models_list")
async def test_model_leaves_the_list(gateway: Gateway) -> None:
    """The model that was listed is no longer listed."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        assert model in (await gateway.get("/v1/models")).text
        await registry.delete(known)
        await registry.until_gone(known)
        assert model not in (await gateway.get("/v1/models")).text


@clause("workers_api.remove.others_served")
async def test_other_worker_goes_on(gateway: Gateway) -> None:
    """Of two workers one is removed; every later request reaches the other."""
    model = own_model()
    async with own_fleet(model, model) as fleet, Registry(gateway) as registry:
        first, second = [await registry.add(url) for url in fleet.urls]
        assert first != second
        await registry.delete(first)
        await registry.until_gone(first)
        before = [len(inference(fleet, name)) for name in fleet.workers]
        for _ in range(4):
            expect_success(await registry.chat(model))
        assert [len(inference(fleet, name)) for name in fleet.workers] == [before[0], before[1] + 4]


@clause("workers_api.remove.unknown_not_found")
async def test_removing_a_stranger(gateway: Gateway) -> None:
    """An id nobody has cannot be removed: 404."""
    async with Registry(gateway) as registry:
        expect_status(await registry.delete(stranger()), 404)


@clause("workers_api.remove.readd")
async def test_removed_url_can_come_back(gateway: Gateway) -> None:
    """After its removal a worker can be added again and serves again."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        await registry.delete(known)
        await registry.until_gone(known)
        await registry.add(fleet.urls[0])
        await registry.until_chat(model, 200)


@clause("workers_api.patch.accepted")
async def test_patch_is_accepted(gateway: Gateway) -> None:
    """PATCH of a registered worker: 202."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_status(
            await gateway.request("PATCH", f"/workers/{known}", {"labels": {"conformance-colour": "blue"}}), 202
        )


@clause("workers_api.patch.labels_merged")
async def test_patch_merges_labels(gateway: Gateway) -> None:
    """A label of the PATCH is added, and one it does not name stays."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0], labels={"conformance-shape": "round"})
        expect_status(
            await gateway.request("PATCH", f"/workers/{known}", {"labels": {"conformance-colour": "blue"}}), 202
        )
        labels = await registry.until_label(known, "conformance-colour", "blue")
        assert labels.get("conformance-shape") == "round"


@clause("workers_api.put.accepted")
async def test_put_is_accepted(gateway: Gateway) -> None:
    """PUT with the worker's own url: 202."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_status(await gateway.request("PUT", f"/workers/{known}", {"url": fleet.urls[0]}), 202)


@clause("workers_api.put.other_url_refused")
async def test_put_does_not_move_a_worker(gateway: Gateway) -> None:
    """PUT with another url is a bad request, and the worker keeps its own."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_status(await gateway.request("PUT", f"/workers/{known}", {"url": "http://127.0.0.1:9"}), 400)
        assert (await registry.get(known)).json.get("url") == fleet.urls[0]
