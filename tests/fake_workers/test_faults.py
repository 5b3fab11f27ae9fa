"""Every fault, seen from outside by a client that shows every byte."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers import (
    Chunk,
    Close,
    Control,
    Drip,
    End,
    Fleet,
    Head,
    Hold,
    Pause,
    Raw,
    Reply,
    Reset,
    Script,
    Wire,
    new_marker,
    wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RawFactory = Any


async def dispatch(control: Control, client: Any, *answers: Reply | Wire, path: str = "/v1/chat/completions") -> str:
    """Script a fresh marker and send a request that carries it."""
    marker = new_marker()
    await control.put_script(marker, Script.of(*answers))
    await client.post(path, json.dumps({"model": "m", "messages": [{"role": "user", "content": marker}]}).encode())
    return marker


async def outcome(control: Control, marker: str) -> str | None:
    """Return the outcome the journal has for the marker's first request."""
    for _ in range(100):
        entries = await control.entries(marker, at_least=1)
        if entries and entries[0].outcome is not None:
            return entries[0].outcome
        await asyncio.sleep(0.01)
    return None


async def test_close_before_headers(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """The connection is closed with a FIN and not one byte of an answer."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, wire.close_before_headers())
        assert await client.all() == b""
    assert await outcome(control, marker) == "closed"


async def test_reset_before_headers(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """The connection is reset and not one byte of an answer is sent."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, wire.reset_before_headers())
        with pytest.raises(ConnectionResetError):
            await client.all()
        assert client.reads == []
    assert await outcome(control, marker) == "reset"


async def test_reset_after_bytes(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """What was sent before a reset arrives, then comes the reset."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=[Head(), Chunk(data=b"abc"), Pause(seconds=0.05), Reset()]))
        with pytest.raises(ConnectionResetError):
            await client.all()
        assert b"".join(client.reads).endswith(b"3\r\nabc\r\n")


async def test_cut_after_n_bytes(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A body cut after n bytes promises its full length and ends early."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.cut(wire.json(200, {"abc": "defgh"}), 5))
        head, _, body = (await client.all()).partition(b"\r\n\r\n")
        assert b"content-length: 15" in head
        assert body == b'{"abc'


async def test_cut_in_a_stream(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A stream cut after n bytes has no last chunk."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.cut(wire.sse({"a": 1}, {"b": 2}), 20))
        body = (await client.all()).partition(b"\r\n\r\n")[2]
        assert b'data: {"a":1}\n\n' in body
        assert not body.endswith(b"0\r\n\r\n")


async def test_stall_after_n_bytes(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A stalled body stays open until the client gives up, and the journal says when that was."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, wire.stall(wire.json(200, {"abc": 1}), 3))
        assert (await client.message_head_and(3)).endswith(b'{"a')
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)
        client.writer.close()
    left = time.monotonic()
    entry = await control.until_peer_closed(marker)
    assert entry.outcome == "peer_left"
    assert entry.peer_closed_at is not None
    assert abs(entry.peer_closed_at - left) < 1.0


async def test_a_stall_ends_by_itself(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A stall has a bound; then the worker closes."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, wire.never_answer(max_s=0.05))
        assert await client.all() == b""
    assert await outcome(control, marker) == "stalled"


async def test_split_inside_a_character(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A UTF-8 character can be split over two chunks that arrive apart."""
    data = wire.event({"text": "né"})
    at = data.index("é".encode()) + 1
    steps = [wire.sse_head(), *wire.split_at(data, at), End()]
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=steps))
        _, body = await client.message()
        assert body == data
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=[*steps[:-1], Close()]))
        await client.all()
        assert any(read.rstrip(b"\r\n").endswith(b"\xc3") for read in client.reads)


async def test_split_inside_crlf(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A head can be split between the CR and the LF of its end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    steps = [*wire.raw_split_at(head + b"ok", len(head) - 1), Close()]
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=steps))
        assert await client.all() == head + b"ok"
        assert client.reads[0].endswith(b"\r\n\r")


@pytest.mark.parametrize(("done", "count"), [(False, 0), (True, 1), (2, 2)])
async def test_done_missing_or_doubled(fleet: Fleet, control: Control, raw: RawFactory, done: int, count: int) -> None:
    """[DONE] can be left out, and doubled."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.sse({"a": 1}, done=done))
        _, body = await client.message()
        assert body.count(b"data: [DONE]\n\n") == count


@pytest.mark.parametrize(
    ("answer", "head_has", "expected"),
    [
        (wire.body(200, b'{"a":', "application/json"), b"application/json", b'{"a":'),
        (wire.body(200, b"<html>", "text/html"), b"text/html", b"<html>"),
        (wire.json(429, {"error": "slow"}, [("Retry-After", "7")]), b"Retry-After: 7", b'{"error":"slow"}'),
        (wire.json(503, {"object": "error"}), b"503 Service Unavailable", b'{"object":"error"}'),
        (wire.body(502, b"<h1>Bad</h1>", "text/html"), b"502 Bad Gateway", b"<h1>Bad</h1>"),
        (wire.body(500, b""), b"500 Internal Server Error", b""),
        (wire.redirect("http://127.0.0.1:1/x"), b"location: http://127.0.0.1:1/x", b""),
        (wire.slow(b'{"a":1}', size=2, every_s=0.001), b"content-length: 7", b'{"a":1}'),
    ],
)
async def test_bodies(  # noqa: PLR0917 - fixtures and the three columns of the table
    fleet: Fleet, control: Control, raw: RawFactory, answer: Wire, head_has: bytes, expected: bytes
) -> None:
    """Status, headers, type and body are exactly the scripted ones, valid or not."""
    async with raw(fleet.urls[1]) as client:
        marker = await dispatch(control, client, answer)
        head, body = await client.message()
        assert head_has in head
        assert body == expected
    assert await outcome(control, marker) == "answered"


async def test_exact_head(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Nothing is added to a scripted head: order, spelling and doubled fields stay."""
    headers = [("X-B", "2"), ("x-a", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("content-length", "0")]
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=[Head(status=299, reason="Odd", headers=headers), End()]))
        head, _ = await client.message()
    lines = b"X-B: 2\r\nx-a: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\ncontent-length: 0"
    assert head == b"HTTP/1.1 299 Odd\r\n" + lines + b"\r\n\r\n"


