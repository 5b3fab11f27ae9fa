"""Vices on the wire, before the gateway's own parser or behind its answers, and of the connection's headers."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tests.mutants.edits import changes, refuses
from tests.mutants.hooks import answering, incoming, outgoing, to_client, to_worker, wire
from tests.mutants.vice import Front, Vice, add, both, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.call import Call

SETTINGS = "reference_server.settings:Settings"


def _towards(edit: Callable[[bytes], bytes]) -> Vice:
    return Vice(front=Front(to_gateway=edit))


def _back(edit: Callable[[bytes], bytes]) -> Vice:
    return Vice(front=Front(to_client=edit))


def _sub(pattern: bytes, replacement: bytes) -> Callable[[bytes], bytes]:
    found = re.compile(pattern)
    return lambda data: found.sub(replacement, data)


add("answers_200_to_all", "Every status becomes 200.",
    ("transport.length.*", "transport.garbage", "transport.raw.*.bad_*", "transport.raw.*.invalid*", "transport.raw.host.missing", "transport.raw.host.twice",
     "transport.raw.te.foreign_coding", "transport.raw.head.blank_before_colon"),
    _back(_sub(rb"\AHTTP/1\.([01]) [45]\d\d", rb"HTTP/1.\1 200")))  # fmt: skip
add("answers_400_to_all", "Every success becomes 400.",
    ("transport.keep_alive", "transport.second_request", "transport.close.*", "transport.raw.*.served", "transport.raw.chunk.many_small", "transport.raw.chunk.trailers_accepted",
     "transport.raw.pipelining.*", "request_headers.framing.*", "transport.raw.host.not_needed_in_1_0", "transport.raw.line.absolute_form"),
    _back(_sub(rb"\AHTTP/1\.([01]) 200", rb"HTTP/1.\1 400")))  # fmt: skip
add("knows_no_chunks", "Transfer-Encoding of requests is not looked at.",
    ("transport.framing.*", "transport.raw.te_cl.nothing_smuggled", "transport.raw.te_te.*", "transport.raw.chunk.*", "request_headers.framing.chunked_client"),
    _towards(_sub(rb"(?i)\r\ntransfer-encoding[^\r\n]*", b"\r\nX-Was: coding")))  # fmt: skip
add("prefers_lengths", "Of two framings the length counts.", ("transport.framing.*", "transport.raw.te_cl.nothing_smuggled", "transport.raw.cl_te.nothing_smuggled"),
    _towards(lambda d: re.sub(rb"(?i)\r\ntransfer-encoding[^\r\n]*", b"", d) if re.search(rb"(?i)\r\ncontent-length", d) else d))  # fmt: skip
add("forgives_lengths", "Lengths that are none are mended.", ("transport.length.malformed", "transport.length.conflicting", "transport.raw.length.*"),
    _towards(lambda d: _mend_length(d)))  # noqa: PLW0108 - defined below  # fmt: skip


def _mend_length(data: bytes) -> bytes:
    """One length that fits what has arrived, whatever was said."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    if not blank or not re.search(rb"(?i)\r\ncontent-length", head):
        return data
    head = re.sub(rb"(?i)\r\ncontent-length[^\r\n]*", b"", head)
    return head + b"\r\nContent-Length: " + str(len(rest)).encode() + b"\r\n\r\n" + rest


