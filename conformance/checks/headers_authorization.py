"""Authorization on its way to the worker, and headers that other features read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import expect_success
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@pytest.mark.parametrize(
    "key",
    [
        case("request_headers.authorization.gateway_key_passed_on", "shared"),
        case("request_headers.authorization.tenant_key_passed_on", "red"),
    ],
)
async def test_gateway_keys_are_passed_on(gateway: Gateway, worker: Worker, key: str) -> None:
    """What opened the gateway is what the worker reads in Authorization."""
    script = worker.script()
    expect_success(await gateway.chat(script, key=gateway.keys[key]))
    entry = await script.only()
    assert entry.header_all("authorization") == [f"Bearer {gateway.keys[key]}"]


@pytest.mark.parametrize("value", ["Basic dXNlcjpwYXNz", "Digest username=x", "sk-without-scheme", "Bearer a b"])
@clause("request_headers.authorization.any_scheme")
async def test_any_scheme_is_passed_on(gateway: Gateway, worker: Worker, value: str) -> None:
    """A gateway that asks for no key passes on whatever the client meant for the worker."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[("authorization", value)]))
    entry = await script.only()
    assert entry.header_all("authorization") == [value]


@clause("request_headers.authorization.once")
async def test_worker_gets_one_authorization(gateway: Gateway, worker: Worker) -> None:
    """Of the raw header lines at the worker exactly one is Authorization."""
    script = worker.script()
    await gateway.chat(script, headers=gateway.credential() or [("authorization", "Bearer sk-of-the-client")])
    entry = await script.only()
    assert len(entry.header_all("authorization")) == 1


@clause("request_headers.authorization.none_invented")
async def test_no_credential_is_made_up(gateway: Gateway, worker: Worker) -> None:
    """Without a credential from the client the worker gets none."""
    script = worker.script()
    await gateway.chat(script, key=None)
    entry = await script.only()
    assert entry.header_all("authorization") == []


@clause("request_headers.provider_keys.chat_uses_authorization")
async def test_provider_key_does_not_replace_authorization(gateway: Gateway, worker: Worker) -> None:
    """With both headers the worker reads the client's Authorization, not a bearer token made of x-api-key."""
    script = worker.script()
    own = gateway.credential() or [("authorization", "Bearer of-the-client")]
    await gateway.chat(script, headers=[*own, ("x-api-key", "of-a-provider")])
    entry = await script.only()
    assert entry.header_all("authorization") == [value for _, value in own]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            case("request_headers.priority.ignored_without_scheduler", "X-SMG-Priority", value)
            for value in ("system", "interactive", "default", "bulk", "emperor", "")
        ],
        *[
            case("request_headers.tenant_id.ignored_without_trust", "X-SMG-Tenant-ID", value)
            for value in ("team-red", "", "x" * 300)
        ],
        *[
            case("request_headers.mcp.chat_unaffected", "X-SMG-MCP", value)
            for value in ("enabled", "disabled", "perhaps")
        ],
        *[
            case("request_headers.target_worker.other_policies_ignore", "X-SMG-Target-Worker", value)
            for value in ("0", "1", "99", "-1", "first")
        ],
    ],
)
async def test_unread_headers_change_nothing(gateway: Gateway, worker: Worker, name: str, value: str) -> None:
    """A header whose feature is off is served like no header at all."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[(name, value)]))
    await script.only()


@clause("request_headers.tenant_id.no_credential")
async def test_tenant_header_is_no_key(gateway: Gateway, worker: Worker) -> None:
    """Who claims a tenant and shows no key is refused with 401, and no worker hears of it."""
    await gateway.refuses(
        worker, CHAT, {}, {}, status=401, invalid_headers=[("X-SMG-Tenant-ID", "team-red")], invalid_key=None
    )
