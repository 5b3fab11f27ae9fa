"""Connections: pipelining, half-closes, slow clients, Expect, HTTP/1.0, and reuse after an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from conformance.checks.raw_support import Raw
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from conformance.harness.raw import Answered, Conversation, Fin, slowly
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted, Worker


def content(answer: Exchange) -> str:
    """What the model said in a whole chat answer."""
    said: str = answer.json["choices"][0]["message"]["content"]
    return said


def request_for(raw: Raw, script: Scripted, *lines: str) -> bytes:
    """An honest request with another script's marker."""
    body = raw.body.replace(raw.seen.marker.encode(), script.marker.encode())
    return raw.head(f"Content-Length: {len(body)}", *lines, marker=script.marker) + body


@pytest.mark.parametrize("segments", ["one", "many"])
@clause("transport.raw.pipelining.in_order")
async def test_pipelined_answers_in_order(gateway: Gateway, worker: Worker, segments: str) -> None:
    """Three requests behind one another, the first held back by its worker: the answers come in order, each once."""
    raw = await Raw.of(gateway, worker)
    scripts = [
        worker.script(Reply(pieces=["first"], hold_before={-1: "gate"})),
        worker.script(Reply(pieces=["second"])),
        worker.script(Reply(pieces=["third"])),
    ]
    data = b"".join(request_for(raw, script) for script in scripts)
    steps = [data] if segments == "one" else [data[at : at + 97] for at in range(0, len(data), 97)]
    talking = asyncio.ensure_future(raw.say(*steps, methods=["POST"] * 3, patience_s=10))
    try:
        await scripts[0].received(1)
        await scripts[0].reached("gate")
        await scripts[1].look(1, 0.3)  # a gateway that works ahead gets the time for it
        await scripts[0].release("gate")
        talk = await talking
    finally:
        talking.cancel()
    assert [content(answer) for answer in talk.answers] == ["first", "second", "third"]
    for script in scripts:
        await script.only()


@clause("transport.raw.pipelining.behind_a_stream")
async def test_request_behind_a_stream(gateway: Gateway, worker: Worker) -> None:
    """A request pipelined behind a streamed one is answered after the stream's end, not into it."""
    raw = await Raw.of(gateway, worker, stream=True)
    second = worker.script(Reply(pieces=["second"]))
    plain = raw.body.replace(b',"stream":true', b"").replace(raw.seen.marker.encode(), second.marker.encode())
    behind = raw.head(f"Content-Length: {len(plain)}", marker=second.marker) + plain
    talk = await raw.say(raw.honest() + behind, methods=["POST", "POST"])
    assert talk.first.ended_with_done
    assert content(talk.answers[1]) == "second"
    await raw.seen.only()
    await second.only()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@clause("transport.raw.half_close.settles")
async def test_half_close_behind_request(gateway: Gateway, worker: Worker, *, stream: bool) -> None:
    """A client that half-closes behind its request is answered whole, or sees the connection closed; it never waits."""
    raw = await Raw.of(gateway, worker, stream=stream)
    talk = await raw.say(raw.honest(), Fin(), closing=True)
    if talk.status is not None:
        assert talk.status in {200, 499}
        assert talk.first.closed_cleanly or talk.closed
    else:
        assert talk.closed
    await raw.at_most_once(raw.seen)


@clause("transport.raw.half_close.in_head")
async def test_half_close_in_head(gateway: Gateway, worker: Worker) -> None:
    """A client that half-closes inside its head has sent no request: a 4xx or a closed connection, and no dispatch."""
    raw = await Raw.of(gateway, worker)
    talk = await raw.say(raw.honest()[: -len(raw.body) - 2], Fin(), closing=True)
    await raw.refused(talk)
    assert talk.closed


