"""Vices of keys: who is let in, and who is kept out."""

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
TOKEN = "reference_server.stages.identify:_bearer_token"
HOLDER = "reference_server.stages.identify:_holder"


def _lets_in(when: Callable[[Call, Any, Any], bool]) -> Vice:
    """Who passes the test needs no key."""

    def identify(original: Any, this: Call, settings: Any, group: Any) -> Any:
        from reference_server.stages.identify import ANYONE  # noqa: PLC0415 - the list of mutants needs no server

        return ANYONE if when(this, settings, group) else original(this, settings, group)

    return swap(IDENTIFY, identify)


def _keeps_out(when: Callable[[Call, Any, Any], bool]) -> Vice:
    """Who passes the test is kept out, whatever key is sent."""

    def identify(original: Any, this: Call, settings: Any, group: Any) -> Any:
        from reference_server.errors import Unauthorized  # noqa: PLC0415 - as above

        if when(this, settings, group):
            raise Unauthorized
        return original(this, settings, group)

    return swap(IDENTIFY, identify)


def _token(edit: Callable[[bytes | None, Call], bytes | None]) -> Vice:
    return swap(TOKEN, lambda original, this: edit(original(this), this))


PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}
for _word, _path in PATHS.items():
    add(f"opens_{_word}", f"{_path} asks for no key.", (f"auth.missing.{_word}_refused", f"auth.unknown.{_word}_refused"),
        _lets_in(lambda this, _s, _g, path=_path: this.path == path))  # type: ignore[misc]  # fmt: skip
    add(f"closes_{_word}", f"{_path} lets nobody in.", (f"auth.shared.{_word}_served", f"auth.tenant.{_word}_served"),
        _keeps_out(lambda this, s, _g, path=_path: this.path == path and s.has_keys))  # type: ignore[misc]  # fmt: skip
add("closes_open_gateways", "Without a configured key a key is asked for.", ("auth.open.*",),
    _keeps_out(lambda _t, s, g: not s.has_keys and g.value != "public"))  # fmt: skip
add("refuses_keys_on_open_gateways", "Without a configured key any key is refused.", ("auth.open.any_key_served", "models.list.foreign_on_open_gateway"),
    _keeps_out(lambda this, s, _g: not s.has_keys and this.header("authorization") is not None))  # fmt: skip
add("opens_admin_routes", "Admin routes ask for no key.", ("auth.admin.*_refused", "auth.tenant.admin_*_refused", "auth.tenants_only.admin_*_refused", "auth.admin.empty_body"),
    _lets_in(lambda _t, _s, g: g.value == "admin"))  # fmt: skip
add("opens_admin_routes_without_shared_key", "With tenant keys alone the admin routes are open.", ("auth.tenants_only.admin_*_refused",),
    _lets_in(lambda _t, s, g: g.value == "admin" and s.api_key is None))  # fmt: skip
add(
    "closes_admin_routes",
    "Admin routes let nobody in.",
    ("auth.shared.admin_*", "auth.tenant.shared_key_opens_admin"),
    _keeps_out(lambda _t, s, g: g.value == "admin" and s.has_keys),
)
add("closes_public_routes", "Public routes ask for a key.", ("auth.public.*", "models.list.public", "health.public.*", "auth.tenant.models_public", "auth.tenants_only.models_public"),
    _keeps_out(lambda this, s, g: g.value == "public" and s.has_keys and this.header("authorization") is None))  # fmt: skip
add("judges_keys_of_public_routes", "Public routes refuse unknown keys.", ("models.list.foreign_bearer",),
    _keeps_out(lambda this, s, g: g.value == "public" and s.has_keys and (this.header("authorization") or "Bearer sk-conf").find("sk-conf") < 0))  # fmt: skip
add("refuses_known_keys_of_public_routes", "The list of models refuses credentials.", ("models.list.own_key", "models.list.foreign_x_api_key"),
    _keeps_out(lambda this, s, g: g.value == "public" and s.has_keys and bool(this.header("authorization") or this.header("x-api-key"))))  # fmt: skip


add("compares_beginnings", "A key is known by its beginning.", ("auth.key.prefix_refused", "auth.key.extension_refused"),
    _token(lambda token, _: b"sk-conformance-shared" if token and (token.startswith(b"sk-conf") or b"sk-conformance-shared".startswith(token)) else token))  # fmt: skip
add(
    "compares_in_any_case",
    "Keys are known in any case.",
    ("auth.key.case_matters",),
    _token(lambda token, _: token.lower() if token else token),
)
add("takes_lists_of_keys", "One of several keys is enough.", ("auth.key.list_refused",),
    _token(lambda token, _: next((t.strip() for t in token.replace(b",", b" ").split() if t.startswith(b"sk-conf")), token) if token else token))  # fmt: skip
add("takes_the_last_header", "The last authorization header counts.", ("auth.key.second_header_ignored",),
    _token(lambda token, this: next((v.partition(" ")[2].encode() for k, v in reversed(list(this.headers)) if k == "authorization"), token)))  # fmt: skip
