"""Vices of headers in both directions, and of request ids."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import outgoing, to_client, to_worker, wire
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from reference_server.call import Call

IDS = "reference_server.request_ids"
ALLOWED = (
    "authorization",
    "anthropic-version",
    "anthropic-beta",
    "x-request-id",
    "x-correlation-id",
    "traceparent",
    "tracestate",
    "x-smg-routing-key",
)
WITHHELD: dict[str, tuple[str, ...]] = {
    "x_api_key": ("x-api-key",), "x_goog_api_key": ("x-goog-api-key",), "x_trace_id": ("x-trace-id",), "request_id": ("request-id",),
    "x_smg_routing_tokens": ("x-smg-routing-tokens",), "x_smg_target_worker": ("x-smg-target-worker",), "x_smg_priority": ("x-smg-priority",),
    "x_smg_tenant_id": ("x-smg-tenant-id",), "x_smg_mcp": ("x-smg-mcp",), "cookie": ("cookie",), "user_agent": ("user-agent",), "accept": ("accept",),
    "accept_encoding": ("accept-encoding",), "accept_language": ("accept-language",), "content_language": ("content-language",),
    "referer": ("referer",), "origin": ("origin",), "x_forwarded": ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"),
    "forwarded_rfc7239": ("forwarded",), "via": ("via",), "openai_organization": ("openai-organization",), "openai_project": ("openai-project",),
    "openai_beta": ("openai-beta",), "x_stainless": ("x-stainless-",), "idempotency_key": ("idempotency-key",), "baggage": ("baggage",),
    "b3": ("b3", "x-b3-"), "x_session_id": ("x-session-id",), "proxy_authorization": ("proxy-authorization",),
    "hop_by_hop": ("te", "keep-alive", "upgrade", "proxy-connection", "trailer"), "near_prefix": ("x-request-i", "x-request-"), "x_smg_other": ("x-smg-",),
    "host": ("host",),
}  # fmt: skip
PASSED: dict[str, str] = {"retry-after": "retry_after", "cache-control": "cache_control", "etag": "etag", "set-cookie": "set_cookie",
                          "www-authenticate": "www_authenticate", "content-encoding": "content_encoding"}  # fmt: skip


def _without(name: str) -> Any:
    return lambda headers, _: [pair for pair in headers if pair[0].lower() != name]


for _name in ALLOWED:
    add(f"withholds_{_name.replace('-', '_')}", f"{_name} never reaches a worker.", (f"request_headers.allowed.{_name.replace('-', '_')}", *(["request_id.custom.allow_list_unchanged"] if _name == "x-request-id" else [])),
        to_worker(_without(_name)))  # fmt: skip
add("withholds_x_request_id_names", "Headers whose names begin with x-request-id- never reach a worker.", ("request_headers.allowed.x_request_id_prefix",),
    to_worker(lambda headers, _: [pair for pair in headers if not pair[0].startswith("x-request-id-")]))  # fmt: skip
for _word, _names in WITHHELD.items():
    add(f"forwards_{_word}", f"{', '.join(_names)} reach(es) a worker.", (f"request_headers.withheld.{_word}",),
        to_worker(lambda headers, client, names=_names: headers + [  # type: ignore[misc]  # bound early
            pair for pair in client if (pair[0] in names or pair[0].startswith(tuple(n for n in names if n.endswith("-"))))
            and pair[0] not in {known for known, _ in headers}
        ]))  # fmt: skip
add("forwards_any_header", "Every header reaches a worker.", ("request_headers.withheld.any_other", "request_headers.withheld.completions",
    "request_headers.withheld.embeddings", "request_headers.withheld.streaming"),
    to_worker(lambda headers, client: headers + [p for p in client if p[0] not in {"host", "content-length", "transfer-encoding", "content-type",
              "connection", *(n for n, _ in headers)}]))  # fmt: skip
add("withholds_headers", "No header of a client reaches a worker.", ("request_headers.allowed.completions", "request_headers.allowed.embeddings",
    "request_headers.allowed.streaming", "request_headers.allowed.any_case", "request_headers.authorization.gateway_key_passed_on",
    "request_headers.authorization.tenant_key_passed_on", "request_headers.authorization.any_scheme"),
    to_worker(lambda headers, _: headers[:1]))  # fmt: skip
add("trims_header_values", "Header values lose what is inside blanks and quotes.", ("request_headers.allowed.value_verbatim",),
    to_worker(lambda headers, _: [(k, v.split(",")[0].strip('"').lower()) for k, v in headers]))  # fmt: skip
add("invents_headers", "A worker gets ids and keys that no client sent.", ("request_headers.allowed.none_invented", "request_headers.authorization.none_invented"),
    to_worker(lambda headers, _: headers + [(n, "invented") for n in ALLOWED if n not in {k for k, _ in headers}]))  # fmt: skip
add("doubles_authorization", "authorization is sent twice.", ("request_headers.authorization.once",),
    to_worker(lambda headers, _: headers + [p for p in headers if p[0] == "authorization"]))  # fmt: skip
add("forwards_bearer_tokens_only", "authorization with another scheme is withheld.", ("request_headers.authorization.any_scheme",),
    to_worker(lambda headers, _: [p for p in headers if p[0] != "authorization" or p[1].startswith("Bearer ")]))  # fmt: skip
add("forwards_provider_keys", "x-api-key becomes the worker's authorization.", ("request_headers.provider_keys.chat_uses_authorization",),
    to_worker(lambda headers, client: [(k, f"Bearer {dict(client)['x-api-key']}" if k == "authorization" and "x-api-key" in dict(client) else v)
              for k, v in headers]))  # fmt: skip
for _name, _word in PASSED.items():
    add(
        f"drops_{_word}_of_workers",
        f"{_name} of a worker is dropped.",
        (f"response_headers.passed.{_word}",),
        to_client(_without(_name)),
    )
add("drops_custom_headers_of_workers", "Headers of a worker that begin with x- are dropped.",
    ("response_headers.passed.custom", "response_headers.passed.rate_limit", "response_headers.passed.streaming", "response_headers.passed.on_error"),
    to_client(lambda headers, _: [p for p in headers if not p[0].startswith("x-") or p[0].startswith("x-smg")]))  # fmt: skip
add("joins_repeated_headers", "Repeated headers of a worker become one.", ("response_headers.passed.repeated",),
    to_client(lambda headers, _: list(dict(headers).items())))  # fmt: skip
for _name, _word in {
    "keep-alive": "keep_alive",
    "proxy-authenticate": "proxy_authenticate",
    "upgrade": "upgrade",
}.items():
    add(
        f"passes_{_word}_on",
        f"{_name} of a worker reaches the client.",
        (f"response_headers.hop.{_word}",),
        to_client(
            lambda headers, worker, name=_name: headers + [(k.lower(), v) for k, v in worker if k.lower() == name]
        ),
    )  # type: ignore[misc]  # bound early
add("passes_connection_named_headers_on", "Headers that the worker's connection header names reach the client.", ("response_headers.hop.named_by_connection",),
    to_client(lambda headers, worker: headers + [(k.lower(), v) for k, v in worker if k.lower() not in {n for n, _ in headers}
              | {"connection", "transfer-encoding", "content-length", "keep-alive", "upgrade", "proxy-authenticate", "te", "x-request-id", "x-smg-error-code"}]))  # fmt: skip
add("passes_error_codes_on", "A worker's x-smg-error-code reaches the client.",
    ("errors.worker.code_header_dropped", "errors.worker.code_header_dropped_streaming", "response_headers.error_code.worker_copy_dropped*",
     "response_headers.error_code.any_case_dropped"),
    to_client(lambda headers, worker: headers + [(k.lower(), v) for k, v in worker if k.lower() == "x-smg-error-code"]))  # fmt: skip
add("passes_request_ids_on", "A worker's x-request-id reaches the client beside the gateway's.", ("response_headers.request_id.worker_copy_replaced", "response_headers.request_id.once"),
    to_client(lambda headers, worker: headers + [(k.lower(), v) for k, v in worker if k.lower() == "x-request-id"]))  # fmt: skip
add("passes_routed_worker_on", "A worker's own x-smg-routed-worker-id wins.", ("response_headers.routed_worker.worker_copy_replaced",),
    to_client(lambda headers, worker: [(k, {n.lower(): v for n, v in worker}.get(k, v) if k == "x-smg-routed-worker-id" else v) for k, v in headers]))  # fmt: skip
add("names_no_worker", "The worker that served is not named.", ("response_headers.routed_worker.chat", "response_headers.routed_worker.completions",
    "response_headers.routed_worker.embeddings", "response_headers.routed_worker.streaming", "response_headers.routed_worker.alias",
    "response_headers.routed_worker.worker_*_error"), to_client(_without("x-smg-routed-worker-id")))  # fmt: skip
add("names_another_worker", "Another worker is named than the one that served.", ("response_headers.routed_worker.chat", "response_headers.routed_worker.the_serving_one"),
    to_client(lambda headers, _: [(k, "http://127.0.0.1:1" if k == "x-smg-routed-worker-id" else v) for k, v in headers]))  # fmt: skip
add("names_the_worker_twice", "The worker that served is named twice.", ("response_headers.routed_worker.once",),
    to_client(lambda headers, _: headers + headers[-1:]))  # fmt: skip


def _wire(name: bytes, value: bytes, when: Any) -> Any:
    return wire(lambda this, answer, headers: [*headers, (name, value)] if when(this, answer) else headers)


add("names_a_worker_always", "Every answer names a worker.", ("response_headers.routed_worker.not_on_*",),
    _wire(b"x-smg-routed-worker-id", b"http://127.0.0.1:1", lambda _, answer: "x-smg-routed-worker-id" not in dict(answer.headers)))  # fmt: skip
add("gives_every_answer_a_code", "Every answer has an x-smg-error-code.", ("response_headers.error_code.not_on_success", "errors.parse.no_code_header",
    "errors.validation.no_code_header", "errors.worker.no_code_header_added", "auth.missing.no_error_code"),
    _wire(b"x-smg-error-code", b"none", lambda _, answer: "x-smg-error-code" not in dict(answer.headers)))  # fmt: skip
add(
    "invites_to_retry",
    "Every answer has a Retry-After.",
    ("response_headers.retry_after.not_on_*",),
    _wire(b"retry-after", b"1", lambda *_: True),
)
add(
    "tells_rate_limits",
    "Every answer tells rate limits.",
    ("rate_limiting.no_x_ratelimit.*",),
    _wire(b"x-ratelimit-limit-requests", b"100", lambda *_: True),
)
add(
    "claims_preemption",
    "Every answer claims to be preempted.",
    ("response_headers.preempted.not_otherwise",),
    _wire(b"x-smg-preempted", b"true", lambda *_: True),
)
add("sends_no_request_id", "Answers have no x-request-id.", ("response_headers.request_id.*", "request_id.generated"),
    wire(lambda _t, _a, headers: [p for p in headers if p[0] != b"x-request-id"]))  # fmt: skip
add(
    "sends_request_ids_twice",
    "Answers have x-request-id twice.",
    ("response_headers.request_id.once",),
    _wire(b"x-request-id", b"another", lambda *_: True),
)
add("sends_a_request_id_of_its_own", "Answers have an id that nobody else knows.", ("response_headers.request_id.received", "response_headers.request_id.received_streaming",
    "response_headers.request_id.received_on_error", "response_headers.request_id.same_at_worker"),
    wire(lambda _t, _a, headers: [(k, b"own-id" if k == b"x-request-id" else v) for k, v in headers]))  # fmt: skip


def _choose(edit: Any) -> Vice:
    return swap(f"{IDS}:choose", edit)


for _name in ("x-request-id", "x-correlation-id", "x-trace-id", "request-id"):
    add(
        f"overlooks_{_name.replace('-', '_')}",
        f"{_name} is no source of request ids.",
        (f"request_id.{_name.replace('-', '_')}",),
        _choose(
            lambda original, headers, names, path, name=_name: original(headers, [n for n in names if n != name], path)
        ),
    )  # type: ignore[misc]  # bound early
add("reads_ids_backwards", "The last of the id headers counts.", ("request_id.order.*", "request_id.custom.order"),
    _choose(lambda original, headers, names, path: original(headers, list(reversed(names)), path)))  # fmt: skip
add("takes_the_first_line", "The first line with an id counts.", ("request_id.order.not_line_order",),
    _choose(lambda original, headers, names, path: original([p for p in headers if p[0] in names][:1], names, path)))  # fmt: skip
add("knows_default_ids_only", "The configured id headers are not looked at.", ("request_id.custom.*",),
    _choose(lambda original, headers, _names, path: original(headers, ("x-request-id", "x-correlation-id", "x-trace-id", "request-id"), path)))  # fmt: skip
add("takes_any_id", "Ids are taken as they are.", ("request_id.malformed.*_replaced",), _choose(lambda original, headers, names, path: next(
    (_plain(v) for n in names for k, v in headers if k == n), original([], names, path))))  # fmt: skip
add("takes_short_ids", "Ids of more than 64 characters are replaced.", ("request_id.malformed.longest_kept",), _choose(
    lambda original, headers, names, path: original([(k, v if len(v) < 65 else "") for k, v in headers], names, path)))  # fmt: skip
add("tells_workers_bad_ids", "A worker gets the id that was replaced.", ("request_id.malformed.worker_gets_replacement",), _choose(
    lambda original, *rest: dataclasses.replace(original(*rest), replaces=None)))  # fmt: skip
add(
    "generates_one_id",
    "Every generated id is the same.",
    ("request_id.generated_unique",),
    swap(f"{IDS}:generate", lambda _o, _path: "req-same"),
)
add(
    "generates_odd_ids",
    "Generated ids have blanks.",
    ("request_id.generated_printable",),
    swap(f"{IDS}:generate", lambda original, path: original(path) + " ä"),
)
add("listens_to_other_headers", "x-amzn-trace-id and the like are taken for ids.", ("request_id.other_headers_ignored",), _choose(
    lambda original, headers, names, path: original(headers, (*names, *(k for k, _ in headers if "id" in k or "trace" in k)), path)))  # fmt: skip


def _plain(value: str) -> Any:
    from reference_server.request_ids import RequestId  # noqa: PLC0415 - the list of mutants needs no server

    return RequestId(value)


def _refuse_bad_id(original: Any, this: Call, settings: Any) -> None:
    from reference_server.errors import ValidationRefusal  # noqa: PLC0415 - as above

    if this.request_id.replaces:
        raise ValidationRefusal("the id is not usable")
    original(this, settings)


add("refuses_bad_ids", "A request with an unusable id is refused.", ("request_id.malformed.never_refused",),
    swap("reference_server.pipeline:refuse_announced_excess", _refuse_bad_id))  # fmt: skip


def _routes(edit: Any) -> Vice:
    return outgoing(lambda upstream, this, _request: edit(upstream, this))


add("routes_by_key", "A routing key picks another model's worker.", ("hints.key.valid_served",), _routes(
    lambda up, this: dataclasses.replace(up, model="none") if this.header("x-smg-routing-key") is not None else up))  # fmt: skip
add("routes_by_tokens", "Routing tokens are forwarded and change the model.", ("hints.tokens.never_forwarded", "hints.tokens.malformed_never_forwarded"), _routes(
    lambda up, this: dataclasses.replace(up, headers=[*up.headers, ("x-smg-routing-tokens", this.header("x-smg-routing-tokens") or "")])
    if this.header("x-smg-routing-tokens") is not None else up))  # fmt: skip
for _header, _word in {"x-smg-priority": "priority.ignored_without_scheduler", "x-smg-tenant-id": "tenant_id.ignored_without_trust",
                       "x-smg-mcp": "mcp.chat_unaffected", "x-smg-target-worker": "target_worker.other_policies_ignore"}.items():  # fmt: skip
    add(
        f"obeys_{_header.replace('-', '_')}",
        f"{_header} sends a request to no model.",
        (f"request_headers.{_word}",),
        _routes(
            lambda up, this, header=_header: (
                dataclasses.replace(up, model="none") if this.header(header) is not None else up
            )
        ),
    )  # type: ignore[misc]  # bound early


def _refuse_header(name: str, test: Any) -> Vice:
    """A request whose header passes the test is refused with 400."""
    from_errors = "reference_server.pipeline:refuse_announced_excess"

    def check(original: Any, this: Call, settings: Any) -> None:
        from reference_server.errors import ValidationRefusal  # noqa: PLC0415 - the list of mutants needs no server

        value = this.header(name)
        if value is not None and test(value):
            raise ValidationRefusal(f"{name} is not liked")
        original(this, settings)

    return swap(from_errors, check)


add("refuses_routing_tokens", "Routing tokens that are no token ids are refused.", ("hints.tokens.spaces", "hints.tokens.signs", "hints.tokens.empty_items",
    "hints.tokens.not_decimal", "hints.tokens.empty", "hints.tokens.not_text", "hints.tokens.over_largest_id", "hints.tokens.too_many_ids",
    "hints.tokens.too_many_bytes"), _refuse_header("x-smg-routing-tokens", lambda v: not all(p.isdecimal() and int(p) < 2**32 for p in v.split(",")) or len(v) > 2000))  # fmt: skip
add("refuses_all_routing_tokens", "Routing tokens are refused.", ("hints.tokens.valid_served", "hints.tokens.smallest_id", "hints.tokens.largest_id",
    "hints.tokens.most_ids", "hints.tokens.most_bytes", "hints.both_together", "hints.tokens.completions", "hints.tokens.embeddings", "hints.tokens.streaming"), _refuse_header("x-smg-routing-tokens", lambda _: True))  # fmt: skip
add("refuses_routing_keys", "Routing keys are refused.", ("hints.key.valid_served", "hints.key.longest", "hints.key.too_long", "hints.key.empty",
    "hints.key.utf8", "hints.key.not_utf8", "hints.key.opaque", "hints.key.completions", "hints.key.embeddings", "hints.key.streaming"), _refuse_header("x-smg-routing-key", lambda _: True))  # fmt: skip