@pytest.mark.parametrize("size", [1, 7, 64])
@clause("transport.raw.slow.served")
async def test_slow_client_is_served(gateway: Gateway, worker: Worker, size: int) -> None:
    """A request that trickles in, down to a byte a segment, is served like any other."""
    raw = await Raw.of(gateway, worker)
    await raw.served(await raw.say(*slowly(raw.honest(), size, every_s=0.001)))


@pytest.mark.parametrize(
    "cut", [-1, -2, -3, 1], ids=["before-lf", "before-crlf", "inside-crlf-crlf", "first-body-byte"]
)
@clause("transport.raw.slow.cut_at_head_end")
async def test_segment_ends_at_the_head_end(gateway: Gateway, worker: Worker, cut: int) -> None:
    """Wherever a segment ends round the end of the head, the request is the same."""
    raw = await Raw.of(gateway, worker)
    data = raw.honest()
    at = len(data) - len(raw.body) + cut
    await raw.served(await raw.say(*slowly(data[:at], at, every_s=0.05), data[at:]))


@clause("transport.raw.expect.continue_sent")
async def test_continue_is_sent(gateway: Gateway, worker: Worker) -> None:
    """A client that waits for 100 Continue gets it, or a final answer, before it has sent a byte of the body."""
    raw = await Raw.of(gateway, worker)
    head = raw.head(f"Content-Length: {len(raw.body)}", "Expect: 100-continue")
    talk = await raw.say(head)
    if 100 not in talk.first.informational and (talk.status is None or talk.gave_up):
        raise Disproved("client left waiting", f"neither 100 nor an answer came: {talk.brief()}")
    await raw.refused(talk)  # nothing was asked in the end


@clause("transport.raw.expect.served")
async def test_body_behind_continue_is_served(gateway: Gateway, worker: Worker) -> None:
    """Told to continue, the client sends its body and is served; the expectation is not passed on."""
    raw = await Raw.of(gateway, worker)
    head = raw.head(f"Content-Length: {len(raw.body)}", "Expect: 100-continue")
    entry = await raw.served(await raw.say(head, Answered(informational=True), raw.body))
    assert entry.header("expect") is None


@clause("transport.raw.expect.http_1_0")
async def test_no_continue_in_http_1_0(gateway: Gateway, worker: Worker) -> None:
    """A client that speaks HTTP/1.0 is sent no 100 Continue, which it could not understand."""
    raw = await Raw.of(gateway, worker)
    talk = await raw.say(raw.honest("Expect: 100-continue", first=f"POST {CHAT} HTTP/1.0"))
    assert talk.first.informational == []
    await raw.served(talk)


@clause("transport.raw.expect.refused_body_is_no_request")
async def test_body_of_refused_expectation(gateway: Gateway, worker: Worker) -> None:
    """A request refused while its body is awaited: the body that comes nevertheless is not taken for a request."""
    raw = await Raw.of(gateway, worker)
    body = raw.smuggled()
    head = raw.head(f"Content-Length: {len(body)}", "Expect: 100-continue", first="POST /igc/nowhere HTTP/1.1")
    talk = await raw.say(head, Answered(informational=True), body)
    await raw.refused(talk)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@clause("transport.raw.http_1_0.keep_alive")
async def test_http_1_0_keep_alive(gateway: Gateway, worker: Worker, *, stream: bool) -> None:
    """HTTP/1.0 with keep-alive: no chunks, and the connection is kept only where the answer has a length."""
    raw = await Raw.of(gateway, worker, stream=stream)
    second = worker.script()
    again = request_for(raw, second)
    first = raw.honest("Connection: keep-alive", first=f"POST {CHAT} HTTP/1.0")
    talk = await raw.say(first, Answered(1), again, closing=True)
    assert talk.status == 200
    assert talk.first.headers.get("transfer-encoding") is None
    if len(talk.answers) > 1:
        assert talk.first.headers.get("content-length") is not None
        assert talk.answers[1].status == 200
    else:
        assert talk.closed
    await raw.at_most_once(second)


