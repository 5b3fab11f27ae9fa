"""Admin routes behind control-plane credentials: the role opens them, no other key does; serving stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from conformance.checks.routes_support import ERROR_CODE, NOBODYS_KEY, expect_status, per_route, send
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

UNAUTHORIZED, FORBIDDEN = 401, 403

EACH_ADMIN_ROUTE = pytest.mark.parametrize("route", ["list", "read", "add", "remove", "flush"])


async def administrate(gateway: Gateway, worker: Worker, route: str, key: str | None) -> Exchange:
    """A request to an admin route that does no harm if it is let in."""
    method, path, body = {
        "list": ("GET", "/workers", None),
        "read": ("GET", f"/workers/{uuid4()}", None),
        "add": ("POST", "/workers", {"url": worker.url}),
        "remove": ("DELETE", f"/workers/{uuid4()}", None),
        "flush": ("POST", "/flush_cache", b""),
    }[route]
    return await gateway.request(method, path, body, key=key)


ON_ITS_MERITS = {"list": (200,), "read": (404,), "add": (202, 409), "remove": (404,), "flush": (200, 206)}
"""What `administrate` is answered once it is let in: nobody has the id, the worker is there already, and workers may be
too busy to empty their caches."""


async def refused(gateway: Gateway, worker: Worker, route: str, key: str | None, *statuses: int) -> Exchange:
    """What is judged on its merits for the administrator is refused with one of the statuses for this key."""
    expect_status(await administrate(gateway, worker, route, gateway.keys["admin"]), *ON_ITS_MERITS[route])
    return expect_status(await administrate(gateway, worker, route, key), *statuses)


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.admin_role_opens")
async def test_the_admin_role_opens(gateway: Gateway, worker: Worker, route: str) -> None:
    """A credential with the admin role is let in: the request is judged on its merits."""
    answer = expect_status(await administrate(gateway, worker, route, gateway.keys["admin"]), *ON_ITS_MERITS[route])
    if route == "list":  # a bare 200 says nothing; the list has the worker in it
        assert worker.url in [entry["url"] for entry in answer.json["workers"]]


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.other_role_refused")
async def test_another_role_opens_nothing(gateway: Gateway, worker: Worker, route: str) -> None:
    """A credential that is known and lacks the admin role is refused."""
    await refused(gateway, worker, route, gateway.keys["user"], UNAUTHORIZED, FORBIDDEN)


@clause("auth.control_plane.other_role_forbidden")
async def test_another_role_is_forbidden(gateway: Gateway, worker: Worker) -> None:
    """Who is known and may not is told so: 403, not the 401 of who is unknown."""
    await refused(gateway, worker, "remove", gateway.keys["user"], FORBIDDEN)


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.missing_refused")
async def test_no_credential(gateway: Gateway, worker: Worker, route: str) -> None:
    """Without a credential no admin route opens: 401."""
    await refused(gateway, worker, route, None, UNAUTHORIZED)


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.unknown_refused")
async def test_unknown_credential(gateway: Gateway, worker: Worker, route: str) -> None:
    """A credential nobody issued opens no admin route: 401."""
    await refused(gateway, worker, route, NOBODYS_KEY, UNAUTHORIZED)


@pytest.mark.parametrize(
    "presented", ["sk-conformance-admi", "sk-conformance-admin1", "SK-CONFORMANCE-ADMIN", "ops", "ops:{admin}", "admin"]
)
@clause("auth.control_plane.exact_key")
async def test_a_part_of_a_credential_is_none(gateway: Gateway, worker: Worker, presented: str) -> None:
    """Neither a beginning, an extension or another case of the key opens an admin route, nor its id, name or role."""
    await refused(gateway, worker, "list", presented.format(**gateway.keys), UNAUTHORIZED)


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.shared_key_refused")
async def test_the_shared_key_opens_no_admin_route(gateway: Gateway, worker: Worker, route: str) -> None:
    """The shared key, which opens a chat completion, opens no admin route any more."""
    expect_status(await gateway.chat(worker.script(), key=gateway.keys["shared"]), 200)
    await refused(gateway, worker, route, gateway.keys["shared"], UNAUTHORIZED, FORBIDDEN)


@EACH_ADMIN_ROUTE
@clause("auth.control_plane.tenant_key_refused")
async def test_a_tenants_key_opens_no_admin_route(gateway: Gateway, worker: Worker, route: str) -> None:
    """A tenant's key, which opens a chat completion, opens no admin route."""
    expect_status(await gateway.chat(worker.script(), key=gateway.keys["red"]), 200)
    await refused(gateway, worker, route, gateway.keys["red"], UNAUTHORIZED, FORBIDDEN)