for _word, _header in {"x_api_key": "x-api-key", "x_goog_api_key": "x-goog-api-key"}.items():
    add(f"takes_{_word}", f"{_header} is taken for a key.", (f"auth.key.{_word}_refused",),
        _token(lambda token, this, header=_header: token or (this.header(header) or "").encode() or None))  # type: ignore[misc]  # fmt: skip
add("takes_keys_of_queries", "A key in the query is taken.", ("auth.key.query_refused",),
    _token(lambda token, this: token or (b"sk-conformance-shared" if "sk-conformance-shared" in this.query else None)))  # fmt: skip
add("takes_any_scheme", "The scheme is not looked at.", ("auth.scheme.basic_refused", "auth.scheme.other_scheme_refused", "auth.scheme.bare_key_refused"),
    _token(lambda token, this: token or (this.header("authorization") or "").strip().rpartition(" ")[2].encode() or None))  # fmt: skip
add("takes_empty_tokens", "Bearer without a key is let in.", ("auth.scheme.empty_token_refused",),
    _token(lambda token, this: token or (b"sk-conformance-shared" if (this.header("authorization") or "").strip().lower() == "bearer" else None)))  # fmt: skip
add("compares_schemes_exactly", "The scheme must be Bearer, in this case.", ("auth.scheme.case_insensitive",),
    _token(lambda token, this: token if (this.header("authorization") or "").startswith("Bearer ") else None))  # fmt: skip


def _holder(edit: Callable[[Any, bytes, Any], Any]) -> Vice:
    return swap(HOLDER, lambda original, token, settings: edit(lambda t: original(t, settings), token, settings))


add("knows_the_first_tenant", "Only the first tenant's key is known.", ("auth.tenant.each_key_served", "auth.tenant.key_may_hold_colons"),
    Vice(settings=lambda s: dataclasses.replace(s, tenant_api_keys=s.tenant_api_keys[:1])))  # fmt: skip
add("forgets_the_shared_key", "With tenant keys the shared key is unknown.", ("auth.tenant.shared_key_still_served", "auth.tenant.shared_key_opens_admin"),
    _holder(lambda known, token, s: None if s.tenant_api_keys and s.api_key and token == s.api_key.encode() else known(token)))  # fmt: skip
add("takes_tenants_for_keys", "A tenant's name is taken for its key.", ("auth.tenant.id_is_no_key",),
    _holder(lambda known, token, s: known(next((t.key.encode() for t in s.tenant_api_keys if t.tenant_id.encode() == token), token))))  # fmt: skip
add(
    "cuts_keys_at_colons",
    "Keys end at a colon.",
    ("auth.tenant.key_may_hold_colons",),
    _holder(lambda known, token, _s: known(token.partition(b":")[0])),
)
add("lets_tenants_administrate", "A tenant's key opens the admin routes.", ("auth.tenant.admin_*_refused", "auth.tenants_only.admin_with_tenant_key_refused"),
    _holder(lambda known, token, _s: known(token) and dataclasses.replace(known(token), tenant_id=None)))  # fmt: skip
add("knows_every_key", "Any key is let in.", ("auth.unknown.*_refused", "auth.tenant.unknown_key_refused", "auth.tenants_only.unknown_key_refused", "auth.admin.unknown_key_refused"),
    _holder(lambda known, token, s: known(token) or known((s.api_key or s.tenant_api_keys[0].key).encode())))  # fmt: skip
add("lets_the_keyless_in", "A request without credentials is let in.", ("auth.missing.*_refused", "auth.tenant.missing_key_refused", "auth.tenants_only.missing_key_refused",
    "auth.missing.before_body"), _lets_in(lambda this, _s, g: g.value == "serving" and this.header("authorization") is None))  # fmt: skip
add("knows_no_tenants", "Tenants' keys are unknown.", ("auth.tenant.chat_served", "auth.tenant.each_key_served", "auth.tenants_only.serving_served"),
    _holder(lambda known, token, s: known(token) if s.api_key and token == s.api_key.encode() else None))  # fmt: skip


def _explained(refused: Any, answer: Any) -> None:
    if type(refused).__name__ == "Unauthorized":
        answer.body = b'{"error":{"message":"no key"}}'


def _forbidden(refused: Any, answer: Any) -> None:
    if type(refused).__name__ == "Unauthorized":
        answer.status = 403


add("explains_refused_keys", "A 401 has a body.", ("auth.missing.empty_body", "auth.unknown.empty_body", "auth.admin.empty_body", "auth.tenant.empty_body", "auth.tenant.admin_empty_body"),
    refusing(_explained))  # fmt: skip
add(
    "forbids",
    "Without a key the status is 403.",
    ("auth.missing.*_refused", "auth.unknown.*_refused", "codes.unauthorized"),
    refusing(_forbidden),
)


async def _serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
    """Keys are looked at after the body."""
    from reference_server import pipeline  # noqa: PLC0415 - as above

    await pipeline.parse(this, endpoint)
    return await original(this, endpoint, state)


add(
    "parses_before_it_asks",
    "The body is judged before the key.",
    ("auth.missing.before_body",),
    swap("reference_server.pipeline:serve", _serve),
)
