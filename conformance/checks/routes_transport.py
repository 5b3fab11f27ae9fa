"""HTTP itself: connections, framings and lengths, and what becomes of bytes that are none of it.

One connection may carry several answers here, so these checks write their own bytes and read until the gateway closes
the connection or has been quiet for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from conformance.checks.routes_support import ROUTED_WORKER, expect_success
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.bodies import encode
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, MODELS
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted, Worker

BOUND_S = 10.0
QUIET_S = 0.4


async def talk(gateway: Gateway, data: bytes, *, answers: int = 1) -> tuple[bytes, bool]:
    """Send bytes; returns what came back, and whether the gateway closed the connection.

    Reads until the connection is closed or, once so many answers have begun, nothing has come for `QUIET_S`. Disproved
    when neither happens within `BOUND_S`.
    """
    parts = urlsplit(gateway.base_url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    received = b""
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        async with asyncio.timeout(BOUND_S):
            while True:
                begun = received.count(b"HTTP/1.") >= answers
                try:
                    piece = await asyncio.wait_for(reader.read(65536), QUIET_S if begun else None)
                except TimeoutError:
                    if begun:
                        return received, False
                    raise
                except ConnectionError:
                    return received, True
                if not piece:
                    return received, True
                received += piece
    except TimeoutError:
        raise Disproved("no answer", f"nothing settled within {BOUND_S:g} s; received {received[:200]!r}") from None
    finally:
        writer.transport.abort()


def head(gateway: Gateway, *lines: str, version: str = "1.1") -> bytes:
    """The head of a chat request, with further lines."""
    first = [
        f"POST {gateway.target(CHAT)} HTTP/{version}",
        f"Host: {gateway.netloc}",
        "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in gateway.credential()),
    ]
    return "\r\n".join([*first, *lines, "", ""]).encode()


def whole(gateway: Gateway, script: Scripted, *lines: str, version: str = "1.1", stream: bool = False) -> bytes:
    """A chat request with its length."""
    body = encode(gateway.chat_body(script, stream=True) if stream else gateway.chat_body(script))
    return head(gateway, f"Content-Length: {len(body)}", *lines, version=version) + body


def status(received: bytes) -> int | None:
    """The status of the first answer."""
    return int(received[9:12]) if received.startswith(b"HTTP/1.") and received[9:12].isdigit() else None


@clause("transport.keep_alive")
async def test_connection_is_kept(gateway: Gateway, worker: Worker) -> None:
    """After an answer to a plain HTTP/1.1 request, the connection stays open."""
    script = worker.script()
    await worker.flush()
    received, closed = await talk(gateway, whole(gateway, script))
    assert status(received) == 200
    await script.only()
    assert not closed


@clause("transport.second_request")
async def test_second_request_on_a_connection(gateway: Gateway, worker: Worker) -> None:
    """Two requests written to one connection: both reach a worker, and both are answered with 200."""
    first, second = worker.script(), worker.script()
    await worker.flush()
    received, _ = await talk(gateway, whole(gateway, first) + whole(gateway, second), answers=2)
    await first.only()
    await second.only()
    assert received.count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@clause("transport.close.asked_for")
async def test_close_is_obeyed(gateway: Gateway, worker: Worker, *, stream: bool) -> None:
    """Who asks for it gets the connection closed behind the answer."""
    script = worker.script()
    await worker.flush()
    received, closed = await talk(gateway, whole(gateway, script, "Connection: close", stream=stream))
    assert status(received) == 200
    await script.only()
    assert closed


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@clause("transport.close.http_1_0")
async def test_http_1_0_is_closed(gateway: Gateway, worker: Worker, *, stream: bool) -> None:
    """An HTTP/1.0 request that does not ask to keep the connection is answered, and the connection is closed."""
    script = worker.script()
    await worker.flush()
    received, closed = await talk(gateway, whole(gateway, script, version="1.0", stream=stream))
    await script.only()
    assert status(received) == 200
    await script.only()
    assert closed


@clause("transport.close.http_1_0_stream")
async def test_http_1_0_stream_has_no_chunks(gateway: Gateway, worker: Worker) -> None:
    """HTTP/1.0 knows no chunks: the events follow the head as they are."""
    script = worker.script()
    await worker.flush()
    received, closed = await talk(gateway, whole(gateway, script, version="1.0", stream=True))
    await script.only()
    headers, _, body = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in headers.lower()
    assert body.startswith(b"data:")
    assert closed


def _both(gateway: Gateway, script: Scripted, *, length_first: bool) -> bytes:
    """A request with both framings, a second request behind it that only one reading of the first would find."""
    body = encode(gateway.chat_body(script))
    lines = ["Content-Length: 4", "Transfer-Encoding: chunked"]
    framed = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    behind = b"".join(gateway.written("GET", MODELS))
    return head(gateway, *(lines if length_first else reversed(lines))) + framed + behind


both_orders = pytest.mark.parametrize("length_first", [True, False], ids=["length-first", "chunks-first"])


@both_orders
@clause("transport.framing.both")
async def test_both_framings(gateway: Gateway, worker: Worker, *, length_first: bool) -> None:
    """The request is refused with 400, or served as chunks; either way the connection is closed."""
    script = worker.script()
    await worker.flush()
    received, closed = await talk(gateway, _both(gateway, script, length_first=length_first))
    assert status(received) in {200, 400}
    assert closed


@both_orders
@clause("transport.framing.nothing_smuggled")
async def test_nothing_is_smuggled(gateway: Gateway, worker: Worker, *, length_first: bool) -> None:
    """The bytes behind it get no answer: one answer comes, and no list of models."""
    script = worker.script()
    await worker.flush()
    received, _ = await talk(gateway, _both(gateway, script, length_first=length_first))
    assert received.count(b"HTTP/1.1 ") == 1
    assert b'"list"' not in received


@both_orders
@clause("transport.framing.worker_gets_one")
async def test_worker_gets_one_of_two_framings(gateway: Gateway, worker: Worker, *, length_first: bool) -> None:
    """If the request is served, the worker reads one framing; if it is refused, the worker hears of nothing."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    await worker.flush()
    received, _ = await talk(gateway, _both(gateway, script, length_first=length_first))
    if status(received) != 200:
        await script.never_seen(because=proof)
        return
    entry = await script.only()
    assert len(entry.header_all("content-length")) + len(entry.header_all("transfer-encoding")) == 1


