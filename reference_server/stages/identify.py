"""Stage *identify*: who is asking, and may they ask here.

Serving routes take the shared key or any tenant's; admin routes take the shared key only; without any key configured
both are open. With tenant keys alone no key opens the admin routes. With control-plane credentials the admin routes
take those instead, and serving routes are as they were. Public routes ask for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from reference_server.errors import Unauthorized
from reference_server.identity import control_plane, keys, tenants

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import Settings

_SCHEME = "bearer"


class Group(Enum):
    """What kind of route a request is for."""

    PUBLIC = "public"
    SERVING = "serving"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking.

    `tenant_key` is what budgets and priorities go by (`reference_server.identity.tenants`). `tenant_id` is set for a
    tenant's key only.
    """

    tenant_id: str | None = None
    tenant_key: str = tenants.ANONYMOUS


ANYONE = Caller()


def identify(this: Call, settings: Settings, group: Group) -> Caller:
    """The caller of a request.

    Raises:
        Unauthorized: the group asks for a key, and none or an unknown one was sent.
        ControlPlaneRefusal: an admin route, and no control-plane credential with the admin role was sent.
    """
    if group is Group.PUBLIC:
        return ANYONE
    if group is Group.ADMIN and settings.control_plane_keys:
        control_plane.authorize(this, _bearer_token(this), settings)
        return ANYONE
    if not settings.has_keys:
        return Caller(tenant_key=tenants.of_stranger(this, settings))
    token = _bearer_token(this)
    if token is None:
        raise Unauthorized
    caller = _holder(token, settings)
    if caller is None or (group is Group.ADMIN and caller.tenant_id is not None):
        raise Unauthorized
    return caller


def _bearer_token(this: Call) -> bytes | None:
    scheme, _, token = (this.header("authorization") or "").strip(" \t").partition(" ")
    token = token.strip(" \t")
    return token.encode("latin-1") if scheme.lower() == _SCHEME and token else None


def _holder(token: bytes, settings: Settings) -> Caller | None:
    """Who has this key. Every key is compared, each in constant time, so that the time taken tells nothing."""
    holder: Caller | None = None
    if settings.api_key is not None and keys.same(settings.api_key, token):
        holder = Caller(tenant_key=tenants.of_shared_key(settings.api_key))
    for tenant in settings.tenant_api_keys:
        if keys.same(tenant.key, token):
            holder = Caller(tenant.tenant_id, tenants.of_tenant(tenant.tenant_id))
    return holder
