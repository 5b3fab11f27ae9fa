"""Which headers cross the gateway."""

from __future__ import annotations

import pytest

from reference_server.header_rules import to_client, to_worker
from reference_server.request_ids import RequestId

OWN = RequestId("id-1")
URL = "http://worker.example:8000"


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "anthropic-version", "anthropic-beta", "x-request-id", "x-correlation-id", "x-request-id-foo",
        "traceparent", "tracestate", "x-smg-routing-key",
    ],
)  # fmt: skip
def test_allowed_headers_reach_the_worker(name: str) -> None:
    """Every name of the contract's list is forwarded as it came."""
    assert to_worker([(name, "v")], OWN) == [("content-type", "application/json"), (name, "v")]


@pytest.mark.parametrize(
    "name",
    [
        "cookie", "accept", "accept-encoding", "user-agent", "x-api-key", "x-forwarded-for", "openai-organization",
        "x-smg-routing-tokens", "x-smg-target-worker", "x-smg-priority", "x-smg-tenant-id", "x-trace-id", "request-id",
        "content-encoding", "content-language", "host", "expect", "x-request-idx", "connection", "transfer-encoding",
    ],
)  # fmt: skip
def test_other_headers_stay_here(name: str) -> None:
    """Nothing else is forwarded, and the content type is always the gateway's own."""
    assert to_worker([(name, "v"), ("content-type", "application/problem+json")], OWN) == [
        ("content-type", "application/json")
    ]


def test_the_worker_hears_the_replacement_of_an_unusable_id() -> None:
    """A generated id that stands in for a bad one takes its place; the bad one and its repeats go nowhere."""
    replaced = RequestId("chatcmpl-new", replaces="x-request-id")
    sent = to_worker([("x-request-id", "a b"), ("x-correlation-id", "c"), ("x-request-id", "second")], replaced)
    assert sent[1:] == [("x-request-id", "chatcmpl-new"), ("x-correlation-id", "c")]


def test_the_worker_gets_the_credential_that_was_judged_and_no_other() -> None:
    """Of several Authorization lines the first one is judged, so the first one alone is forwarded."""
    sent = to_worker([("authorization", "Bearer judged"), ("traceparent", "t"), ("authorization", "Bearer other")], OWN)
    assert sent[1:] == [("authorization", "Bearer judged"), ("traceparent", "t")]


def test_worker_headers_reach_the_client_with_their_repeats() -> None:
    """End-to-end headers pass in order, every Set-Cookie line of its own."""
    given = [
        ("Set-Cookie", "a=1"),
        ("X-Custom", "c"),
        ("Set-Cookie", "b=2"),
        ("Server", "engine"),
        ("Retry-After", "9"),
    ]
    assert to_client(given, URL) == [
        ("set-cookie", "a=1"), ("x-custom", "c"), ("set-cookie", "b=2"), ("server", "engine"), ("retry-after", "9"),
        ("x-smg-routed-worker-id", URL),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "Connection", "Keep-Alive", "Proxy-Authenticate", "TE", "Transfer-Encoding", "Upgrade", "X-SMG-Error-Code",
        "X-Request-ID", "X-SMG-Routed-Worker-ID", "Content-Length",
    ],
)  # fmt: skip
def test_some_worker_headers_never_pass(name: str) -> None:
    """Hop-by-hop headers, the gateway's own marks and a length that no longer holds are dropped."""
    assert to_client([(name, "forged")], URL) == [("x-smg-routed-worker-id", URL)]


def test_headers_named_by_connection_are_hop_by_hop() -> None:
    """What the worker's Connection header names concerns only the connection to it."""
    given = [("Connection", "close, X-Hop"), ("X-Hop", "1"), ("X-End", "2")]
    assert to_client(given, URL) == [("x-end", "2"), ("x-smg-routed-worker-id", URL)]


def test_what_our_server_could_not_send_is_left_out() -> None:
    """A header that no HTTP server may send costs that header and not the response."""
    given = [("x-bad", "a\x00b"), ("x b", "c"), ("x-latin", "\xe9"), ("x-empty", "")]
    assert to_client(given, URL)[:-1] == [("x-latin", "\xe9"), ("x-empty", "")]
