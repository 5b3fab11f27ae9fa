"""Vices of control-plane credentials: who may administrate, and what becomes of serving meanwhile."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import refusing
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.call import Call

IDENTIFY = "reference_server.pipeline:identify"
AUTHORIZE = "reference_server.identity.control_plane:authorize"
HOLDER = "reference_server.identity.control_plane:_holder"
ADD = "reference_server.routes.workers_api:WorkersRoutes.add"
PREFIX = "auth.control_plane"


def _clauses(*words: str) -> tuple[str, ...]:
    return tuple(f"{PREFIX}.{word}" for word in words)


def _lets_in(when: Callable[[Call, bytes | None, Any], bool]) -> Vice:
    """Who passes the test may administrate."""
    return swap(AUTHORIZE, lambda original, this, token, settings: None if when(this, token, settings) else original(this, token, settings))  # fmt: skip


def _role(role: str) -> Vice:
    """Every credential has this role."""
    return swap(HOLDER, lambda original, token, settings: (found := original(token, settings)) and dataclasses.replace(found, role=role))  # fmt: skip


def _known(edit: Callable[[bytes, Any], Any]) -> Vice:
    """Another way to look for the holder of a key, where the right one finds nobody."""
    return swap(HOLDER, lambda original, token, settings: original(token, settings) or edit(token, settings))


add(
    "lets_every_role_administrate",
    "The role of a credential is not looked at.",
    _clauses("other_role_*", "refused_changes_nothing"),
    _role("admin"),
)
add("lets_no_role_administrate", "Nobody has the admin role.", _clauses("admin_role_opens"), _role("user"))
add("lets_the_uncredentialed_administrate", "An admin request without a credential is let in.", _clauses("missing_refused", "refused_before_body", "admin_closed_without_keys"),
    _lets_in(lambda _this, token, _s: token is None))  # fmt: skip
add("knows_every_credential", "Any control-plane credential is known.", _clauses("unknown_refused", "exact_key", "shared_key_refused", "tenant_key_refused"),
    _known(lambda _token, s: s.control_plane_keys[0]))  # fmt: skip
add("compares_beginnings_of_credentials", "A credential is known by its beginning, in any case.", _clauses("exact_key"),
    _known(lambda token, s: next((k for k in s.control_plane_keys if k.key.encode().startswith(token.lower()) or token.startswith(k.key.encode())), None)))  # fmt: skip
add("takes_ids_for_credentials", "The id of a credential is taken for its key.", _clauses("exact_key"),
    _known(lambda token, s: next((k for k in s.control_plane_keys if token.partition(b":")[0] == k.key_id.encode()), None)))  # fmt: skip
add("lets_the_shared_key_administrate", "The shared key stays good for admin routes.", _clauses("shared_key_refused", "refused_changes_nothing"),
    _lets_in(lambda _this, token, s: s.api_key is not None and token == s.api_key.encode()))  # fmt: skip
add("lets_tenants_administrate_beside_credentials", "A tenant's key is good for admin routes.", _clauses("tenant_key_refused"),
    _lets_in(lambda _this, token, s: token in {t.key.encode() for t in s.tenant_api_keys}))  # fmt: skip
add("opens_admin_routes_of_open_gateways", "Credentials count only where API keys are configured.", _clauses("admin_closed_without_keys"),
    _lets_in(lambda _this, _token, s: not s.has_keys))  # fmt: skip


async def _adds_first(original: Any, self: Any, this: Call) -> Any:
    """The worker is added, and then the caller is asked who it is."""
    from reference_server.workers import admin  # noqa: PLC0415 - the list of mutants needs no server

    admin.add_worker(self._fleet, this.header("content-type"), await this.body.read())
    return await original(self, this)


async def _reads_first(original: Any, self: Any, this: Call) -> Any:
    """A body that is no JSON is told so to anybody."""
    from reference_server.errors import ParseRefusal  # noqa: PLC0415 - as above

    if not (await this.body.read()).rstrip().endswith(b"}"):
        raise ParseRefusal("no JSON")
    return await original(self, this)


add(
    "adds_before_it_asks",
    "What is refused is done all the same.",
    _clauses("refused_changes_nothing"),
    swap(ADD, _adds_first),
)
add(
    "reads_workers_before_it_asks",
    "The body of an admin request is judged before the credential.",
    _clauses("refused_before_body"),
    swap(ADD, _reads_first),
)


def _refusals(edit: Callable[[Any, Any], None]) -> Vice:
    """A change of the answers that refuse a credential."""
    return refusing(lambda refused, answer: edit(refused, answer) if type(refused).__name__ == "ControlPlaneRefusal" else None)  # type: ignore[func-returns-value]  # None keeps the answer  # fmt: skip


def _unchallenged(_refused: Any, answer: Any) -> None:
    answer.headers = [pair for pair in answer.headers if pair[0] != "www-authenticate"]


def _unknown_roles(refused: Any, answer: Any) -> None:
    answer.status = 401 if refused.status == 403 else answer.status


add(
    "challenges_nobody",
    "The 401 of an admin route has no WWW-Authenticate.",
    _clauses("challenge"),
    _refusals(_unchallenged),
)
add(
    "takes_other_roles_for_strangers",
    "Another role is refused with 401.",
    _clauses("other_role_forbidden"),
    _refusals(_unknown_roles),
)


def _repeated(original: Any, this: Call, token: bytes | None, settings: Any) -> None:
    from reference_server.errors import ControlPlaneRefusal  # noqa: PLC0415 - as above

    try:
        original(this, token, settings)
    except ControlPlaneRefusal as refused:
        raise ControlPlaneRefusal(refused.status, f"{refused}: {(token or b'').decode()}", refused.headers) from None


add(
    "repeats_credentials",
    "The refusal repeats what was sent.",
    _clauses("key_not_repeated"),
    swap(AUTHORIZE, _repeated),
)


def _serving(edit: Callable[[Callable[[], Any], Call, Any], Any]) -> Vice:
    """Another judgement of who may be served, where control-plane credentials are configured."""

    def identify(original: Any, this: Call, settings: Any, group: Any) -> Any:
        if group.value == "admin" or not settings.control_plane_keys:
            return original(this, settings, group)
        return edit(lambda: original(this, settings, group), this, group.value)

    return swap(IDENTIFY, identify)


def _refuse(code: str = "") -> Any:
    from reference_server.errors import GatewayError, Unauthorized  # noqa: PLC0415 - as above

    raise GatewayError(401, code, "no key for serving") if code else Unauthorized


def _credential(this: Call) -> bool:
    return (this.header("authorization") or "").endswith(("sk-conformance-admin", "sk-conformance-user"))


def _anyone() -> Any:
    from reference_server.stages.identify import ANYONE  # noqa: PLC0415 - as above

    return ANYONE


PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}
for _word, _path in PATHS.items():
    add(f"closes_{_word}_beside_credentials", f"With control-plane credentials {_path} takes no shared key.", _clauses(f"serving.{_word}_served"),
        _serving(lambda known, this, _group, path=_path: _refuse() if this.path == path else known()))  # type: ignore[misc]  # fmt: skip
add("opens_serving_beside_credentials", "With control-plane credentials serving asks for no key.", _clauses("serving_unchanged", "serving.credential_refused"),
    _serving(lambda _known, _this, _group: _anyone()))  # fmt: skip
add("serves_credentials", "A control-plane credential opens serving routes.", _clauses("serving.credential_refused"),
    _serving(lambda known, this, _group: _anyone() if _credential(this) else known()))  # fmt: skip
add("tells_credentials_from_keys", "A serving route explains that a credential is none of its keys.", _clauses("serving.refused_without_code"),
    _serving(lambda known, this, group: _refuse("control_plane_key") if group == "serving" and _credential(this) else known()))  # fmt: skip
add("closes_models_beside_credentials", "With control-plane credentials List Models asks for a key.", _clauses("models_public"),
    _serving(lambda known, this, group: _refuse() if group == "public" and this.header("authorization") is None else known()))  # fmt: skip


def _closed(original: Any, this: Call, settings: Any, group: Any) -> Any:
    closed = group.value == "serving" and settings.control_plane_keys and not settings.has_keys
    return _refuse() if closed else original(this, settings, group)


add(
    "closes_open_serving_beside_credentials",
    "Credentials alone close serving routes.",
    _clauses("serving.open_without_keys"),
    swap(IDENTIFY, _closed),
)
