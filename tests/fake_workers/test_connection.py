"""HTTP/1.1 as a server must do it, and what happens to requests that are none."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers import Chunk, Control, End, Fleet, Head, Script, Wire, WorkerSpec, new_marker, wire
from fake_workers.net.connection import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

RawFactory = Any
HEALTH = b"GET /health HTTP/1.1\r\nhost: w\r\n\r\n"


async def test_keep_alive(fleet: Fleet, raw: RawFactory) -> None:
    """A thousand requests go over one connection."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}).encode()
    async with raw(fleet.urls[0]) as client:
        for _ in range(1000):
            await client.post("/v1/chat/completions", body)
            head, _ = await client.message()
            assert head.startswith(b"HTTP/1.1 200 ")
    entries = fleet.journal.all_entries()
    assert len(entries) == 1000
    assert {entry.connection for entry in entries} == {1}


async def test_pipelining(fleet: Fleet, raw: RawFactory) -> None:
    """Pipelined requests are answered one after the other, in order, however many."""
    async with raw(fleet.urls[0]) as client:
        await client.send(b"".join(b"GET /nope%d HTTP/1.1\r\nhost: w\r\n\r\n" % number for number in range(100)))
        for _ in range(100):
            assert (await client.message())[0].startswith(b"HTTP/1.1 404 ")
    assert [entry.target for entry in fleet.journal.all_entries()] == [f"/nope{number}" for number in range(100)]


async def test_a_chunked_body_followed_by_a_request(fleet: Fleet, raw: RawFactory) -> None:
    """A chunked body is joined for the journal, and the request after it keeps its own head."""
    head = b"POST /a HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n"
    first = head + b"4\r\nab\nc\r\n3;x=y\r\nd\r\n\r\n0\r\nt: 1\r\n\r\n"
    async with raw(fleet.urls[0]) as client:
        await client.send(first + HEALTH)
        assert (await client.message())[0].startswith(b"HTTP/1.1 404 ")
        assert (await client.message())[0].startswith(b"HTTP/1.1 200 ")
    one, two = fleet.journal.all_entries()
    assert one.body == b"ab\ncd\r\n"
    assert two.head == HEALTH


async def test_any_cut_of_the_bytes(fleet: Fleet, raw: RawFactory) -> None:
    """A request is the same wherever its bytes are cut on the way."""
    request = b"POST /x HTTP/1.1\r\nHost: w\r\nA:  b \r\ncontent-length: 5\r\n\r\nhello"
    for at in range(1, len(request)):
        async with raw(fleet.urls[0]) as client:
            await client.send(request[:at])
            await asyncio.sleep(0.002)
            await client.send(request[at:])
            assert (await client.message())[0].startswith(b"HTTP/1.1 404 ")
    for entry in fleet.journal.all_entries():
        assert entry.head + entry.body == request
        assert entry.headers == [("Host", "w"), ("A", "b"), ("content-length", "5")]


async def test_expect_continue(fleet: Fleet, raw: RawFactory) -> None:
    """A client that expects 100-continue gets it before it sends the body."""
    async with raw(fleet.urls[0]) as client:
        await client.send(b"POST /x HTTP/1.1\r\nhost: w\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        head, _ = await client.message()
        assert head == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"{}")
        assert (await client.message())[0].startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET /health HTTP/1.0\r\n\r\n", b"GET /health HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n"],
)
async def test_closing_versions(fleet: Fleet, raw: RawFactory, request_bytes: bytes) -> None:
    """HTTP/1.0 and connection: close are answered and the connection is closed."""
    async with raw(fleet.urls[0]) as client:
        await client.send(request_bytes)
        answer = await client.all()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close\r\n" in answer


async def test_head_method(fleet: Fleet, raw: RawFactory) -> None:
    """HEAD has the head of GET and no body."""
    async with raw(fleet.urls[1]) as client:
        await client.send(b"HEAD / HTTP/1.1\r\nhost: w\r\nconnection: close\r\n\r\n")
        answer = await client.all()
        assert b"content-length: 19\r\n" in answer
        assert answer.endswith(b"\r\n\r\n")


