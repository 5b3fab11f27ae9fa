"""The allow-list: which client headers an HTTP worker receives, and which it never does.

A check of a header that must stay behind sends an allow-listed one with it: only if that one arrives does the absence
of the other say anything. Values are tokens nobody else uses, looked for in the whole head the worker got, so a header
that travels under another name is found too.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from conformance.checks.routes_support import each_path, expect_success, send
from conformance.harness.errors import Disproved
from conformance.harness.gateway import COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker
    from fake_workers.journal import Entry

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALLOWED = {
    "authorization": ("Authorization", "Bearer sk-of-the-client"),
    "anthropic_version": ("anthropic-version", "2023-06-01"),
    "anthropic_beta": ("anthropic-beta", "tools-2024-04-04,other-beta"),
    "x_request_id": ("X-Request-ID", "request-17"),
    "x_correlation_id": ("X-Correlation-ID", "correlation-17"),
    "x_request_id_prefix": ("X-Request-ID-Parent", "parent-17"),
    "traceparent": ("traceparent", TRACEPARENT),
    "tracestate": ("tracestate", "vendor=t61rcWkgMzE,other=00f067aa0ba902b7"),
    "x_smg_routing_key": ("X-SMG-Routing-Key", "key-17"),
}


def allowed(gateway: Gateway) -> dict[str, tuple[str, str]]:
    """Every allow-listed header by name; the credential is the one that this gateway asks for, if it asks for any."""
    return {**ALLOWED, **{name: ("Authorization", value) for name, value in gateway.credential()}}


@pytest.mark.parametrize("case", [case(f"request_headers.allowed.{name}", name) for name in ALLOWED])
async def test_allowed_header_arrives(gateway: Gateway, worker: Worker, case: str) -> None:
    """The worker receives the header once, with the value the client sent."""
    name, value = allowed(gateway)[case]
    script = worker.script()
    await gateway.chat(script, headers=[(name, value)])
    entry = await script.only()
    assert entry.header_all(name) == [value]


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.swapcase], ids=["upper", "lower", "swapped"])
@clause("request_headers.allowed.any_case")
async def test_names_in_any_case(gateway: Gateway, worker: Worker, spell: type[str]) -> None:
    """The list is matched whatever the case of the names."""
    script = worker.script()
    sent = list(allowed(gateway).values())
    await gateway.chat(script, headers=[(spell(name), value) for name, value in sent])
    entry = await script.only()
    assert {name: entry.header_all(name) for name, _ in sent} == {name: [value] for name, value in sent}


@pytest.mark.parametrize(
    "value",
    ['a, b;c="d e"', "two  blanks", "(comment) <tag> %20 \\ /", "x" * 4096, "0", "=?utf-8?q?x?="],
    ids=["punctuation", "blanks", "symbols", "long", "zero", "encoded-word"],
)
@clause("request_headers.allowed.value_verbatim")
async def test_values_are_kept(gateway: Gateway, worker: Worker, value: str) -> None:
    """Nothing is trimmed inside, split, decoded or cut."""
    script = worker.script()
    await gateway.chat(script, headers=[("anthropic-beta", value), ("X-Request-ID-Note", value)])
    entry = await script.only()
    assert [entry.header_all("anthropic-beta"), entry.header_all("x-request-id-note")] == [[value], [value]]


@clause("request_headers.allowed.none_invented")
async def test_no_header_is_made_up(gateway: Gateway, worker: Worker) -> None:
    """A request without any of them reaches the worker without any of them; a generated request id may travel."""
    script = worker.script()
    await gateway.chat(script)
    entry = await script.only()
    ids = {"x-request-id", "x-correlation-id"}
    sent = {name for name, _ in gateway.credential()}
    invented = {name.lower() for name, _ in ALLOWED.values()} & {name.lower() for name, _ in entry.headers}
    assert invented - ids - sent == set()


async def _all_allowed(gateway: Gateway, worker: Worker, path: str, **fields: bool) -> None:
    """Send every allow-listed header; each one arrives as sent."""
    script = worker.script()
    sent = list(allowed(gateway).values())
    await send(gateway, path, script, sent, **fields)
    entry = await script.only()
    assert {name: entry.header_all(name) for name, _ in sent} == {name: [value] for name, value in sent}


@pytest.mark.parametrize(
    "path",
    [
        case("request_headers.allowed.completions", COMPLETIONS, name="completions"),
        case("request_headers.allowed.embeddings", EMBEDDINGS, name="embeddings"),
    ],
)
async def test_allowed_headers_on_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """All of them arrive with completions and embeddings too."""
    await _all_allowed(gateway, worker, path)


@each_path("chat", "completions")
@clause("request_headers.allowed.streaming")
async def test_allowed_headers_with_a_stream(gateway: Gateway, worker: Worker, path: str) -> None:
    """All of them arrive with a streaming request too."""
    await _all_allowed(gateway, worker, path, stream=True)


WITHHELD: dict[str, list[tuple[str, str]]] = {
    "x_api_key": [("x-api-key", "{}")],
    "x_goog_api_key": [("x-goog-api-key", "{}")],
    "x_smg_routing_tokens": [("X-SMG-Routing-Tokens", "1,2,3")],
    "x_smg_target_worker": [("X-SMG-Target-Worker", "0")],
    "x_smg_priority": [("X-SMG-Priority", "bulk")],
    "x_smg_tenant_id": [("X-SMG-Tenant-ID", "{}")],
    "x_smg_mcp": [("X-SMG-MCP", "enabled")],
    "near_prefix": [("X-Request-IDs", "{}"), ("X-Request-Idea", "{}")],
    "cookie": [("Cookie", "session={}")],
    "user_agent": [("User-Agent", "client/{}")],
    "accept": [("Accept", "application/{}")],
    "accept_encoding": [("Accept-Encoding", "{}, gzip")],
    "accept_language": [("Accept-Language", "{}")],
    "content_language": [("Content-Language", "{}")],
    "referer": [("Referer", "http://example.com/{}")],
    "origin": [("Origin", "http://{}.example.com")],
    "x_forwarded": [
        ("X-Forwarded-For", "{}"),
        ("X-Forwarded-Host", "{}"),
        ("X-Forwarded-Proto", "{}"),
        ("X-Real-IP", "{}"),
    ],
    "forwarded_rfc7239": [("Forwarded", "for=_{}")],
    "via": [("Via", "1.1 {}")],
    "openai_organization": [("OpenAI-Organization", "{}")],
    "openai_project": [("OpenAI-Project", "{}")],
    "openai_beta": [("OpenAI-Beta", "{}")],
    "x_stainless": [("X-Stainless-Lang", "{}"), ("X-Stainless-Retry-Count", "{}"), ("X-Stainless-Runtime", "{}")],
    "idempotency_key": [("Idempotency-Key", "{}")],
    "baggage": [("baggage", "key={}")],
    "b3": [("b3", "{}")],
    "x_session_id": [("X-Session-ID", "{}")],
    "proxy_authorization": [("Proxy-Authorization", "Basic {}")],
    "hop_by_hop": [("Keep-Alive", "timeout=5, max={}"), ("TE", "{}"), ("Proxy-Connection", "{}")],
    "any_other": [("X-Conformance-Unheard-Of", "{}"), ("Conformance", "{}")],
    "x_smg_other": [("X-SMG-Unheard-Of", "{}"), ("X-SMG", "{}")],
}
OURS = {"user-agent", "accept", "accept-encoding", "accept-language", "via", "forwarded", "te"}
"""Headers a gateway may send on its own account: of these only the client's value must not arrive."""


