"""The upstream client on bad days: every way a worker can fail ends in one clean error and leaves nothing open."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.workers.exchange import (
    UpstreamBodyError,
    UpstreamConnectionError,
    UpstreamRequestError,
    UpstreamTimeoutError,
    UpstreamTooLargeError,
)
from reference_server.workers.upstream import UpstreamClient

if TYPE_CHECKING:
    from collections.abc import Callable

StartWorker = Any  # a fixture of conftest.py, which cannot be imported
Kit = Any

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough


async def test_a_refused_connection(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """A worker that does not listen is a 500 that names the connection, not the address."""
    worker = await start_worker(kit.saying(kit.response()))
    await worker.stop()
    with pytest.raises(UpstreamConnectionError) as caught:
        await client.send(worker.url, "POST", "/", body=b"x", headers=[("authorization", "Bearer secret")])
    assert (caught.value.status, caught.value.code) == (500, "call_upstream_connection_failed")
    assert "127.0.0.1" not in caught.value.message
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("url", ["http://no-such-host.invalid:1", "http://[::1]:1", "http://127.0.0.1:1/path"])
async def test_an_unreachable_address(client: UpstreamClient, url: str) -> None:
    """A name that does not resolve and a port nobody has are the same to a client."""
    with pytest.raises(UpstreamConnectionError):
        await client.send(url, "GET", "/")


HEADS = {
    "closed at once": b"",
    "half a status line": b"HTTP/1.1 2",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
    "no http": b"220 smtp.example ready\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "another version": b"HTTP/3.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "no number": b"HTTP/1.1 abc OK\r\ncontent-length: 0\r\n\r\n",
    "a header without colon": b"HTTP/1.1 200 OK\r\nnonsense\r\ncontent-length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "an absurd length": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    "a huge header": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 300_000 + b"\r\ncontent-length: 0\r\n\r\n",
    "a thousand headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000 + b"content-length: 0\r\n\r\n",
    "an endless reason": b"HTTP/1.1 200 " + b"O" * 300_000 + b"\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("ending", ["closing", "resetting"])
async def test_a_head_that_is_none(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, name: str, ending: str
) -> None:
    """Whatever comes instead of a response head is a 500 that says the worker gave no usable answer."""
    answer = kit.saying_then_closing if ending == "closing" else kit.saying_then_resetting
    worker = await start_worker(answer(HEADS[name]))
    with pytest.raises(UpstreamRequestError) as caught:
        await client.send(worker.url, "POST", "/", body=b"x")
    assert (caught.value.status, caught.value.code) == (500, "call_upstream_request_error")
    assert not caught.value.stale


BODIES = {
    "a short body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n12345",
    "no last chunk": CHUNKED + b"5\r\n12345\r\n",
    "half a chunk": CHUNKED + b"ff\r\n12345",
    "no chunk size": CHUNKED + b"5\r\n12345\r\nxyz\r\n",
    "a negative chunk size": CHUNKED + b"5\r\n12345\r\n-5\r\n",
    "an absurd chunk size": CHUNKED + b"5\r\n12345\r\nffffffffffffffffffffffff\r\n",
    "half a trailer": CHUNKED + b"5\r\n12345\r\n0\r\nx-trailer: ",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("ending", ["closing", "resetting"])
async def test_a_body_that_breaks(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, name: str, ending: str
) -> None:
    """A body that is cut or malformed is a 500 that names the worker it came from."""
    answer = kit.saying_then_closing if ending == "closing" else kit.saying_then_resetting
    worker = await start_worker(answer(BODIES[name]))
    with pytest.raises((UpstreamBodyError, UpstreamRequestError)) as caught:
        await (await client.send(worker.url, "POST", "/", body=b"x")).read(1000)
    assert caught.value.status == 500
    if isinstance(caught.value, UpstreamBodyError):
        assert caught.value.code == "read_response_body_failed"
        assert ("x-smg-routed-worker-id", worker.url) in caught.value.headers


async def test_what_came_before_a_cut_is_handed_on(client: UpstreamClient, start_worker: StartWorker, kit: Kit) -> None:
    """Pieces of a stream that is cut later reach the client before the failure does."""
    worker = await start_worker(kit.saying_then_resetting(CHUNKED, b"5\r\nfirst\r\n"))
    pieces = (await client.send(worker.url, "GET", "/")).body()
    assert await anext(pieces) == b"first"
    with pytest.raises(UpstreamBodyError):
        await anext(pieces)


async def test_what_came_together_with_a_cut_is_handed_on_too(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """Bytes that were not yet taken when the connection ended are not lost with it."""
    worker = await start_worker(kit.saying_then_closing(CHUNKED + b"5\r\nfirst\r\n6\r\nsec"))
    response = await client.send(worker.url, "GET", "/")
    await asyncio.sleep(0.1)  # the end is here before anything was taken
    pieces = response.body()
    assert await anext(pieces) == b"firstsec"
    with pytest.raises(UpstreamBodyError):
        await anext(pieces)


async def test_both_framings_are_read_one_way_and_not_reused(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """A response with a length and chunks is read by its chunks or refused, and its connection is not used again."""
    both = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    worker = await start_worker(kit.saying(both), kit.saying(kit.response()))
    try:
        body = await (await client.send(worker.url, "GET", "/")).read(100)
    except (UpstreamRequestError, UpstreamBodyError):
        body = b"hello"
    assert body == b"hello"
    assert await (await client.send(worker.url, "GET", "/")).read(100) == b'{"ok":true}'


@pytest.mark.parametrize("behind", [b"garbage\r\n", b"\x00", b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled"])
async def test_bytes_after_a_response_do_not_become_the_next_one(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, behind: bytes
) -> None:
    """Garbage behind a response, even a whole second response, spoils neither that response nor the next request's."""
    worker = await start_worker(kit.saying(kit.response(b"good") + behind), kit.saying(kit.response(b"next")))
    assert await (await client.send(worker.url, "GET", "/")).read(100) == b"good"
    assert await (await client.send(worker.url, "GET", "/")).read(100) == b"next"


