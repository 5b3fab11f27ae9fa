"""A worker's own response headers: what passes end to end, and what belongs to one connection."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import COMPLETION, expect_equal, expect_status, expect_success
from conformance.harness.errors import Disproved
from conformance.harness.marks import case, clause
from fake_workers import wire
from fake_workers.script import Chunk, End, Head, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

PASSED = {
    "custom": ("X-Of-The-Worker", "a, b; c=1"),
    "retry_after": ("Retry-After", "7"),
    "cache_control": ("Cache-Control", "no-store, max-age=0"),
    "etag": ("ETag", '"v1-abc"'),
    "set_cookie": ("Set-Cookie", "session=1; Path=/; HttpOnly"),
    "www_authenticate": ("WWW-Authenticate", 'Bearer realm="worker"'),
    "rate_limit": ("X-RateLimit-Remaining-Requests", "5"),
}


@pytest.mark.parametrize("case", [case(f"response_headers.passed.{name}", name) for name in PASSED])
async def test_header_passes(gateway: Gateway, worker: Worker, case: str) -> None:
    """The client receives the header once, with the worker's value."""
    name, value = PASSED[case]
    script = worker.script(wire.json(200, COMPLETION, [(name, value)]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert answer.headers.get_all(name) == [value]


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/vnd.engine+json; v=2"])
@clause("response_headers.passed.content_type")
async def test_content_type_passes(gateway: Gateway, worker: Worker, content_type: str) -> None:
    """The content type arrives with its parameters, once."""
    script = worker.script(wire.body(200, wire.compact(COMPLETION), content_type))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert answer.headers.get_all("content-type") == [content_type]


@pytest.mark.parametrize(
    ("name", "values"), [("Set-Cookie", ["a=1", "b=2"]), ("X-Of-The-Worker", ["one", "two", "three"])]
)
@clause("response_headers.passed.repeated")
async def test_repeated_header_keeps_every_value(
    gateway: Gateway, worker: Worker, name: str, values: list[str]
) -> None:
    """Every value arrives, in order; only Set-Cookie may not be joined into one line."""
    script = worker.script(wire.json(200, COMPLETION, [(name, value) for value in values]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    received = answer.headers.get_all(name)
    joined = [part.strip() for part in ",".join(received).split(",")]
    expect_equal("values lost", received if name == "Set-Cookie" else joined, values)


@clause("response_headers.passed.streaming")
async def test_header_passes_with_a_stream(gateway: Gateway, worker: Worker) -> None:
    """A stream arrives with the worker's own header."""
    script = worker.script(wire.sse({"choices": []}, headers=[("X-Of-The-Worker", "streamed")]))
    answer = expect_success(await gateway.chat(script, stream=True))
    await script.received()
    assert answer.headers.get_all("x-of-the-worker") == ["streamed"]


@pytest.mark.parametrize("status", [400, 429, 503])
@clause("response_headers.passed.on_error")
async def test_header_passes_with_an_error(gateway: Gateway, worker: Worker, status: int) -> None:
    """An error arrives with the worker's own headers, its wish to be left alone among them."""
    script = worker.script(wire.json(status, {"error": "no"}, [("X-Of-The-Worker", "failed"), ("Retry-After", "9")]))
    answer = expect_status(await gateway.chat(script), status)
    await script.received()
    assert [answer.headers.get_all("x-of-the-worker"), answer.headers.get_all("retry-after")] == [["failed"], ["9"]]


@clause("response_headers.passed.content_encoding")
async def test_compressed_body_is_readable(gateway: Gateway, worker: Worker) -> None:
    """The client can read what the worker compressed: by Content-Encoding, or because the gateway has unpacked it."""
    plain = wire.compact(COMPLETION)
    packed = gzip.compress(plain, mtime=0)
    script = worker.script(wire.body(200, packed, "application/json", [("Content-Encoding", "gzip")]))
    answer = expect_success(await gateway.chat(script, headers=[("Accept-Encoding", "gzip")]))
    await script.received()
    coding = answer.headers.get_all("content-encoding")
    if (coding, answer.body) not in [(["gzip"], packed), ([], plain)]:
        raise Disproved("unreadable body", f"Content-Encoding {coding} does not fit the body {answer.body[:40]!r}")


HOP = {
    "keep_alive": [("Keep-Alive", "timeout=5, max=99")],
    "proxy_authenticate": [("Proxy-Authenticate", "Basic realm=worker")],
    "upgrade": [("Upgrade", "h2c")],
    "named_by_connection": [("Connection", "keep-alive, X-Of-This-Hop"), ("X-Of-This-Hop", "1")],
}


@pytest.mark.parametrize("case", [case(f"response_headers.hop.{name}", name) for name in HOP])
async def test_connection_header_stays_behind(gateway: Gateway, worker: Worker, case: str) -> None:
    """The header of the worker's connection stays there, while the answer arrives with its other header."""
    fields = HOP[case]
    script = worker.script(wire.json(200, COMPLETION, [*fields, ("X-Of-The-Worker", "arrives")]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    name, value = fields[-1]
    if value in answer.headers.get_all(name):
        raise Disproved("hop-by-hop header passed", f"{name}: {value} reached the client: {answer.headers}")
    assert answer.json == COMPLETION


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "length"])
@clause("response_headers.hop.framing")
async def test_answer_is_framed_anew(gateway: Gateway, worker: Worker, chunked: bool) -> None:
    """Whichever way the worker framed it, the client gets one framing, the whole body and nothing behind it."""
    data = wire.compact(COMPLETION)
    pieces = Wire(
        steps=[
            Head(headers=[("content-type", "application/json")]),
            Chunk(data=data[:20]),
            Chunk(data=data[20:]),
            End(),
        ]
    )
    script = worker.script(pieces if chunked else wire.json(200, COMPLETION))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert answer.closed_cleanly
    assert (answer.body, answer.trailing) == (data, b"")
    assert len(answer.headers.get_all("content-length")) + len(answer.headers.get_all("transfer-encoding")) == 1