for _name, _about, _clauses, _pattern, _to in (
    ("forgives_methods", "Methods are taken in any case.", ("line.method_case",), rb"(?i)\A(post) ", b"POST "),
    ("forgives_odd_methods", "Methods that nobody knows are taken for POST.", ("line.invalid_method",), rb"\A(?!GET |POST |PUT |DELETE |PATCH |HEAD |OPTIONS )\S+ ", b"POST "),
    ("forgives_versions", "Every version is taken for 1.1.", ("line.bad_version",), rb"\A(\S+ \S+ )[^\r\n]*", rb"\1HTTP/1.1"),
    ("forgives_hosts", "Hosts that are none are taken.", ("host.invalid",), rb"(?i)\r\nhost:[^\r\n]*", b"\r\nHost: gateway"),
    ("forgives_missing_hosts", "A missing Host is taken.", ("host.missing",), rb"(?im)\A(\S+ \S+ HTTP/1\.1)\r\n(?!(?s:.)*^host:)", rb"\1\r\nHost: gateway\r\n"),
    ("wants_a_host_of_all", "Requests in HTTP/1.0 need a Host.", ("host.not_needed_in_1_0",), rb"\A(\S+ \S+) HTTP/1\.0\r\n(?!(?s:.)*host:)", rb"\1 HTTP/9.0\r\n"),
    ("forgives_blanks_before_colons", "A blank between name and colon is taken.", ("head.blank_before_colon",), rb"\r\n([\w-]+)[ \t]+:", rb"\r\n\1:"),
    ("forgives_odd_names", "Characters that names must not have are dropped.", ("head.invalid_name",), rb"\r\n([\w-]+)[^\w:\r\n-]+([\w-]*:)", rb"\r\n\1\2"),
    ("takes_targets_of_any_form", "Blanks in targets are dropped.", ("line.invalid_target",), rb"\A(\S+) (?!/|http)\S*", rb"\1 /v1/chat/completions"),
    ("forgives_codings", "Every coding is taken for chunked.", ("te.foreign_coding",), rb"(?i)\r\ntransfer-encoding:[^\r\n]*", b"\r\nTransfer-Encoding: chunked"),
    ("unfolds_into_fields", "A folded line becomes a field of its own.", ("head.folded",), rb"\r\n[ \t]+(\w)", rb"\r\n\1"),
    ("ends_lines_at_carriage_returns", "A bare carriage return ends a line.", ("head.bare_carriage_return",), rb"\r(?!\n)", b"\r\n"),
    ("speaks_1_1_to_all", "HTTP/1.0 is taken for 1.1.", ("http_1_0.keep_alive", "expect.http_1_0", "te.http_1_0"), rb"\A(\S+ \S+) HTTP/1\.0", rb"\1 HTTP/1.1"),
    ("refuses_bytes_beyond_ascii", "Bytes beyond ASCII in a head are refused.", ("head.bytes_beyond_ascii",), rb"(\r\n[\w-]+: [^\r\n]*)[\x80-\xff]", b"\\1\x00"),
):  # fmt: skip
    add(_name, _about, tuple(f"transport.raw.{word}" for word in _clauses), _towards(_sub(_pattern, _to)))
add(
    "keeps_old_connections_open",
    "Connection: close is not looked at.",
    ("transport.close.asked_for",),
    _towards(_sub(rb"(?i)connection: close", b"Connection: keep-alive")),
)
add("closes_every_connection", "The connection is closed after every answer.", ("transport.keep_alive", "transport.second_request"),
    wire(lambda _t, _a, headers: [*headers, (b"connection", b"close")]))  # fmt: skip
add(
    "spells_ids_in_lower_case_only",
    "Names of id headers are known in lower case only.",
    ("request_id.any_case",),
    _towards(_sub(rb"\r\n[A-Z][\w-]*-I[Dd]:", b"\r\nX-Ignored:")),
)
add(
    "knows_authorization_in_one_case",
    "authorization is known in one case only.",
    ("auth.header_name.case_insensitive",),
    _towards(_sub(rb"\r\n(?!Authorization|authorization)[Aa][Uu][Tt][Hh]\w*:", b"\r\nX-Ignored:")),
)


def _path(edit: Callable[[str], str]) -> Any:
    """A change of the path before it is routed."""

    def change(this: Call) -> None:
        this.path = edit(this.path)

    return incoming(change)


def _routed(edit: Callable[[str], str]) -> Vice:
    def create(original: Any, self: Any, send: Any) -> Any:
        self.scope["path"] = edit(self.scope["path"])
        return original(self, send)

    return swap("reference_server.connection:GatewayConnection._create_request_from_scope", create)


