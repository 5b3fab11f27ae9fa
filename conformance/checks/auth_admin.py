"""Admin routes behind a shared key."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from conformance.checks.routes_support import NOBODYS_KEY, expect_empty, expect_status, expect_success
from conformance.checks.workers_support import listed, worker_id
from conformance.harness import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

NO_WORKER = {"url": "http://127.0.0.1:9"}
"""A worker that never comes up: adding it by mistake disturbs nobody."""


@clause("auth.shared.admin_list")
async def test_shared_key_lists(gateway: Gateway, worker: Worker) -> None:
    """The shared key may list the workers."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get("/workers", key=gateway.keys["shared"]))


@clause("auth.shared.admin_get")
async def test_shared_key_reads(gateway: Gateway, worker: Worker) -> None:
    """The shared key may read one worker."""
    known = await worker_id(gateway, worker.url)
    expect_success(await gateway.get(f"/workers/{known}", key=gateway.keys["shared"]))


@clause("auth.shared.admin_add")
async def test_shared_key_may_add(gateway: Gateway, worker: Worker) -> None:
    """With the shared key, adding a worker that is there already is judged on its merits: accepted or a conflict."""
    expect_status(await gateway.post("/workers", {"url": worker.url}, key=gateway.keys["shared"]), 202, 409)


@clause("auth.shared.admin_remove")
async def test_shared_key_may_remove(gateway: Gateway) -> None:
    """With the shared key, removing a worker nobody has is judged on its merits: not found."""
    expect_status(await gateway.request("DELETE", f"/workers/{uuid4()}", key=gateway.keys["shared"]), 404)


@clause("auth.admin.list_without_key_refused")
async def test_no_key_no_list(gateway: Gateway) -> None:
    """The list that the key opens is closed without it."""
    expect_success(await gateway.get("/workers"))
    expect_status(await gateway.get("/workers", key=None), 401)


@clause("auth.admin.get_without_key_refused")
async def test_no_key_no_worker(gateway: Gateway, worker: Worker) -> None:
    """The worker that the key shows is hidden without it."""
    known = await worker_id(gateway, worker.url)
    expect_success(await gateway.get(f"/workers/{known}"))
    expect_status(await gateway.get(f"/workers/{known}", key=None), 401)


@clause("auth.admin.add_without_key_refused")
async def test_no_key_no_addition(gateway: Gateway) -> None:
    """Without the key nothing is added: 401, and the list that the key opens does not show it."""
    expect_status(await gateway.post("/workers", NO_WORKER, key=None), 401)
    assert NO_WORKER["url"] not in {entry.get("url") for entry in await listed(gateway)}


@clause("auth.admin.remove_without_key_refused")
async def test_no_key_no_removal(gateway: Gateway) -> None:
    """Without the key a removal is refused before anybody looks for the worker: 401, where the key gets 404."""
    stranger = uuid4()
    expect_status(await gateway.request("DELETE", f"/workers/{stranger}"), 404)
    expect_status(await gateway.request("DELETE", f"/workers/{stranger}", key=None), 401)


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@clause("auth.admin.change_without_key_refused")
async def test_no_key_no_change(gateway: Gateway, worker: Worker, method: str) -> None:
    """Without the key nobody changes a worker: 401 (or the method is none), and what the key shows is as it was."""
    known = await worker_id(gateway, worker.url)
    label = f"changed-{secrets.token_hex(4)}"
    change = {"url": worker.url, "labels": {label: "by-nobody"}}
    expect_status(await gateway.request(method, f"/workers/{known}", change, key=None), 401, 405)
    shown = expect_success(await gateway.get(f"/workers/{known}")).json
    assert label not in shown.get("labels", {})


@clause("auth.admin.loads_without_key_refused")
async def test_no_key_no_loads(gateway: Gateway) -> None:
    """What the workers are busy with is told to whoever has the key only; a gateway need not tell it at all."""
    expect_success(await gateway.get("/workers"))
    expect_status(await gateway.get("/get_loads"), 200, 404)
    expect_status(await gateway.get("/get_loads", key=None), 401, 404)
    expect_status(await gateway.get("/get_loads", key=NOBODYS_KEY), 401, 404)


@clause("auth.admin.unknown_key_refused")
async def test_unknown_key_no_list(gateway: Gateway) -> None:
    """A key nobody issued opens no admin route."""
    expect_status(await gateway.get("/workers", key=NOBODYS_KEY), 401)


@pytest.mark.parametrize("key", [None, NOBODYS_KEY], ids=["missing", "unknown"])
@clause("auth.admin.empty_body")
async def test_admin_unauthorized_says_nothing(gateway: Gateway, key: str | None) -> None:
    """The 401 of an admin route has no body either."""
    answer = expect_status(await gateway.get("/workers", key=key), 401)
    expect_empty(answer)


def may_flush(answer: Exchange) -> bool:
    """Whether a flush was judged on its merits, whatever the workers made of it."""
    return answer.status is not None and answer.status not in {401, 403, 404, 405}


@clause("auth.admin.flush_cache_without_key_refused")
async def test_no_key_no_flush(gateway: Gateway) -> None:
    """The caches that the shared key empties are not emptied without it: 401."""
    assert may_flush(await gateway.post("/flush_cache", b"", key=gateway.keys["shared"]))
    expect_status(await gateway.post("/flush_cache", b"", key=None), 401)
    expect_status(await gateway.post("/flush_cache", b"", key=NOBODYS_KEY), 401)
