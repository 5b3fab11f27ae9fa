"""Adding workers through the admin API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import expect_status, expect_success
from conformance.checks.workers_support import Registry, inference, listed, own_fleet, own_model
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway


def _location(answer: Exchange) -> str:
    """The Location of an answer, empty when it has none."""
    return answer.headers.get("location") or ""


async def _accepted(registry: Registry, url: str, **more: Any) -> Exchange:
    """The answer that accepts a new worker."""
    return expect_status(await registry.post({"url": url, **more}), 202)


@clause("workers_api.add.accepted")
async def test_addition_is_accepted(gateway: Gateway) -> None:
    """A url is enough: 202."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        await _accepted(registry, fleet.urls[0])


@clause("workers_api.add.location")
async def test_location_is_the_workers_path(gateway: Gateway) -> None:
    """Location is a path under which the worker can be asked for."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        answer = await _accepted(registry, fleet.urls[0])
        assert _location(answer).startswith("/workers/")
        expect_success(await gateway.get(_location(answer)))


@pytest.mark.parametrize(
    "member",
    [
        case("workers_api.add.body_status", "status"),
        case("workers_api.add.body_worker_id", "worker_id"),
        case("workers_api.add.body_url", "url"),
        case("workers_api.add.body_location", "location"),
    ],
)
async def test_acceptance_says_what_was_accepted(gateway: Gateway, member: str) -> None:
    """The body of the 202 has the member, and it agrees with the head and the request."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        answer = await _accepted(registry, fleet.urls[0])
        place = _location(answer)
        wanted = {"status": "accepted", "worker_id": place.rpartition("/")[2], "url": fleet.urls[0], "location": place}
        assert answer.json.get(member) == wanted[member]


@clause("workers_api.add.becomes_ready")
async def test_worker_becomes_ready(gateway: Gateway) -> None:
    """A worker that is up is healthy before long."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])


@clause("workers_api.add.model_discovered")
async def test_model_is_discovered(gateway: Gateway) -> None:
    """Nobody named the model; the gateway asked the worker."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        assert (await registry.until_ready(known)).get("model_id") == model


@clause("workers_api.add.served")
async def test_added_worker_serves(gateway: Gateway) -> None:
    """A request for the model, which was not found before, reaches the worker."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        expect_status(await registry.chat(model), 404)
        await registry.add(fleet.urls[0])
        await registry.until_chat(model, 200)
        assert len(inference(fleet)) == 1


@clause("workers_api.add.listed_in_models")
async def test_added_model_is_listed(gateway: Gateway) -> None:
    """The model, which was not listed before, is listed."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        assert model not in (await gateway.get("/v1/models")).text
        await registry.add(fleet.urls[0])
        assert model in {entry["id"] for entry in (await gateway.get("/v1/models")).json["data"]}


@clause("workers_api.add.models_override")
async def test_models_can_be_named(gateway: Gateway) -> None:
    """A worker answers to two names and the request names one: that one is served, and the other is not found."""
    discovered, named = own_model(), own_model()
    async with own_fleet(discovered, aliases=(named,)) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0], models=[{"id": named}])
        await registry.until_chat(named, 200)
        assert [entry.json["model"] for entry in inference(fleet)] == [named]
        expect_status(await registry.chat(discovered), 404)


@clause("workers_api.add.labels_kept")
async def test_labels_are_shown(gateway: Gateway) -> None:
    """A label of the request is a label of the worker."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0], labels={"conformance-colour": "green"})
        assert (await registry.get(known)).json.get("labels", {}).get("conformance-colour") == "green"


@clause("workers_api.add.unknown_fields_ignored")
async def test_unknown_fields_are_ignored(gateway: Gateway) -> None:
    """A field nobody knows does not keep a worker out."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0], conformance_unheard_of={"a": [1]})