REFUSED = [
    pytest.param("POST /igc/nowhere HTTP/1.1", [], id="unknown-path"),
    pytest.param(f"PUT {CHAT} HTTP/1.1", [], id="wrong-method"),
    pytest.param(f"POST {CHAT} HTTP/1.1", [], id="no-json"),
    pytest.param(f"POST {CHAT} HTTP/1.1", ["Content-Encoding: gzip"], id="encoded"),
    pytest.param("GET /v1/models HTTP/1.1", [], id="body-on-get"),
    pytest.param("GET /health HTTP/1.1", [], id="body-on-health"),
    pytest.param("DELETE /v1/models HTTP/1.1", [], id="body-on-delete"),
    pytest.param("OPTIONS * HTTP/1.1", [], id="body-on-options"),
    pytest.param("GET /v1/models HTTP/1.1", ["Connection: Upgrade", "Upgrade: websocket"], id="upgrade"),
    pytest.param(
        "GET /v1/models HTTP/1.1",
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"],
        id="upgrade-h2c",
    ),
]


def _follow(talk: Conversation, following: Scripted) -> None:
    """The request behind is answered, or the connection was closed before it, and not because its client gave up."""
    if talk.closed and not talk.gave_up and len(talk.answers) == 1:
        assert following.entries == []
    else:
        assert talk.statuses[1:] == [200]
        assert len(following.entries) == 1


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize(("first", "lines"), REFUSED)
@clause("transport.raw.reuse.body_is_no_request")
async def test_unread_body_is_no_request(
    gateway: Gateway, worker: Worker, first: str, lines: list[str], framing: str
) -> None:
    """The body of a request whose body nobody wants is not the next request; the one behind it is, or none is."""
    raw = await Raw.of(gateway, worker)
    following = worker.script()
    body = raw.smuggled()
    if framing == "length":
        data = raw.head(f"Content-Length: {len(body)}", *lines, first=first) + body
    else:
        data = (
            raw.head("Transfer-Encoding: chunked", *lines, first=first)
            + b"%x\r\n" % len(body)
            + body
            + b"\r\n0\r\n\r\n"
        )
    talk = await raw.say(data + request_for(raw, following), methods=[first.split(" ", maxsplit=1)[0], "POST"])
    await raw.nothing_smuggled()
    await following.look(0)
    _follow(talk, following)


@clause("transport.raw.reuse.after_too_large")
async def test_too_large_body_is_no_request(gateway: Gateway, worker: Worker) -> None:
    """A body over the limit, made of requests: none of them is served, the one behind it is, or none is."""
    raw = await Raw.of(gateway, worker)
    following = worker.script()
    one = raw.smuggled()
    body = one * (60_000 // len(one))
    data = raw.head(f"Content-Length: {len(body)}") + body
    talk = await raw.say(data + request_for(raw, following), methods=["POST", "POST"])
    assert talk.status in {413, None}
    await raw.nothing_smuggled()
    await following.look(0)
    _follow(talk, following)


@pytest.mark.parametrize(
    "body",
    [b'{"model": "\xff\xfe"}', b"\0" * 20, b"{\0}", b"\xef\xbb\xbf{}", b'{"a": "\x01"}', b"\xed\xa0\x80"],
    ids=["no-utf8", "nuls", "nul-inside", "byte-order-mark", "control", "surrogate"],
)
@clause("transport.raw.reuse.after_bad_body")
async def test_reuse_after_bad_bytes(gateway: Gateway, worker: Worker, body: bytes) -> None:
    """Bytes that are no JSON text are refused with 400, and the next request on the connection is served."""
    raw = await Raw.of(gateway, worker)
    following = worker.script()
    talk = await raw.say(
        raw.head(f"Content-Length: {len(body)}") + body + request_for(raw, following), methods=["POST", "POST"]
    )
    assert talk.status == 400
    await following.look(0)
    _follow(talk, following)
