"""Requests in HTTP/2, to gateways that claim to speak it: the same answers, and clients that take requests back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.keepalive_support import LAST, ONE, PATIENCE_S, expect_only_pings_added, quiet
from conformance.checks.routes_support import NOBODYS_KEY, expect_code, expect_empty, expect_equal, expect_status
from conformance.checks.stream_support import broken_stream, felt_after_s, tells_of_the_break
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Hold, Reply, Reset

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Scripted, Worker


FELT_BOUND_S = 1.0
"""How soon a worker must feel that its request was taken back; closed connections are judged more closely elsewhere."""


def expect_same_fields(plain: Exchange, answer: Exchange) -> None:
    """The gateway's own header fields are there in both, and none that HTTP/2 forbids; Disproved otherwise."""
    forbidden = {"connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"}
    expect_equal("header fields of HTTP/1.1", sorted(forbidden & set(answer.headers.names)), [])
    expect_equal("upper case in header fields", [name for name, _ in answer.headers.items if name != name.lower()], [])
    for name in ("content-type", "x-smg-routed-worker-id", "x-smg-error-code"):
        expect_equal(f"another {name}", answer.headers.get_all(name), plain.headers.get_all(name))


@clause("transport.http2.served")
async def test_an_answer_in_http2(gateway: Gateway, worker: Worker) -> None:
    """A chat completion asked for in HTTP/2 is the one that HTTP/1.1 brings."""
    plain = await gateway.chat(worker.script())
    script = worker.script()
    answer = await gateway.request("POST", CHAT, gateway.chat_body(script), http2=True)
    await script.only()
    expect_status(answer, 200)
    assert answer.closed_cleanly, answer.brief()
    expect_same_fields(plain, answer)
    expect_equal("another answer", answer.json["choices"], plain.json["choices"])


@clause("transport.http2.refused")
async def test_a_refusal_in_http2(gateway: Gateway, worker: Worker) -> None:
    """A wrong body and an unknown model are told the same in HTTP/2."""
    for fields, status in (({"temperature": 9}, 400), ({"model": "conformance-nobody"}, 404)):
        body = gateway.chat_body(worker.script(), **fields)
        plain = expect_status(await gateway.post(CHAT, body), status)
        answer = expect_status(await gateway.request("POST", CHAT, body, http2=True), status)
        expect_same_fields(plain, answer)
        expect_code(answer, plain.json["error"].get("code"))


@clause("transport.http2.stream")
async def test_a_stream_in_http2(gateway: Gateway, worker: Worker) -> None:
    """A stream asked for in HTTP/2 brings each event when it is there, and ends with [DONE]."""
    script = worker.script(Reply(pieces=["Hello", " world"], hold_before={1: "second"}))
    body = gateway.chat_body(script, stream=True)
    async with gateway.open("POST", CHAT, body, http2=True) as live:
        await live.until(b"Hello", within_s=5.0)
        assert await script.reached("second")
        assert b"world" not in live.exchange.body
        await script.release("second")
        chat = await live.rest()
    assert chat.ended_with_done, chat.brief()
    assert "".join(each["choices"][0]["delta"].get("content") or "" for each in chat.chunks) == "Hello world"


@clause("transport.http2.broken_stream")
async def test_a_broken_stream_in_http2(gateway: Gateway, worker: Worker) -> None:
    """A stream that its worker breaks off looks broken in HTTP/2: it is reset, or says so in an event."""
    script = worker.script(broken_stream(ONE, Hold(name="break"), Reset()))
    async with gateway.open("POST", CHAT, gateway.chat_body(script, stream=True), http2=True) as live:
        await live.until(ONE, within_s=5.0)
        await script.release("break")
        chat = await live.rest()
    assert chat.outcome != "timeout", chat.brief()
    assert tells_of_the_break(chat), chat.brief()


async def _felt(script: Scripted, gateway: Gateway, noise: Noise, *, stream: bool) -> None:
    """Take a request back while its worker is held; Disproved when the worker does not feel it at once."""
    async with gateway.open("POST", CHAT, gateway.chat_body(script, stream=stream), http2=True) as live:
        assert await script.reached("quiet")
        if stream:
            await live.until(ONE, within_s=5.0)
        left_at = live.abort()
        felt_s = felt_after_s(await script.peer_left(), left_at)
    if felt_s > noise.allow(FELT_BOUND_S):
        raise Disproved("felt late", f"the worker felt {felt_s:.3f} s after its client that it had gone")


@clause("transport.http2.taken_back")
async def test_a_request_taken_back(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A client that resets its stream is noticed at once, before the worker's answer and in its middle."""
    await _felt(worker.script(Reply(hold_before={-1: "quiet"})), gateway, noise, stream=False)
    await _felt(quiet(worker), gateway, noise, stream=True)


@clause("transport.http2.unauthorized")
async def test_no_key_in_http2(gateway: Gateway, worker: Worker) -> None:
    """Without a key, or with one nobody issued, a request in HTTP/2 gets an empty 401; with the key it is served."""
    script = worker.script()
    expect_status(await gateway.request("POST", CHAT, gateway.chat_body(script), http2=True), 200)
    proof = await gateway.proof(worker, CHAT, {})
    for key in (None, NOBODYS_KEY):
        refused = worker.script()
        answer = await gateway.request("POST", CHAT, gateway.chat_body(refused), key=key, http2=True)
        expect_empty(expect_status(answer, 401))
        await refused.never_seen(because=proof)


@clause("transport.http2.keepalive")
async def test_a_silent_stream_in_http2(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A silent stream is pinged in HTTP/2 too, between its events."""
    script = quiet(worker)
    async with gateway.open("POST", CHAT, gateway.chat_body(script, stream=True), http2=True) as live:
        await live.until(ONE + b": ping\n\n", within_s=noise.allow(PATIENCE_S))
        await script.release("quiet")
        chat = await live.rest()
    expect_only_pings_added(chat, ONE + LAST + wire.DONE)