async def test_a_silent_worker_ends_with_the_request_timeout(start_worker: StartWorker, kit: Kit) -> None:
    """No head in time is a 504."""
    client = UpstreamClient(request_timeout_s=0.3, pool_idle_timeout_s=3.0)
    await client.start()
    worker = await start_worker(kit.saying_then_waiting(b"HTTP/1.1 200 OK\r\n"))
    began = time.monotonic()
    with pytest.raises(UpstreamTimeoutError) as caught:
        await client.send(worker.url, "POST", "/", body=b"x")
    assert (caught.value.status, caught.value.code) == (504, "call_upstream_timeout")
    assert 0.25 <= time.monotonic() - began < 1.5
    await asyncio.wait_for(worker.seen[0].peer_left.wait(), 1)
    await client.stop()


@pytest.mark.parametrize("every_s", [None, 0.02])
async def test_the_request_timeout_bounds_the_body_too(
    start_worker: StartWorker, kit: Kit, every_s: float | None
) -> None:
    """A body that stalls, or drips without end, is cut when the time is up."""

    async def answer(turn: Any) -> None:
        await turn.send(CHUNKED)
        while every_s is not None:
            await turn.send(b"1\r\nx\r\n")
            await asyncio.sleep(every_s)
        await turn.until_peer_leaves()

    client = UpstreamClient(request_timeout_s=0.4, pool_idle_timeout_s=3.0)
    await client.start()
    worker = await start_worker(answer)
    response = await client.send(worker.url, "GET", "/")
    began = time.monotonic()
    with pytest.raises(UpstreamBodyError):
        await response.read(100_000)
    assert time.monotonic() - began < 1.5
    await client.stop()


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_over_the_limit_is_refused_before_it_is_all_here(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, framing: str
) -> None:
    """A body larger than the limit is a 502 and its connection is cut; one of exactly the limit passes."""

    async def answer(turn: Any) -> None:
        if framing == "length":
            await turn.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n", b"x" * 101)
        else:
            await turn.send(CHUNKED, b"65\r\n", b"x" * 101, b"\r\n")
        await turn.until_peer_leaves()

    worker = await start_worker(answer, kit.saying(kit.response(b"x" * 100)))
    with pytest.raises(UpstreamTooLargeError) as caught:
        await (await client.send(worker.url, "GET", "/")).read(100)
    assert (caught.value.status, caught.value.code) == (502, "upstream_response_too_large")
    assert ("x-smg-routed-worker-id", worker.url) in caught.value.headers
    await asyncio.wait_for(worker.seen[0].peer_left.wait(), 1)
    assert await (await client.send(worker.url, "GET", "/")).read(100) == b"x" * 100


