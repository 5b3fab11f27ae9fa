"""Control-plane credentials: who may administrate, and a log of who did.

With `--control-plane-api-keys` the admin routes take these keys and no others, and only the role `admin` opens them:
so the contract, and so the older real gateway; the newer one lets the role `user` read. Refusals are plain text, as in
both. Every decision can be written to the log `reference_server.audit`, which never holds a key.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from reference_server.errors import ControlPlaneRefusal
from reference_server.identity import keys

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import ControlPlaneKey, Settings

AUDIT = logging.getLogger("reference_server.audit")
ADMIN = "admin"
_CHALLENGE = (("www-authenticate", 'Bearer realm="control-plane"'),)
_NOBODY = "unauthenticated"


def authorize(this: Call, token: bytes | None, settings: Settings) -> None:
    """Let an administrator pass.

    Raises:
        ControlPlaneRefusal: 401, no credential or an unknown one; 403, one without the admin role.
    """
    holder = None if token is None else _holder(token, settings)
    refusal = _refusal(token, holder)
    if settings.control_plane_audit:
        _write(this, holder, refusal)
    if refusal is not None:
        raise refusal


def _refusal(token: bytes | None, holder: ControlPlaneKey | None) -> ControlPlaneRefusal | None:
    if token is None:
        return ControlPlaneRefusal(401, "Missing or invalid Authorization header", _CHALLENGE)
    if holder is None:
        return ControlPlaneRefusal(401, "Invalid authentication token", _CHALLENGE)
    if holder.role != ADMIN:
        return ControlPlaneRefusal(403, "Admin role required for control plane access")
    return None


def _holder(token: bytes, settings: Settings) -> ControlPlaneKey | None:
    """Who has this key. Every key is compared, so that the time taken tells nothing."""
    found = None
    for candidate in settings.control_plane_keys:
        if keys.same(candidate.key, token):
            found = candidate
    return found


def _write(this: Call, holder: ControlPlaneKey | None, refusal: ControlPlaneRefusal | None) -> None:
    """One line a decision. Values are quoted as JSON: a path with a line break must not look like a second line."""
    fields = {
        "principal": holder.key_id if holder else _NOBODY,
        "name": holder.name if holder else None,
        "auth_method": "api_key" if holder else "none",
        "role": holder.role if holder else None,
        "method": this.method,
        "path": this.target,
        "outcome": "denied" if refusal else "success",
        "request_id": this.request_id.value,
        "details": refusal.message if refusal else None,
    }
    AUDIT.info(
        "control_plane_audit %s",
        " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items() if value is not None),
    )