@pytest.mark.parametrize("who", ["user", "shared"])
@clause("auth.control_plane.refused_changes_nothing")
async def test_a_refused_addition_adds_nothing(gateway: Gateway, who: str) -> None:
    """What a refused request asked for is not done: the administrator adds the same worker, and it is no duplicate."""
    async with own_fleet(own_model()) as fleet:
        body = {"url": fleet.urls[0]}
        expect_status(await gateway.post("/workers", body, key=gateway.keys[who]), UNAUTHORIZED, FORBIDDEN)
        added = expect_status(await gateway.post("/workers", body, key=gateway.keys["admin"]), 202)
        await gateway.request("DELETE", f"/workers/{Registry(gateway).id_of(added)}", key=gateway.keys["admin"])


@pytest.mark.parametrize("key", [None, NOBODYS_KEY], ids=["missing", "unknown"])
@clause("auth.control_plane.challenge")
async def test_unauthorized_names_the_scheme(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """The 401 says in WWW-Authenticate that a bearer token is wanted."""
    answer = await refused(gateway, worker, "list", key, UNAUTHORIZED)
    challenges = [value.partition(" ")[0].lower() for value in answer.headers.get_all("www-authenticate")]
    assert challenges == ["bearer"], f"WWW-Authenticate names {challenges}"


@pytest.mark.parametrize("key", [NOBODYS_KEY, "user"], ids=["unknown", "user"])
@clause("auth.control_plane.key_not_repeated")
async def test_a_refusal_does_not_repeat_the_key(gateway: Gateway, worker: Worker, key: str) -> None:
    """Neither headers nor body of the refusal contain the key that was sent."""
    token = gateway.keys.get(key, key)
    answer = await refused(gateway, worker, "remove", token, UNAUTHORIZED, FORBIDDEN)
    if token.encode() in answer.raw:
        raise Disproved("refusal repeats the key", "the refusal of an admin route contains the key that was sent")


@clause("auth.control_plane.refused_before_body")
async def test_credentials_come_before_the_body(gateway: Gateway) -> None:
    """A body that is no JSON is not looked at: 401 without a credential, where the administrator gets 400."""
    judged = await gateway.post("/workers", b'{"url": ', key=gateway.keys["admin"])
    expect_status(judged, 400, 422)
    expect_status(await gateway.post("/workers", b'{"url": ', key=None), UNAUTHORIZED)


@per_route("auth.control_plane.serving.{}_served")
async def test_the_shared_key_still_serves(gateway: Gateway, worker: Worker, path: str) -> None:
    """The shared key opens the route as it does without control-plane credentials."""
    script = worker.script()
    expect_status(await send(gateway, path, script, key=gateway.keys["shared"]), 200)
    await script.only()


@pytest.mark.parametrize(
    "key",
    [
        case("auth.control_plane.serving_unchanged", None, name="missing"),
        case("auth.control_plane.serving_unchanged", NOBODYS_KEY, name="unknown"),
        case("auth.control_plane.serving.credential_refused", "admin"),
        case("auth.control_plane.serving.credential_refused", "user"),
    ],
)
async def test_no_other_key_serves(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """Serving routes take the keys of serving routes: any other credential is refused with 401, and no worker hears."""
    presented = gateway.keys.get(key, key) if key else None
    await gateway.refuses(worker, CHAT, {}, {}, status=UNAUTHORIZED, invalid_key=presented)


@clause("auth.control_plane.serving.refused_without_code")
async def test_the_credential_is_an_unknown_key_to_serving(gateway: Gateway, worker: Worker) -> None:
    """An administrator's credential on a serving route is told what an unknown key is told: nothing, and no code."""
    answer = expect_status(await gateway.chat(worker.script(), key=gateway.keys["admin"]), UNAUTHORIZED)
    assert ERROR_CODE not in answer.headers
    assert answer.body == (await gateway.chat(worker.script(), key=NOBODYS_KEY)).body


@clause("auth.control_plane.models_public")
async def test_list_models_stays_public(gateway: Gateway, worker: Worker) -> None:
    """List Models answers without any credential."""
    await gateway.proof(worker, CHAT, {})
    expect_status(await gateway.get("/v1/models", key=None), 200)


@pytest.mark.parametrize("key", [None, "admin"])
@clause("auth.control_plane.serving.open_without_keys")
async def test_serving_stays_open(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """Control-plane credentials alone ask nothing of serving routes."""
    script = worker.script()
    expect_status(await gateway.chat(script, key=gateway.keys[key] if key else None), 200)
    await script.only()


@pytest.mark.parametrize("key", [None, NOBODYS_KEY], ids=["missing", "unknown"])
@clause("auth.control_plane.admin_closed_without_keys")
async def test_admin_routes_close_by_themselves(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """Control-plane credentials close the admin routes also where no API key is configured."""
    await refused(gateway, worker, "list", key, UNAUTHORIZED)