def check_withheld(entry: Entry, token: str, names: set[str], proof: tuple[str, str]) -> None:
    """The allow-listed header arrived; neither the names nor the token did."""
    if entry.header(proof[0]) != proof[1]:
        raise Disproved(
            "allow-listed header missing",
            f"{proof[0]} did not arrive, so the absence of {sorted(names)} proves nothing",
        )
    assert token not in entry.head.decode("latin-1"), f"the value {token} reached the worker: {entry.head!r}"
    arrived = (names - OURS) & {name.lower() for name, _ in entry.headers}
    assert arrived == set(), f"reached the worker: {sorted(arrived)}"


async def _none_arrives(
    gateway: Gateway, worker: Worker, path: str, cases: list[tuple[str, str]], **fields: bool
) -> None:
    """Send these headers beside an allow-listed one; only that one arrives."""
    token = f"tok{secrets.token_hex(8)}"
    headers: list[tuple[str, str | None]] = [(name, value.format(token)) for name, value in cases]
    proof = ("X-Correlation-ID", f"proof-{secrets.token_hex(4)}")
    script = worker.script()
    expect_success(await send(gateway, path, script, [*headers, proof], **fields))
    check_withheld(await script.only(), token, {name.lower() for name, _ in cases}, proof)


@pytest.mark.parametrize("case", [case(f"request_headers.withheld.{name}", name) for name in WITHHELD])
async def test_other_header_stays_behind(gateway: Gateway, worker: Worker, case: str) -> None:
    """The request arrives with its allow-listed header and without this one."""
    await _none_arrives(gateway, worker, "/v1/chat/completions", WITHHELD[case])


@pytest.mark.parametrize(
    "name",
    [
        case("request_headers.withheld.x_trace_id", "X-Trace-ID"),
        case("request_headers.withheld.request_id", "Request-ID"),
    ],
)
async def test_other_id_headers_stay_behind(gateway: Gateway, worker: Worker, name: str) -> None:
    """The header that may carry the request id does not travel under its own name."""
    script = worker.script()
    await gateway.chat(script, headers=[(name, "id-17"), ("tracestate", "proof=17")])
    check_withheld(await script.only(), "no value is looked for", {name.lower()}, ("tracestate", "proof=17"))


@clause("request_headers.withheld.host")
async def test_host_is_the_workers_own(gateway: Gateway, worker: Worker) -> None:
    """The worker reads its own address in Host, whatever name the client knows the gateway by."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[("Host", "gateway.example.com")]))
    entry = await script.only()
    assert entry.header_all("host") == [urlsplit(worker.url).netloc]


EVERYTHING = [header for headers in WITHHELD.values() for header in headers]


@pytest.mark.parametrize(
    "path",
    [
        case("request_headers.withheld.completions", COMPLETIONS, name="completions"),
        case("request_headers.withheld.embeddings", EMBEDDINGS, name="embeddings"),
    ],
)
async def test_other_headers_stay_behind_on_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """None of them arrives with completions and embeddings either."""
    await _none_arrives(gateway, worker, path, EVERYTHING)


@each_path("chat", "completions")
@clause("request_headers.withheld.streaming")
async def test_other_headers_stay_behind_with_a_stream(gateway: Gateway, worker: Worker, path: str) -> None:
    """None of them arrives with a streaming request either."""
    await _none_arrives(gateway, worker, path, EVERYTHING, stream=True)
