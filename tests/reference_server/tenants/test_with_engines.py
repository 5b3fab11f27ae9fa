"""Tenant limits with real workers behind them: repetitions, streams, and callers that only an address tells apart."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers import wire
from fake_workers.fleet import Fleet as FakeFleet
from fake_workers.markers import new_marker
from fake_workers.script import Reply, Script
from fake_workers.spec import WorkerSpec as FakeSpec
from reference_server.app import create_app
from reference_server.settings import HealthSettings, RetrySettings, Settings
from reference_server.state import ServerState
from reference_server.tenants.policy import Limits, RateLimitPolicy, TenantPolicy
from reference_server.workers.fleet import Fleet
from tests.reference_server.front import Front

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fake_workers.script import Wire
    from tests.reference_server.front import Reply as Answer


class Server:
    """A front whose workers are fake engines; what a tenant may spend is the test's choice."""

    def __init__(self, engines: FakeFleet, limits: Limits) -> None:
        self.engines = engines
        settings = Settings(
            worker_urls=tuple(engines.urls), retry=RetrySettings(initial_backoff_ms=1, max_backoff_ms=2),
            health=HealthSettings(interval_s=3600), trust_tenant_header=True,
            tenant_rate_limits=RateLimitPolicy(TenantPolicy(limits), {"header:vip": TenantPolicy(Limits(10_000, 50))}),
        )  # fmt: skip
        self.fleet = Fleet(settings)
        self.front = Front(settings)
        self.front.state = ServerState(settings, self.fleet, self.front.door)
        self.front.app = create_app(self.front.state, self.fleet)

    async def chat(self, *answers: Reply | Wire, tenant: str | None = None, **fields: Any) -> Answer:
        """A chat that workers answer so, one answer an attempt."""
        marker = new_marker()
        self.engines.book.put(marker, Script.of(*answers))
        headers = [] if tenant is None else [("x-smg-tenant-id", tenant)]
        return await self.front.chat(headers, messages=[{"role": "user", "content": marker}], **fields)

    def dispatches(self) -> int:
        """How many chats the engines have got."""
        return sum(entry.method == "POST" for entry in self.engines.journal.all_entries())


@asynccontextmanager
async def server(limits: Limits) -> AsyncIterator[Server]:
    """A server with one worker that is ready."""
    async with FakeFleet([FakeSpec(engine="vllm", model="m")]) as engines:
        server = Server(engines, limits)
        await server.fleet.start()
        try:
            async with asyncio.timeout(5.0):
                while not server.fleet.readiness().ready:  # noqa: ASYNC110 - nobody announces it
                    await asyncio.sleep(0.005)
            yield server
        finally:
            await server.fleet.stop()


async def test_a_repeated_request_costs_one_request() -> None:
    """Five attempts at one client request are one request of the tenant's."""
    async with server(Limits(10_000, 2)) as under:
        busy = wire.json(503, {"error": "busy"})
        assert (await under.chat(busy, busy, busy, busy, Reply())).status == 200
        assert under.dispatches() == 5
        assert [(await under.chat(Reply())).status for _ in range(2)] == [200, 429]
        assert under.dispatches() == 6


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_engine_counted_is_what_is_owed(stream: bool) -> None:  # noqa: FBT001 - a case
    """An answer that took more than the budget holds leaves a debt; the next request waits until it is worked off."""
    async with server(Limits(600, 100)) as under:
        costly = Reply(prompt_tokens=100, completion_tokens=2000)
        usage: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
        assert (await under.chat(costly, stream=stream, **usage)).status == 200
        refused = await under.chat(Reply())
        assert (refused.status, refused.header("x-smg-error-code")) == (429, "tenant_rate_limit_exceeded")
        wait_s = int(refused.header("retry-after") or 0)
        assert 150 <= wait_s <= 152, "the debt of 1500 at ten tokens a second, and the few that the request needs"


async def test_a_trusted_header_parts_callers_of_one_address() -> None:
    """A tenant with an entry is not held to what the others at its address have spent."""
    async with server(Limits(10_000, 1)) as under:
        statuses = [
            (await under.chat(Reply(), tenant=tenant)).status for tenant in (None, None, "vip", "vip", "other", "")
        ]
        assert statuses == [200, 429, 200, 200, 200, 429]