MALFORMED = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 20,
    "words": b"hello there\r\n\r\n",
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nhost w\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
    "both framings": b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad length": b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    "minus length": b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    "giant length": b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999999\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "nul in head": b"GET / HTTP/1.1\r\nhost: \x00\r\n\r\n",
    "space in target": b"GET /a b c HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed(fleet: Fleet, raw: RawFactory, name: str) -> None:
    """What is no HTTP/1.1 request gets 400, is journalled as such, and the connection is closed."""
    async with raw(fleet.urls[0]) as client:
        await client.send(MALFORMED[name])
        assert (await client.all()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    (entry,) = fleet.journal.all_entries()
    assert entry.outcome == "malformed"
    async with raw(fleet.urls[0]) as client:
        await client.send(HEALTH)
        assert (await client.message())[0].startswith(b"HTTP/1.1 200 ")


async def test_bounds(fleet: Fleet, raw: RawFactory) -> None:
    """Heads and bodies over the bounds get 431 and 413, declared or chunked."""
    limits = Limits()
    async with raw(fleet.urls[0]) as client:
        await client.send(b"GET / HTTP/1.1\r\na: " + b"x" * limits.head_bytes)
        assert (await client.chunk()).startswith(b"HTTP/1.1 431 ")
    async with raw(fleet.urls[0]) as client:
        await client.send(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (limits.body_bytes + 1))
        assert (await client.all()).startswith(b"HTTP/1.1 413 ")


async def test_a_slow_reader_holds_the_worker_back(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Back-pressure: a client that does not read keeps the worker from writing more than buffers hold."""
    marker = new_marker()
    block, blocks = 64 * 1024, 1600
    script = Wire(steps=[Head(), Chunk(data=b"x" * block, times=blocks), End()])
    await control.put_script(marker, Script.of(script))
    async with raw(fleet.urls[0]) as client:
        client.writer.transport.pause_reading()
        await client.post("/x", marker.encode())
        await asyncio.sleep(0.4)
        (entry,) = await control.entries(marker)
        assert sum(size for _, size in entry.sent) < block * blocks / 2
        assert entry.completed_at is None
        client.writer.transport.resume_reading()
        size = 0
        while size < block * blocks:
            size += len(await client.chunk())
            client.reads.clear()
    assert (await control.until_completed(marker)).outcome == "answered"


async def test_idle_connections_are_closed(raw: RawFactory) -> None:
    """An idle connection is closed silently after the keep-alive time, a busy one is not."""
    async with Fleet([WorkerSpec(model="m", keep_alive_s=0.2)]) as fleet, raw(fleet.urls[0]) as client:
        marker = new_marker()
        fleet.book.put(marker, Script.of(wire.sse("a", hold_before={0: "gate"})))
        await client.post("/x", marker.encode())
        await asyncio.sleep(0.45)
        fleet.book.release(marker, "gate")
        assert (await client.message())[1].endswith(b"[DONE]\n\n")
        assert await asyncio.wait_for(client.reader.read(), 2.0) == b""


async def test_a_sender_that_leaves_half_way(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A request whose sender leaves before its end is journalled as incomplete, with what came."""
    marker = new_marker()
    async with raw(fleet.urls[0]) as client:
        await client.send(b"POST /x HTTP/1.1\r\ncontent-length: 999\r\n\r\n" + marker.encode())
    (entry,) = await control.entries(marker, at_least=1)
    assert entry.outcome == "incomplete"
    assert entry.peer_closed_at is not None


def _upgrades() -> Iterator[bytes]:
    start = b"GET /health HTTP/1.1\r\nhost: w\r\nconnection: Upgrade, HTTP2-Settings\r\n"
    yield start + b"upgrade: h2c\r\nhttp2-settings: AAM\r\n\r\n"
    yield start + b"upgrade: h2c\r\ncontent-length: 4\r\n\r\nbody"
    yield b"GET /health HTTP/1.1\r\nhost: w\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"


async def test_upgrades_are_ignored(fleet: Fleet, raw: RawFactory) -> None:
    """An upgrade that is offered is not taken; the request is answered in HTTP/1.1, and so is the next."""
    for request in _upgrades():
        async with raw(fleet.urls[0]) as client:
            for _ in range(2):
                await client.send(request)
                assert (await client.message())[0].startswith(b"HTTP/1.1 200 ")
