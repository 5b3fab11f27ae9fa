"""Tenant keys beside a shared key, and tenant keys alone."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from conformance.checks.auth_admin import NO_WORKER, may_flush
from conformance.checks.routes_support import NOBODYS_KEY, expect_empty, expect_status, expect_success, per_route, send
from conformance.checks.workers_support import listed, worker_id
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@per_route("auth.tenant.{}_served")
async def test_tenant_key_opens_inference(gateway: Gateway, worker: Worker, path: str) -> None:
    """A tenant's key opens the route: the request reaches a worker and is answered."""
    script = worker.script()
    expect_success(await send(gateway, path, script, key=gateway.keys["red"]))
    await script.only()


@pytest.mark.parametrize(
    "tenant",
    [
        case("auth.tenant.each_key_served", "red"),
        case("auth.tenant.each_key_served", "blue"),
        case("auth.tenant.several_keys", "red-too"),
        case("auth.tenant.key_may_hold_colons", "colons"),
        case("auth.tenant.shared_key_still_served", "shared"),
    ],
)
async def test_every_key_opens_chat(gateway: Gateway, worker: Worker, tenant: str) -> None:
    """Each configured key opens a chat completion by itself."""
    script = worker.script()
    expect_success(await gateway.chat(script, key=gateway.keys[tenant]))
    await script.only()


@pytest.mark.parametrize(
    "key",
    [
        case("auth.tenant.unknown_key_refused", NOBODYS_KEY, name="unknown"),
        case("auth.tenant.missing_key_refused", None, name="missing"),
        case("auth.tenant.id_is_no_key", "team-red", name="tenant-id"),
        case("auth.tenant.id_is_no_key", "team-red:{red}", name="tenant-id-and-key"),
    ],
)
async def test_no_other_key_opens_chat(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """What is no configured key is refused with 401, and no worker hears of it."""
    await gateway.refuses(
        worker, CHAT, {}, {}, status=401, key=gateway.keys["red"], invalid_key=key and key.format(**gateway.keys)
    )


@clause("auth.tenant.empty_body")
async def test_unauthorized_beside_tenants_says_nothing(gateway: Gateway, worker: Worker) -> None:
    """The 401 for a key that is neither shared nor a tenant's has no body."""
    answer = expect_status(await gateway.chat(worker.script(), key=NOBODYS_KEY), 401)
    expect_empty(answer)


@clause("auth.tenant.models_public")
async def test_list_models_stays_public(gateway: Gateway, worker: Worker) -> None:
    """Tenant keys do not close List Models."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get("/v1/models", key=None))


@clause("auth.tenant.shared_key_opens_admin")
async def test_shared_key_still_lists(gateway: Gateway, worker: Worker) -> None:
    """Beside tenant keys, the shared key still lists the workers."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get("/workers", key=gateway.keys["shared"]))


@clause("auth.tenant.admin_list_refused")
async def test_tenant_does_not_list(gateway: Gateway, worker: Worker) -> None:
    """The key that opens a chat completion does not open the list of workers."""
    expect_success(await gateway.chat(worker.script(), key=gateway.keys["red"]))
    expect_status(await gateway.get("/workers", key=gateway.keys["red"]), 401)


@clause("auth.tenant.admin_get_refused")
async def test_tenant_does_not_read(gateway: Gateway, worker: Worker) -> None:
    """The worker that the shared key shows is hidden from a tenant."""
    known = await worker_id(gateway, worker.url)
    expect_status(await gateway.get(f"/workers/{known}", key=gateway.keys["red"]), 401)


@clause("auth.tenant.admin_add_refused")
async def test_tenant_does_not_add(gateway: Gateway) -> None:
    """A tenant adds nothing: 401, and the list that the shared key opens does not show it."""
    expect_status(await gateway.post("/workers", NO_WORKER, key=gateway.keys["red"]), 401)
    assert NO_WORKER["url"] not in {entry.get("url") for entry in await listed(gateway)}


@clause("auth.tenant.admin_remove_refused")
async def test_tenant_does_not_remove(gateway: Gateway) -> None:
    """A tenant's removal is refused before anybody looks for the worker: 401, where the shared key gets 404."""
    stranger = uuid4()
    expect_status(await gateway.request("DELETE", f"/workers/{stranger}", key=gateway.keys["shared"]), 404)
    expect_status(await gateway.request("DELETE", f"/workers/{stranger}", key=gateway.keys["red"]), 401)


@clause("auth.tenant.admin_flush_cache_refused")
async def test_tenant_does_not_flush(gateway: Gateway) -> None:
    """A tenant does not empty the caches of all: 401, where the shared key is let in."""
    assert may_flush(await gateway.post("/flush_cache", b"", key=gateway.keys["shared"]))
    expect_status(await gateway.post("/flush_cache", b"", key=gateway.keys["red"]), 401)


@clause("auth.tenant.admin_empty_body")
async def test_tenant_is_told_nothing(gateway: Gateway) -> None:
    """The 401 a tenant gets on an admin route has no body."""
    answer = expect_status(await gateway.get("/workers", key=gateway.keys["red"]), 401)
    expect_empty(answer)


@pytest.mark.parametrize("tenant", ["red", "blue"])
@clause("auth.tenants_only.serving_served")
async def test_tenants_alone_are_served(gateway: Gateway, worker: Worker, tenant: str) -> None:
    """Without a shared key, each tenant's key opens a chat completion."""
    script = worker.script()
    expect_success(await gateway.chat(script, key=gateway.keys[tenant]))
    await script.only()


@pytest.mark.parametrize(
    "key",
    [
        case("auth.tenants_only.missing_key_refused", None, name="missing"),
        case("auth.tenants_only.unknown_key_refused", NOBODYS_KEY, name="unknown"),
    ],
)
async def test_tenants_alone_keep_others_out(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """Without a shared key, what is no tenant's key is refused with 401, and no worker hears of it."""
    await gateway.refuses(worker, CHAT, {}, {}, status=401, key=gateway.keys["red"], invalid_key=key)


@clause("auth.tenants_only.models_public")
async def test_tenants_alone_leave_list_models_public(gateway: Gateway, worker: Worker) -> None:
    """Tenant keys alone do not close List Models."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get("/v1/models", key=None))


@pytest.mark.parametrize(
    "key",
    [
        case("auth.tenants_only.admin_without_key_refused", None, name="missing"),
        case("auth.tenants_only.admin_with_tenant_key_refused", "{red}", name="tenant"),
        case("auth.tenants_only.admin_with_tenant_key_refused", "{blue}", name="other-tenant"),
        case("auth.tenants_only.admin_with_other_key_refused", NOBODYS_KEY, name="unknown"),
    ],
)
async def test_tenants_alone_close_admin_for_good(gateway: Gateway, key: str | None) -> None:
    """Without a shared key no key opens an admin route: 401 for reading and for adding."""
    token = key and key.format(**gateway.keys)
    expect_status(await gateway.get("/workers", key=token), 401)
    expect_status(await gateway.post("/workers", NO_WORKER, key=token), 401)
