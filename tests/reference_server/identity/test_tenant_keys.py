"""Which tenant a request counts for."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.call import Call, InboundBody
from reference_server.request_ids import RequestId
from reference_server.settings import Settings, TenantKey
from reference_server.stages.identify import Group, identify

OPEN = Settings()
TRUSTING = Settings(trust_tenant_header=True)
GUARDED = Settings(trust_tenant_header=True, api_key="shared", tenant_api_keys=(TenantKey("red", "secret"),))
PEER = "ip:10.0.0.9"


def tenant_key(settings: Settings, *headers: tuple[str, str], peer: str | None = "10.0.0.9") -> str:
    """The tenant key of a request for inference with these headers."""
    this = Call("POST", "/x", "/x", "", headers, RequestId("id"), InboundBody(1), peer)
    return identify(this, settings, Group.SERVING).tenant_key


def test_a_tenants_key_names_the_tenant() -> None:
    """The holder of a tenant's key is that tenant."""
    assert tenant_key(GUARDED, ("authorization", "Bearer secret")) == "auth:red"


def test_the_shared_key_is_one_identity_apart_from_the_tenants() -> None:
    """All users of the shared key are one tenant, whose name does not show the key."""
    mine = tenant_key(GUARDED, ("authorization", "Bearer shared"))
    other = tenant_key(GUARDED, ("authorization", "bearer shared "), peer="10.0.0.10")
    assert mine == other == "auth:" + hashlib.sha256(b"shared").hexdigest()


@pytest.mark.parametrize("key", ["secret", "shared"])
def test_a_key_wins_over_the_trusted_header(key: str) -> None:
    """The header is read only where no API key has identified the caller."""
    asserted = ("x-smg-tenant-id", "blue")
    assert not tenant_key(GUARDED, ("authorization", f"Bearer {key}"), asserted).startswith("header:")


def test_the_trusted_header_names_the_tenant() -> None:
    """With the trust flag the header's first value, trimmed, names the tenant."""
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", " \tblue one ")) == "header:blue one"
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", "one"), ("x-smg-tenant-id", "two")) == "header:one"
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", "auth:red")) == "header:auth:red"


def test_the_trusted_header_may_have_another_name() -> None:
    """With another name configured, the usual one is not read."""
    renamed = dataclasses.replace(TRUSTING, tenant_header_name="x-org")
    assert tenant_key(renamed, ("x-org", "blue")) == "header:blue"
    assert tenant_key(renamed, ("x-smg-tenant-id", "blue")) == PEER


def test_without_trust_the_header_is_not_read() -> None:
    """Nobody names a tenant by a header that nobody said could be trusted."""
    assert tenant_key(OPEN, ("x-smg-tenant-id", "blue")) == PEER


def test_longest_header() -> None:
    """A value of 200 bytes names a tenant, one more does not."""
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", "a" * 200)) == "header:" + "a" * 200
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", "a" * 201)) == PEER


@pytest.mark.parametrize("value", ["", "  ", "\xff\xfe", "\xc3\xa9", "a\x00b", "a\nb", "\x7f"])
def test_an_odd_header_names_nobody(value: str) -> None:
    """Empty values, control characters and bytes outside ASCII are passed over."""
    assert tenant_key(TRUSTING, ("x-smg-tenant-id", value)) == PEER


@given(st.text(st.characters(max_codepoint=255), max_size=400))
def test_no_header_value_raises(value: str) -> None:
    """Whatever bytes the header holds, the caller gets a tenant key, and one that fits on a line."""
    found = tenant_key(TRUSTING, ("x-smg-tenant-id", value))
    assert found.startswith(("header:", PEER))
    assert "\n" not in found
    assert len(found) <= 200 + len("header:")


def test_without_key_and_header_the_address_counts() -> None:
    """The peer's address is the tenant; where a transport has none, everybody is anonymous."""
    assert tenant_key(OPEN) == PEER
    assert tenant_key(OPEN, peer="::1") == "ip:::1"
    assert tenant_key(OPEN, peer="::ffff:10.0.0.9") == PEER
    assert tenant_key(OPEN, peer="2001:DB8:0::7") == "ip:2001:db8::7"
    assert tenant_key(OPEN, peer=None) == "anonymous"
