"""The admin routes about all workers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fake_workers import wire
from fake_workers.control import Control
from fake_workers.fleet import Fleet as FakeFleet
from fake_workers.spec import WorkerSpec as FakeSpec
from reference_server.app import create_app
from reference_server.settings import HealthSettings, OverloadSettings, Settings, TenantKey
from reference_server.workers.fleet import Fleet
from tests.reference_server.front import Front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEY = [("authorization", "Bearer shared")]
ROUTES = [("GET", "/get_loads"), ("POST", "/flush_cache")]


class Admin:
    """A front with a real fleet behind it: an sglang engine, which can flush, and a vllm one, which cannot."""

    def __init__(self, engines: FakeFleet) -> None:
        self.engines = engines
        settings = Settings(
            worker_urls=tuple(engines.urls), api_key="shared", tenant_api_keys=(TenantKey("red", "red-key"),),
            overload=OverloadSettings(interval_s=0.05), health=HealthSettings(interval_s=3600),
        )  # fmt: skip
        self.fleet = Fleet(settings)
        self.front = Front(settings)
        self.front.app = create_app(self.front.state, self.fleet)

    async def until_loads_are_known(self, count: int) -> None:
        """Wait until so many workers have reported."""
        async with asyncio.timeout(5.0):
            while sum(worker.load is not None for worker in self.fleet.registry) < count:  # noqa: ASYNC110 - nobody announces it
                await asyncio.sleep(0.005)


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    """The routes, once both workers have reported."""
    async with FakeFleet([FakeSpec(engine="sglang", model="a"), FakeSpec(engine="vllm", model="b")]) as engines:
        admin = Admin(engines)
        await admin.fleet.start()
        try:
            await admin.until_loads_are_known(2)
            yield admin
        finally:
            await admin.fleet.stop()


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("headers", [[], [("authorization", "Bearer red-key")], [("authorization", "Bearer x")]])
async def test_only_the_shared_key_opens_them(
    admin: Admin, method: str, path: str, headers: list[tuple[str, str]]
) -> None:
    """Without a key, with a tenant's and with an unknown one: 401, and no worker is asked."""
    before = len([entry for entry in admin.engines.journal.all_entries() if entry.target == "/flush_cache"])
    reply = await admin.front.ask(method, path, headers)
    assert (reply.status, reply.body) == (401, b"")
    assert len([entry for entry in admin.engines.journal.all_entries() if entry.target == "/flush_cache"]) == before


async def test_loads_are_the_last_reports(admin: Admin) -> None:
    """Each rank of each worker, and what they come to together."""
    for worker, waiting in zip(admin.engines.workers.values(), (3, 4), strict=True):
        worker.set_load({"waiting": waiting, "running": 1, "usage": waiting / 10})
    async with asyncio.timeout(5.0):
        while True:
            loads = (await admin.front.ask("GET", "/get_loads", KEY)).json
            if loads["aggregate"]["total_waiting_reqs"] == 7:
                break
            await asyncio.sleep(0.01)
    assert list(loads) == ["timestamp", "version", "dp_rank_count", "loads", "aggregate"]
    assert [entry["worker"] for entry in loads["loads"]] == admin.engines.urls
    assert list(loads["loads"][0])[2:6] == [
        "dp_rank", "num_running_reqs", "num_waiting_reqs", "num_waiting_uncached_tokens",
    ]  # fmt: skip
    assert loads["dp_rank_count"] == 2
    assert loads["aggregate"]["total_reqs"] == 9
    assert loads["aggregate"]["avg_token_usage"] == pytest.approx(0.35)


async def test_caches_are_flushed_where_that_is_known(admin: Admin) -> None:
    """206 names who did and who did not; the worker was really asked."""
    reply = await admin.front.ask("POST", "/flush_cache", KEY)
    assert reply.status == 206
    assert (reply.json["status"], reply.json["workers_flushed"], reply.json["total_workers"]) == (
        "partial_success",
        1,
        2,
    )
    assert reply.json["successful"] == [admin.engines.urls[0]]
    assert reply.json["failed"] == [{"worker": admin.engines.urls[1], "error": "POST /flush_cache answered 404"}]
    asked = [
        (entry.worker, entry.method) for entry in admin.engines.journal.all_entries() if entry.target == "/flush_cache"
    ]
    assert sorted(asked) == [("w0", "POST"), ("w1", "POST")]


async def test_all_caches_flushed(admin: Admin) -> None:
    """200 when every worker did as it was asked; a worker that is gone is a failure like any other."""
    async with Control(admin.engines.control_url) as control:
        await control.set_path("w1", "/flush_cache", wire.json(200, {}))
        assert (await admin.front.ask("POST", "/flush_cache", KEY)).status == 200
        await control.set_worker("w1", listening=False)
        reply = await admin.front.ask("POST", "/flush_cache", KEY)
        assert (reply.status, reply.json["failed"][0]["worker"]) == (206, admin.engines.urls[1])


async def test_without_workers_there_is_nothing_to_tell() -> None:
    """No worker is no failure: empty lists and a success."""
    settings = Settings()
    front = Front(settings)
    front.app = create_app(front.state, Fleet(settings))
    loads = (await front.ask("GET", "/get_loads")).json
    assert (loads["loads"], loads["dp_rank_count"], "aggregate" in loads) == ([], 0, False)
    flushed = await front.ask("POST", "/flush_cache")
    assert (flushed.status, flushed.json["status"], flushed.json["total_workers"]) == (200, "success", 0)