@pytest.mark.parametrize("length", ["-1", "+94", "0x5e", "9.4", "ninety", "94 94", "9" * 40])
@clause("transport.length.malformed")
async def test_malformed_length(gateway: Gateway, worker: Worker, length: str) -> None:
    """A length that is no number is a bad request, and the connection is closed: nobody knows where it ends."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    await worker.flush()
    received, closed = await talk(
        gateway, head(gateway, f"Content-Length: {length}") + encode(gateway.chat_body(script))
    )
    assert status(received) == 400
    assert closed
    await script.never_seen(because=proof)


@clause("transport.length.conflicting")
async def test_conflicting_lengths(gateway: Gateway, worker: Worker) -> None:
    """Two lengths that differ are a bad request, and no worker hears of it."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    await worker.flush()
    body = encode(gateway.chat_body(script))
    lengths = [f"Content-Length: {len(body)}", f"Content-Length: {len(body) + 1}"]
    received, closed = await talk(gateway, head(gateway, *lengths) + body)
    assert status(received) == 400
    assert closed
    await script.never_seen(because=proof)


@clause("transport.length.absurd")
async def test_absurd_length(gateway: Gateway, worker: Worker) -> None:
    """A body of a hundred gigabytes is not waited for: 413 on the head alone."""
    script = worker.script()
    await worker.flush()
    received, _ = await talk(
        gateway, head(gateway, "Content-Length: 99999999999") + encode(gateway.chat_body(script))[:20]
    )
    assert status(received) == 413


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n\r\n",
        b"hello gateway\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"GET\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
    ],
    ids=["blank-lines", "text", "tls", "half-a-line", "version"],
)
@clause("transport.garbage")
async def test_garbage(gateway: Gateway, worker: Worker, data: bytes) -> None:
    """What is no HTTP is no success, and the next client is served."""
    parts = urlsplit(gateway.base_url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    received = b""
    with contextlib.suppress(OSError):
        writer.write(data)
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(4096), BOUND_S)
    writer.transport.abort()
    assert status(received) is None or 400 <= (status(received) or 0) < 600
    script = worker.script()
    expect_success(await gateway.chat(script))
    await script.only()


@clause("transport.half_head")
async def test_half_a_head(gateway: Gateway, worker: Worker) -> None:
    """Clients that leave inside a head do not keep others from being served."""
    parts = urlsplit(gateway.base_url)
    writers = []
    script = worker.script()
    try:
        for _ in range(20):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writers.append(writer)
            writer.write(head(gateway)[:40])
            await writer.drain()
        expect_success(await gateway.chat(script))
    finally:  # whoever minds them is to mind them in this check only
        for writer in writers:
            writer.transport.abort()
    expect_success(await gateway.chat(script))
    assert len(await script.received(2)) == 2


@clause("transport.stale_worker_connection")
async def test_stale_connection_is_not_used(gateway: Gateway) -> None:
    """A worker closes idle connections after 0.2 s; requests after longer pauses are served nevertheless."""
    model = own_model()
    async with own_fleet(model, keep_alive_s=0.2) as fleet, Registry(gateway) as registry:
        await registry.add(fleet.urls[0])
        for _ in range(4):
            answer = expect_success(await registry.chat(model))
            assert answer.headers.get(ROUTED_WORKER, fleet.urls[0]) == fleet.urls[0]
            await asyncio.sleep(0.35)
