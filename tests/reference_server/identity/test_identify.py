"""Who may ask where, for every configuration of keys."""

from __future__ import annotations

import hashlib

import pytest

from reference_server.call import Call, InboundBody
from reference_server.errors import Unauthorized
from reference_server.request_ids import RequestId
from reference_server.settings import Settings, TenantKey
from reference_server.stages.identify import Caller, Group, identify

SHARED = Settings(api_key="shared-é", tenant_api_keys=(TenantKey("red", "red:key"), TenantKey("red", "second")))
TENANTS = Settings(tenant_api_keys=(TenantKey("red", "red:key"),))
OPEN = Settings()
SHARED_TENANT = "auth:" + hashlib.sha256("shared-é".encode()).hexdigest()
EVERYONE = Caller(tenant_key=SHARED_TENANT)
RED = Caller("red", "auth:red")


def call(authorization: str | None) -> Call:
    """A request with this Authorization header, a character a byte."""
    headers = [] if authorization is None else [("authorization", authorization)]
    return Call("POST", "/x", "/x", "", headers, RequestId("id"), InboundBody(1))


def bearer(key: str) -> str:
    """The header value of a key, as it looks on the wire."""
    return "Bearer " + key.encode().decode("latin-1")


@pytest.mark.parametrize(
    ("settings", "group", "key", "caller"),
    [
        (SHARED, Group.SERVING, "shared-é", EVERYONE), (SHARED, Group.ADMIN, "shared-é", EVERYONE),
        (SHARED, Group.SERVING, "red:key", RED), (SHARED, Group.SERVING, "second", RED),
        (TENANTS, Group.SERVING, "red:key", RED), (OPEN, Group.SERVING, "any", Caller()),
        (OPEN, Group.ADMIN, "any", Caller()), (SHARED, Group.PUBLIC, "wrong", Caller()),
    ],
)  # fmt: skip
def test_a_good_key_opens(settings: Settings, group: Group, key: str, caller: Caller) -> None:
    """The shared key opens serving and admin routes, a tenant's key serving ones and says whose it is."""
    assert identify(call(bearer(key)), settings, group) == caller


@pytest.mark.parametrize(
    ("settings", "group", "key"),
    [
        (SHARED, Group.ADMIN, "red:key"), (TENANTS, Group.ADMIN, "red:key"), (SHARED, Group.SERVING, "wrong"),
        (SHARED, Group.SERVING, "red"), (SHARED, Group.SERVING, "shared"), (TENANTS, Group.ADMIN, "anything"),
    ],
)  # fmt: skip
def test_a_wrong_key_does_not(settings: Settings, group: Group, key: str) -> None:
    """Unknown keys and prefixes of keys open nothing; tenants' keys never open admin routes."""
    with pytest.raises(Unauthorized):
        identify(call(bearer(key)), settings, group)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic red:key", "red:key", "Bearerred:key"])
def test_no_bearer_token_is_no_key(header: str | None) -> None:
    """Without a Bearer token the request is refused."""
    with pytest.raises(Unauthorized):
        identify(call(header), TENANTS, Group.SERVING)


@pytest.mark.parametrize("header", ["bearer red:key", "BEARER red:key", "Bearer   red:key", "Bearer red:key "])
def test_the_scheme_has_no_case_and_blanks_do_not_count(header: str) -> None:
    """The scheme's case and extra blanks do not matter."""
    assert identify(call(header), TENANTS, Group.SERVING) == RED


def test_nothing_of_a_key_is_in_a_repr() -> None:
    """Settings may be logged: keys are left out of their text."""
    text = repr(SHARED)
    assert "shared-é" not in text
    assert "red:key" not in text