async def test_a_worker_that_closed_an_idle_connection_is_no_failure(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """A connection the worker closed between two requests is not used for the second."""
    worker = await start_worker(kit.saying_then_closing(kit.response()), kit.saying(kit.response()))
    for _ in range(2):
        await (await client.send(worker.url, "POST", "/", body=b"x")).read(100)
        await asyncio.sleep(0.05)
    assert worker.connections == 2


async def test_a_connection_that_dies_under_a_request_is_told_from_a_worker_that_fails(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit
) -> None:
    """After a pause, a connection that ends without a byte is called stale; a fresh one never is."""
    fail = kit.saying_then_closing(b"")
    worker = await start_worker(kit.saying(kit.response()), fail, fail)
    await (await client.send(worker.url, "POST", "/", body=b"x")).read(100)
    await asyncio.sleep(0.25)
    with pytest.raises(UpstreamRequestError) as first:
        await client.send(worker.url, "POST", "/", body=b"x")
    with pytest.raises(UpstreamRequestError) as second:
        await client.send(worker.url, "POST", "/", body=b"x")
    assert (first.value.stale, second.value.stale) == (True, False)


async def test_idle_connections_are_closed_before_the_workers_would(start_worker: StartWorker, kit: Kit) -> None:
    """A pooled connection idle for longer than its time is not used again."""
    client = UpstreamClient(request_timeout_s=2.0, pool_idle_timeout_s=0.1)
    await client.start()
    worker = await start_worker(kit.saying(kit.response()))
    for _ in range(2):
        await (await client.send(worker.url, "POST", "/", body=b"x")).read(100)
        await asyncio.sleep(0.2)
    assert worker.connections == 2
    await client.stop()


MOMENTS = {
    "before the head": [],
    "in the head": [b"HTTP/1.1 200 OK\r\n"],
    "after the head": [CHUNKED],
    "in the body": [CHUNKED, b"5\r\nhello\r\n"],
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_worker_feels_within_a_tenth_of_a_second_that_the_client_left(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, moment: str
) -> None:
    """Giving up a request or a response, at any moment, ends the worker's connection within 100 ms."""
    worker = await start_worker(kit.saying_then_waiting(*MOMENTS[moment]))

    async def relay() -> None:
        response = await client.send(worker.url, "POST", "/", body=b"x")
        try:
            async for _ in response.body():
                pass
        finally:
            await response.aclose()

    task = asyncio.create_task(relay())
    while not worker.seen:  # noqa: ASYNC110 - the worker announces nothing
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    left_at = time.monotonic()
    task.cancel()
    await asyncio.wait_for(worker.seen[0].peer_left.wait(), 2)
    assert worker.seen[0].peer_left_at is not None
    assert worker.seen[0].peer_left_at - left_at < 0.1


async def test_a_request_nobody_reads_is_given_up_whole(
    client: UpstreamClient, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """A request still being sent when the client leaves is cut at once: it does not wait for the worker to read on."""
    size = 50_000_000  # conftest's worker reads only the head of so much
    reached, finished = asyncio.Event(), asyncio.Event()

    async def answer(turn: Any) -> None:
        turn.writer.transport.pause_reading()
        reached.set()
        await finished.wait()

    worker = await start_worker(answer)
    files = _open_files()
    task = asyncio.create_task(client.send(worker.url, "POST", "/", body=bytes(size)))
    await asyncio.wait_for(reached.wait(), 5)
    assert _open_files() == files + 2  # both ends are in this process
    await asyncio.sleep(0.3)  # until every buffer between them is full
    task.cancel()
    await until(lambda: _open_files() == files + 1, 1)
    finished.set()


async def test_abandoned_requests_leave_nothing_open(
    client: UpstreamClient, start_worker: StartWorker, kit: Kit, until: Callable[..., Any]
) -> None:
    """Two thousand requests given up at every moment leave no file and no task behind."""
    answers = [kit.saying_then_waiting(*pieces) for pieces in MOMENTS.values()]
    worker = await start_worker(*answers)

    async def cycle(turn: Any) -> None:
        await answers[turn.number % len(answers)](turn)

    worker.answers = [cycle]
    files, tasks = _open_files(), len(asyncio.all_tasks())

    async def abandoned(delay_s: float) -> None:
        response = None
        try:
            async with asyncio.timeout(delay_s):
                response = await client.send(worker.url, "POST", "/", body=b"x" * 100)
                async for _ in response.body():
                    pass
        except TimeoutError:
            pass
        finally:
            if response is not None:
                await response.aclose()

    for batch in range(40):
        await asyncio.gather(*(abandoned((batch + number) % 7 * 0.002) for number in range(50)))
    await until(lambda: _open_files() <= files + 2 and len(asyncio.all_tasks()) <= tasks + 2)