async def test_both_framings(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """An answer can carry content-length and transfer-encoding at once."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.both_framings(b"{}", length=7))
        head, body = await client.message()
        assert b"content-length: 7\r\n" in head
        assert b"transfer-encoding: chunked\r\n" in head
        assert body == b"{}"


async def test_trailing_garbage(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Bytes can follow the end of the body."""
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.trailing_garbage(wire.json(200, {}), b"HTTP/0.9 ???"))
        assert (await client.all()).endswith(b"\r\n\r\n{}HTTP/0.9 ???")
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.trailing_garbage(wire.sse("x"), b"???"))
        assert (await client.all()).endswith(b"0\r\n\r\n???")


async def test_body_until_close(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A body without framing ends with the connection."""
    steps = [Head(framing="none"), Chunk(data=b"abc"), End()]
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=steps))
        assert await client.all() == b"HTTP/1.1 200 OK\r\n\r\nabc"


async def test_oversized(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """An oversized body has exactly the size asked for, declared or chunked."""
    for declared in (True, False):
        async with raw(fleet.urls[0]) as client:
            await dispatch(control, client, wire.oversized(300_000, declared=declared))
            head, body = await client.message()
            assert (b"content-length: 300000" in head) == declared
            assert len(json.loads(body)) == 300_000 - 2


async def test_drip(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A drip arrives in many reads, spread over time."""
    steps = [Head(headers=[("content-length", "6")]), Drip(data=b"abcdef", size=2, every_s=0.03), Close()]
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, Wire(steps=steps))
        assert (await client.all()).endswith(b"abcdef")
        entry = (await control.entries(marker))[0]
    times = [at for at, _ in entry.sent]
    assert [size for _, size in entry.sent][1:] == [2, 2, 2]
    assert times[-1] - times[1] >= 0.05


async def test_comments_and_multi_line_data(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Comments, several data lines, ids, names and CRLF line ends go out as written."""
    blocks = [
        wire.comment("busy"),
        wire.event("a\nb", name="ping", id="7"),
        wire.event("c", newline="\r\n", space=False),
    ]
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, wire.sse(*blocks, done=False))
        _, body = await client.message()
    assert body == b": busy\n\nevent: ping\nid: 7\ndata: a\ndata: b\n\ndata:c\r\n\r\n"


async def test_interim_answers(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Interim answers and anything else raw can come before the head."""
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    async with raw(fleet.urls[0]) as client:
        await dispatch(control, client, Wire(steps=[Raw(data=early), *wire.json(200, {}).steps]))
        assert (await client.message())[0] == early
        assert (await client.message())[1] == b"{}"


async def test_hold_and_release(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A hold stops the answer exactly there until the test releases it."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(control, client, wire.sse("one", "two", hold_before={1: "gate"}))
        assert await control.reached(marker, "gate")
        while b"data: one\n\n" not in b"".join(client.reads):
            await client.chunk()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)
        await control.release(marker, "gate")
        while not b"".join(client.reads).endswith(b"0\r\n\r\n"):
            await client.chunk()
        assert b"data: two\n\n" in b"".join(client.reads)


async def test_a_forgotten_hold_hangs_up(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A hold nobody releases ends the connection, so that no test passes by having waited."""
    async with raw(fleet.urls[0]) as client:
        marker = await dispatch(
            control, client, Wire(steps=[Hold(name="never", max_s=0.05), *wire.json(200, {}).steps])
        )
        assert await client.all() == b""
    assert await outcome(control, marker) == "hold_expired"


async def test_answers_by_dispatch(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """The n-th dispatch gets the n-th answer, the last one repeats."""
    marker = new_marker()
    await control.put_script(marker, Script.of(wire.json(503, {}), wire.json(200, {"ok": True})))
    statuses = []
    for _ in range(3):
        async with raw(fleet.urls[0]) as client:
            await client.post("/v1/chat/completions", marker.encode())
            statuses.append((await client.message())[0][9:12])
    assert statuses == [b"503", b"200", b"200"]
    assert [entry.dispatch for entry in await control.entries(marker)] == [0, 1, 2]


@pytest.mark.parametrize("place", ["body", "target", "head", "broken json"])
async def test_the_marker_is_found_anywhere(
    fleet: Fleet, control: Control, raw: Callable[[str], Any], place: str
) -> None:
    """A script is found by its marker in the body, the target or the head, parseable or not."""
    marker = new_marker()
    await control.put_script(marker, Script.of(wire.json(201, {"found": True})))
    async with raw(fleet.urls[0]) as client:
        if place == "target":
            await client.post(f"/x?{marker}", b"{}")
        elif place == "head":
            await client.post("/x", b"{}", f"x-thing: {marker}")
        elif place == "body":
            await client.post("/x", json.dumps({"deep": [{"er": f"text {marker} text"}]}).encode())
        else:
            await client.post("/x", b'{"broken: ' + marker.encode())
        assert (await client.message())[0].startswith(b"HTTP/1.1 201 ")