add(
    "forgives_paths",
    "Doubled slashes, trailing slashes and capitals in paths are mended.",
    ("routes.path.exact",),
    _routed(lambda p: re.sub(r"/+", "/", p.lower()).rstrip("/")),
)


def _open_spellings(original: Any, this: Call, settings: Any, group: Any) -> Any:
    from reference_server.stages.identify import ANYONE  # noqa: PLC0415 - the list of mutants needs no server

    plain = this.target.partition("?")[0] in {"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}
    return original(this, settings, group) if plain or group.value != "serving" else ANYONE


add("guards_exact_paths_only", "Other spellings of a path are served without a key.", ("auth.missing.path_variants_never_served",),
    Vice({**_routed(lambda p: re.sub(r"/+", "/", p.lower()).rstrip("/")).swaps, "reference_server.pipeline:identify": _open_spellings}))  # fmt: skip
add(
    "serves_no_queries",
    "A query on a serving path is refused.",
    ("routes.path.query_ignored",),
    swap("reference_server.pipeline:refuse_announced_excess", lambda o, this, s: _no_query(o, this, s)),  # noqa: PLW0108 - defined below
)


def _no_query(original: Any, this: Call, settings: Any) -> None:
    from reference_server.errors import ValidationRefusal  # noqa: PLC0415 - as above

    if this.query:
        raise ValidationRefusal("no queries")
    original(this, settings)


def _canonical(edit: Callable[[Callable[[str], str], str], str]) -> Vice:
    return swap(f"{SETTINGS}.canonical_model", lambda original, self, model: edit(lambda m: original(self, m), model))


add(
    "knows_no_aliases",
    "Aliases are unknown models.",
    ("chat.model.alias_accepted", "models.list.alias_accepted"),
    _canonical(lambda _known, model: model),
)
add(
    "knows_aliases_in_any_case",
    "Aliases are known in any case.",
    ("chat.model.alias_exact",),
    _canonical(lambda known, model: known(model.strip().lower())),
)
changes("keeps_the_alias", "An alias reaches the worker.", ("chat.model.alias_resolved", "chat.model.alias_resolved_in_stream", "chat.model.canonical_sent"),
        lambda b: b.update(model="conformance-alias"), "chat")  # fmt: skip
add("routes_all_to_one_worker", "Every model is served by the first worker.", ("chat.model.selects_worker", "codes.no_available_workers.other_models_served"), outgoing(
    lambda up, _this, _request: dataclasses.replace(up, model="conformance-sglang")))  # fmt: skip


def _touched(up: Any, this: Any, request: Any) -> Any:
    if request.model == up.model:
        return up
    return dataclasses.replace(
        up, body=re.sub(rb'"temperature": ?[\d.]+,? ?', b"", up.body).replace(b'"user"', b'"usr"').replace(b"x_", b"y_")
    )


add(
    "loses_fields_with_aliases",
    "A request with an alias loses other fields.",
    ("chat.model.alias_rest_untouched",),
    outgoing(_touched),
)
add("sends_json_as_text", "The worker gets the body as plain text.", ("request_headers.content_type.worker_gets_json",),
    to_worker(lambda headers, _: [(k, "text/plain" if k == "content-type" else v) for k, v in headers]))  # fmt: skip
add("drops_parameters_of_types", "Parameters of a worker's content type are dropped.", ("response_headers.passed.content_type",),
    to_client(lambda headers, _: [(k, v.partition(";")[0] if k == "content-type" else v) for k, v in headers]))  # fmt: skip
add("takes_tenants_for_credentials", "X-SMG-Tenant-ID stands in for a key.", ("request_headers.tenant_id.no_credential",), swap(
    "reference_server.stages.identify:_bearer_token", lambda original, this: original(this) or (b"sk-conformance-shared" if this.header("x-smg-tenant-id") else None)))  # fmt: skip
refuses(
    "refuses_the_example",
    "max_tokens beside temperature is refused.",
    ("chat.endpoint.example_accepted",),
    lambda b: "max_tokens" in b and "temperature" in b,
    "chat",
)
add(
    "reads_one_line_only",
    "A body in several lines is refused.",
    ("chat.body.pretty_printed_accepted",),
    swap("reference_server.lossless:read", lambda original, raw: original(raw.partition(b"\n")[0])),
)
add(
    "wants_the_model_first",
    "The model must come first.",
    ("chat.body.member_order_free",),
    swap(
        "reference_server.lossless:read",
        lambda original, raw: original(raw if raw.lstrip().startswith(b'{"model') else b""),
    ),
)
add(
    "mixes_streams",
    "Every answer gets what another was sent.",
    ("chat.stream.relay.own_events",),
    answering(lambda a, t, r: _mixed(a)),  # noqa: ARG005 - the original's arguments
    alone=True,
)
_LAST: dict[str, bytes] = {}


def _mixed(answer: Any) -> None:
    if isinstance(answer.body, bytes):
        return
    source = answer.body

    async def pieces() -> Any:
        async for piece in source:
            yield piece + _LAST.get("piece", b"")
            _LAST["piece"] = piece if b"data: {" in piece else b""

    answer.body = pieces()


def _no_get(original: Any, error: Any) -> Any:
    """A path that is known is answered whatever the method."""
    from reference_server.answers import json_answer  # noqa: PLC0415 - the list of mutants needs no server
    from reference_server.connection import RawResponse  # noqa: PLC0415 - as above

    async def found() -> Any:
        return RawResponse(json_answer(200, {})) if getattr(error, "code", 0) == 405 else await original(error)

    return found()


add(
    "takes_every_method",
    "A known path takes every method.",
    ("chat.endpoint.post_path", "routes.wrong_method.*"),
    swap("reference_server.app:_framework_refusal", _no_get),
)
add("names_two_framings", "The worker is told a length beside chunks.", ("request_headers.framing.one_framing",),
    to_worker(lambda headers, _: [*headers, ("transfer-encoding", "chunked")]))  # fmt: skip
add(
    "never_closes",
    "Connections are left open, whatever was asked.",
    ("transport.framing.both", "transport.close.*"),
    Vice(front=Front(held=True)),
)
add("frames_all_streams_in_chunks", "Streams to HTTP/1.0 are framed in chunks.", ("transport.close.http_1_0_stream",),
    _towards(_sub(rb"\A(\S+ \S+) HTTP/1\.0", rb"\1 HTTP/1.1")))  # fmt: skip


def _twice_framed() -> Vice:
    """The worker's chunked framing is told beside the length; only bytes can say so, the server's library will not."""
    marked = to_client(lambda headers, worker: [*headers, ("x-was", "chunked")] if ("transfer-encoding", "chunked") in worker else headers)  # fmt: skip
    return both(
        marked, _back(_sub(rb"(?i)\r\nx-was: chunked(?=(?s:.*)content-length)", b"\r\nTransfer-Encoding: chunked"))
    )


add(
    "keeps_the_chunks_of_workers",
    "Beside its length a complete answer keeps the worker's framing.",
    ("response_headers.hop.framing",),
    _twice_framed(),
)


async def _send(original: Any, self: Any, worker_url: str, method: str, *rest: Any, **named: Any) -> Any:
    """A request meets the oldest connection to its worker, alive or not."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    for key, kept in self._session.connector._conns.items():
        if method == "POST" and worker_url.endswith(f":{key.port}") and kept and not kept[0][0].is_connected():
            kept.popleft()
            raise GatewayError(502, "upstream_request_failed", "the connection was closed")
    return await original(self, worker_url, method, *rest, **named)


add("uses_stale_connections", "A request fails with the kept connection that its worker has closed.", ("transport.stale_worker_connection",),
    swap("reference_server.workers.upstream:UpstreamClient.send", _send))  # fmt: skip
