"""The suite's own client: every byte, every way an answer can end, events however they are cut."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.harness import bodies
from conformance.harness.answer import NO_ANSWER
from conformance.harness.bodies import OMIT, PROMPT, encode, literal
from conformance.harness.client import Live
from conformance.harness.errors import Disproved, TargetError
from conformance.harness.headers import Headers
from conformance.harness.sse import SseParser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

REQUEST = [b"POST /x HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n"]


@asynccontextmanager
async def server(*pieces: bytes, then: str = "close", pause_s: float = 0.0) -> AsyncIterator[tuple[str, int]]:
    """A server that answers a request with these bytes, then closes, resets, or keeps the connection open."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if then == "reset":
            await asyncio.sleep(0.05)
            writer.transport.abort()
        elif then == "open":
            await over.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = listening.sockets[0].getsockname()
        yield host, port
    finally:
        over.set()
        listening.close()


def asking(address: tuple[str, int], within_s: float = 5.0, request: Sequence[bytes] = REQUEST) -> Live:
    """A request to that server."""
    return Live(address, request, method="POST", target="/x", within_s=within_s)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "then", "outcome", "body"),
    [
        (OK + b"content-length: 2\r\n\r\nhi", "open", "complete", b"hi"),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "open", "complete", b"hi"),
        (OK + b"\r\nhi", "close", "complete", b"hi"),
        (OK + b"content-length: 3\r\n\r\nhi", "close", "cut", b"hi"),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", "close", "cut", b"hi"),
        (b"", "close", "cut", b""),
        (b"what?\r\n\r\n", "close", "garbage", b""),
        (OK + b"content-length: 3\r\n\r\nhi", "open", "timeout", b"hi"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"content-length: 0\r\n\r\n", "open", "complete", b""),
    ],
)
async def test_how_an_answer_ends(answer: bytes, then: str, outcome: str, body: bytes) -> None:
    """Each way an answer can end has an outcome of its own, and what came of the body is kept."""
    async with server(answer, then=then) as address, asking(address, within_s=0.4) as live:
        exchange = await live.rest()
    assert (exchange.outcome, exchange.body) == (outcome, body)
    assert exchange.raw == answer
    assert sum(size for _, size in exchange.times.reads) == len(answer)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\ncontent-"], ids=["no byte", "half a head"])
async def test_a_missing_answer_is_said_in_words(head: bytes) -> None:
    """A connection that ends before a head is there is told as that, and not in the parser's terms."""
    async with server(head, then="close") as address, asking(address) as live:
        exchange = await live.rest()
    assert (exchange.outcome, exchange.status, exchange.problem) == ("cut", None, NO_ANSWER)


async def test_trailing_bytes_are_seen() -> None:
    """Bytes after the end of a response are kept apart from its body."""
    async with server(OK + b"content-length: 2\r\n\r\nhi" + b"more") as address, asking(address) as live:
        exchange = await live.rest()
    assert (exchange.body, exchange.trailing) == (b"hi", b"more")
    assert not exchange.ended_with_done


async def test_nobody_listens() -> None:
    """A connection that is refused is the environment's fault."""
    async with server() as address:
        pass
    with pytest.raises(TargetError, match="not running"):
        async with asking(address):
            pass


async def test_events_come_as_they_arrive() -> None:
    """event() returns with the event, not with the end of the stream; silent() tells that nothing comes."""
    head = OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    first = b"data: {}\n\n"
    async with server(head, b"%x\r\n%s\r\n" % (len(first), first), then="open") as address, asking(address) as live:
        began = time.monotonic()
        assert (await live.head()).status == 200
        assert await live.chunk() == {}
        assert time.monotonic() - began < 2
        assert await live.silent(0.1)
        with pytest.raises(Disproved, match="no event number 2"):
            await live.event(within_s=0.1)


@given(st.binary(max_size=30), st.lists(st.integers(0, 60), max_size=6))
def test_events_do_not_depend_on_how_they_are_cut(noise: bytes, cuts: list[int]) -> None:
    """Any cut of the same bytes gives the same events and comments, also inside CRLF and characters."""
    data = b"\xef\xbb\xbfdata: \xc5\xbc\r\ndata:two\r\n\r\n: ping\r\revent: e\nid: 7\ndata: x\n\n" + noise
    whole = SseParser()
    whole.feed(data, 0.0)
    parts = SseParser()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in pairwise(edges):
        parts.feed(data[start:end], 0.0)
    assert [(e.data, e.event, e.last_id) for e in parts.events] == [(e.data, e.event, e.last_id) for e in whole.events]
    assert [each.text for each in parts.comments] == [each.text for each in whole.comments]
    assert (whole.events[0].data, whole.events[1].event) == ("ż\ntwo", "e")


def test_bodies_are_exact() -> None:
    """Literals keep their digits, OMIT leaves a member out, PROMPT is replaced everywhere, bytes stay bytes."""
    assert (
        encode({"a": literal("1e3"), "b": literal("0.10"), "c": 1.0, "d": "ż"})
        == '{"a":1e3,"b":0.10,"c":1.0,"d":"ż"}'.encode()
    )
    body = bodies.body_for("/v1/chat/completions", "m", PROMPT, {"messages": OMIT, "stop": [PROMPT]})
    assert bodies.with_prompt(body, "p") == {"model": "m", "stop": ["p"]}
    assert bodies.with_prompt(b"x {{prompt}}", "p") == b"x p"
    assert bodies.with_prompt({"a": literal('["{{prompt}}"]')}, "p")["a"].encoded_json == '["p"]'


def test_heads_have_nothing_that_was_not_asked_for() -> None:
    """Given headers replace the client's own, None leaves them out, a list of bytes goes out as chunks."""
    (made,) = bodies.request("POST", "/x", {"a": 1}, [("Content-Type", "text/plain"), ("accept", None)], host="h:1")
    assert made.split(b"\r\n")[:4] == [
        b"POST /x HTTP/1.1",
        b"host: h:1",
        b"user-agent: inference-gateway-conformance",
        b"content-length: 7",
    ]
    assert b"Content-Type: text/plain" in made
    assert b"".join(bodies.request("POST", "/x", [b"ab", b"c"], [], host="h")).endswith(
        b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    )


def test_headers_are_a_multi_map() -> None:
    """Names are compared without regard to case, order and repeats are kept."""
    headers = Headers([("Set-Cookie", "a"), ("X-Y", "1"), ("set-cookie", "b")])
    assert headers.get_all("SET-COOKIE") == ["a", "b"]
    assert (headers["x-y"], headers.get("nope"), "X-y" in headers) == ("1", None, True)
    with pytest.raises(AssertionError, match="no header"):
        headers["nope"]