@pytest.mark.parametrize(
    "shown",
    [
        case("workers_api.add.worker_key", False, name="worker"),
        case("workers_api.add.client_key_wins", True, name="client"),
    ],
)
async def test_workers_own_key(gateway: Gateway, *, shown: bool) -> None:
    """A worker registered with a key reads it in one Authorization header, unless the client sent one."""
    model = own_model()
    own = gateway.credential() or [("authorization", "Bearer sk-of-the-client")]
    wanted = own[0][1] if shown else "Bearer sk-of-the-worker"
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0], api_key="sk-of-the-worker")
        expect_success(await registry.chat(model, own if shown else []))
        assert [entry.header_all("authorization") for entry in inference(fleet)] == [[wanted]]


@clause("workers_api.add.unreachable_not_served")
async def test_unreachable_worker_serves_nothing(gateway: Gateway) -> None:
    """A worker that nobody answers for is not healthy, and its model is not found."""
    model = own_model()
    async with own_fleet(own_model()) as fleet:
        gone = fleet.urls[0]
    async with Registry(gateway) as registry:
        answer = await registry.post({"url": gone, "models": [{"id": model}]})
        shown = await registry.get(registry.id_of(answer))
        assert shown.status == 404 or shown.json.get("is_healthy") is False
        expect_status(await registry.chat(model), 404, 503)


@pytest.mark.parametrize(
    "body",
    [
        case("workers_api.add.no_url_refused", {"labels": {}}, name="no-url"),
        case("workers_api.add.bad_json_refused", b'{"url": "http://127.0.0.1:9', name="bad-json"),
        case("workers_api.add.bad_scheme_refused", {"url": "ftp://127.0.0.1:9"}, name="scheme"),
        case("workers_api.add.bad_scheme_refused", {"url": "127.0.0.1:9"}, name="no-scheme"),
        case(
            "workers_api.add.bad_enum_refused", {"url": "http://127.0.0.1:9", "worker_type": "conformance"}, name="enum"
        ),
    ],
)
async def test_bad_addition_is_refused(gateway: Gateway, body: dict[str, Any] | bytes) -> None:
    """Nothing is added by a request that cannot be meant: 400."""
    async with Registry(gateway) as registry:
        expect_status(await registry.post(body), 400)
    assert [entry["url"] for entry in await listed(gateway) if str(entry.get("url")).endswith("127.0.0.1:9")] == []


@clause("workers_api.add.duplicate_refused")
async def test_duplicate_is_a_conflict(gateway: Gateway) -> None:
    """A url is registered once: 409."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])
        expect_status(await registry.post({"url": fleet.urls[0]}), 409)


@clause("workers_api.add.duplicate_code")
async def test_duplicate_has_its_code(gateway: Gateway) -> None:
    """The conflict is named WORKER_ALREADY_EXISTS."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])
        assert (
            expect_status(await registry.post({"url": fleet.urls[0]}), 409).json.get("code") == "WORKER_ALREADY_EXISTS"
        )


@clause("workers_api.add.duplicate_keeps_first")
async def test_duplicate_changes_nothing(gateway: Gateway) -> None:
    """After the conflict the first registration serves as before, under its id."""
    model = own_model()
    async with own_fleet(model) as fleet, Registry(gateway) as registry:
        known = await registry.add(fleet.urls[0])
        expect_status(await registry.post({"url": fleet.urls[0], "models": [{"id": own_model()}]}), 409)
        assert [entry["id"] for entry in await listed(gateway) if entry.get("url") == fleet.urls[0]] == [known]
        expect_success(await registry.chat(model))


@clause("workers_api.error.shape")
async def test_admin_errors_have_their_own_shape(gateway: Gateway) -> None:
    """An admin error is an object with the texts error and code."""
    async with Registry(gateway) as registry:
        body = expect_status(await registry.post({"url": "ftp://127.0.0.1:9"}), 400).json
    assert isinstance(body.get("error"), str)
    assert isinstance(body.get("code"), str)
