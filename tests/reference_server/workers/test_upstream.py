"""The upstream client on good days: what a worker receives and what comes back, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reference_server.workers.upstream import UpstreamClient

StartWorker = Any  # a fixture of conftest.py, which cannot be imported
Kit = Any


async def test_a_worker_receives_only_what_was_given_and_what_http_needs(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """Beyond the given headers a worker sees host, accept and content-length, and nothing that names the client."""
    worker = await start_worker(kit.saying(kit.response()))
    given = [("content-type", "application/json"), ("X-Twice", "1"), ("x-twice", "2"), ("authorization", "Bearer  k ")]
    await (await client.send(worker.url, "POST", "/v1/x?a=%2F&b=c d", headers=given, body=b"abc")).read(100)
    (seen,) = worker.seen
    assert seen.line == b"POST /v1/x?a=%2F&b=c d HTTP/1.1"
    assert seen.body == b"abc"
    assert sorted(seen.headers) == sorted(
        [
            ("host", worker.url.removeprefix("http://")),
            ("content-type", "application/json"),
            ("x-twice", "1"),
            ("x-twice", "2"),
            ("authorization", "Bearer  k"),
            ("accept", "*/*"),
            ("content-length", "3"),
        ]
    )


async def test_header_values_keep_their_bytes(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """UTF-8 in a header value reaches the worker as the same bytes; what is no UTF-8 is left out, not garbled."""
    worker = await start_worker(kit.saying(kit.response()))
    value = "Grüße 世界".encode().decode("latin-1")
    response = await client.send(worker.url, "GET", "/", headers=[("x-a", value), ("x-b", "\xff\xfe")])
    await response.aclose()
    (seen,) = worker.seen
    assert ("x-a", value) in seen.headers
    assert "x-b" not in dict(seen.headers)


async def test_response_headers_keep_repeats_spelling_and_bytes(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """Each header line of a worker arrives as it is, repeats included, and no cookie is remembered."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Odd: \xff\xe9\r\n\r\n"
    worker = await start_worker(kit.saying(head))
    response = await client.send(worker.url, "GET", "/")
    assert response.headers == [
        ("Content-Length", "0"),
        ("Set-Cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("X-Odd", "\xff\xe9"),
    ]
    assert await response.read(0) == b""
    await (await client.send(worker.url, "GET", "/")).read(0)
    assert "cookie" not in dict(worker.seen[1].headers)


async def test_a_compressed_body_passes_untouched(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """A worker's compressed bytes are relayed as they are, with their header."""
    body = gzip.compress(b'{"a":1}' * 100)
    worker = await start_worker(kit.saying(kit.response(body, 200, ("content-encoding", "gzip"))))
    response = await client.send(worker.url, "GET", "/")
    assert ("content-encoding", "gzip") in response.headers
    assert await response.read(10_000) == body


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_like_any_other(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, status: int
) -> None:
    """A worker's redirect is not followed: it comes back with its location."""
    worker = await start_worker(kit.saying(kit.response(b"there", status, ("location", "/elsewhere"))))
    response = await client.send(worker.url, "POST", "/", body=b"x")
    assert (response.status, await response.read(10)) == (status, b"there")
    assert ("location", "/elsewhere") in response.headers
    assert len(worker.seen) == 1


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
async def test_request_bodies_arrive_whole(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, size: int
) -> None:
    """A body of any size reaches the worker with its length."""
    worker = await start_worker(kit.saying(kit.response()))
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await (await client.send(worker.url, "POST", "/", body=body)).read(100)
    assert worker.seen[0].body == body
    assert dict(worker.seen[0].headers)["content-length"] == str(size)


async def test_pieces_arrive_as_they_are_sent(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """A piece of a stream is handed on before the next one is sent."""
    go_on = asyncio.Event()

    async def answer(turn: Any) -> None:
        await turn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await go_on.wait()
        await turn.send(b"6\r\nsecond\r\n0\r\n\r\n")

    worker = await start_worker(answer)
    response = await client.send(worker.url, "GET", "/")
    pieces = response.body()
    assert await asyncio.wait_for(anext(pieces), 2) == b"first"
    go_on.set()
    assert [piece async for piece in pieces] == [b"second"]


async def test_a_worker_is_read_no_faster_than_the_client_takes(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """While nobody takes the pieces, a fast worker is held back instead of filling memory."""
    total = 200 * 1024 * 1024
    sent = 0

    async def answer(turn: Any) -> None:
        nonlocal sent
        await turn.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while sent < total:
            await turn.send(bytes(65_536))
            sent += 65_536

    worker = await start_worker(answer)
    response = await client.send(worker.url, "GET", "/")
    await asyncio.sleep(0.3)
    held_at = sent
    await asyncio.sleep(0.2)
    assert sent == held_at  # it stands still ...
    assert held_at < 32 * 1024 * 1024  # ... after what the sockets' own buffers take
    await response.aclose()


@pytest.mark.parametrize("framing", ["length", "chunked", "many chunks"])
async def test_large_bodies_arrive_whole_through_a_slow_reader(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, framing: str
) -> None:
    """A body many times the read buffer, taken slowly, arrives to its last byte and frees its connection."""
    body = bytes(range(256)) * 8_000

    async def answer(turn: Any) -> None:
        if framing == "length":
            await turn.send(kit.response(body))
            return
        size = len(body) if framing == "chunked" else 500
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
        await turn.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n")

    worker = await start_worker(answer)
    for _ in range(2):
        received = bytearray()
        async for piece in (await client.send(worker.url, "GET", "/")).body():
            received += piece
            await asyncio.sleep(0.001)
        assert bytes(received) == body
    assert worker.connections == 1


async def test_connections_are_used_again(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """Requests after one another share a connection."""
    worker = await start_worker(kit.saying(kit.response()))
    for _ in range(5):
        await (await client.send(worker.url, "POST", "/", body=b"x")).read(100)
    assert worker.connections == 1


async def test_informational_responses_are_passed_over(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """A 1xx before the answer is not the answer."""
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    worker = await start_worker(kit.saying(early + kit.response(b"late")))
    response = await client.send(worker.url, "GET", "/")
    assert (response.status, await response.read(10)) == (200, b"late")


async def test_a_body_without_length_ends_with_the_connection(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """An HTTP/1.0 style body is whole when the worker closes."""
    worker = await start_worker(kit.saying_then_closing(b"HTTP/1.0 200 OK\r\n\r\nall", b" of it"))
    assert await (await client.send(worker.url, "GET", "/")).read(100) == b"all of it"


async def test_a_path_in_the_workers_url_stands_before_the_target(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """A worker under a path, with or without a slash at its end, is asked under that path."""
    worker = await start_worker(kit.saying(kit.response()))
    for suffix in ("", "/", "/engine", "/engine/"):
        await (await client.send(worker.url + suffix, "GET", "/v1/x")).read(100)
    assert [seen.line.split()[1] for seen in worker.seen] == [b"/v1/x", b"/v1/x", b"/engine/v1/x", b"/engine/v1/x"]
