"""Where no keepalive must come: before the worker's head, behind the end, in what is no event stream, or at all.

A silence proves nothing by itself, so while each of these is waited through, another stream of the same gateway is
silent too, and is pinged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.checks.keepalive_support import (
    DEFAULT_INTERVAL_S,
    LAST,
    LATE_S,
    ONE,
    WINDOW_S,
    expect_only_pings_added,
    proof_of_pings,
    quiet,
    together,
)
from conformance.checks.stream_support import completion_answer, stream_of
from conformance.harness import CHAT, Disproved, clause
from conformance.harness.gateway import MODELS
from conformance.harness.raw import Answered, Pause, converse
from fake_workers import wire
from fake_workers.script import Chunk, End, Head, Hold, Wire

if TYPE_CHECKING:
    from conformance.harness import Gateway, Noise, Worker

BUSY = {"error": {"message": "busy"}}
ANSWER = wire.compact(completion_answer())
REFUSAL = wire.compact(BUSY)


@clause("chat.stream.keepalive.not_before_head")
async def test_nothing_before_the_workers_head(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """While the worker has not answered, nothing is sent: what it then says keeps its own status."""

    async def held_before_its_head() -> None:
        script = worker.script(Wire(steps=[Hold(name="thinking"), *wire.json(503, BUSY).steps]))
        async with gateway.open_chat(script, stream=True) as live:
            assert await script.reached("thinking")
            if not await live.silent(WINDOW_S):
                raise Disproved(
                    "bytes before the worker answered", f"the worker is still held: {live.exchange.brief()}"
                )
            await script.release("thinking")
            chat = await live.rest()
        assert chat.status == 503, chat.brief()
        assert chat.json == BUSY

    await together(proof_of_pings(gateway, worker, noise), held_before_its_head())


@clause("chat.stream.keepalive.not_after_end")
async def test_nothing_behind_the_end(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Behind the end of a stream its connection is silent: the next answer on it begins where that answer begins."""

    async def kept_open() -> None:
        script = worker.script(stream_of(ONE, LAST, wire.DONE))
        first = gateway.written("POST", CHAT, gateway.chat_body(script, stream=True))
        second = gateway.written("GET", MODELS)
        steps = (b"".join(first), Answered(1), Pause(WINDOW_S), b"".join(second))
        talk = await converse(gateway, worker, *steps, methods=["POST", "GET"])
        assert talk.first.body == ONE + LAST + wire.DONE
        assert talk.first.closed_cleanly
        # A gateway may close the connection; then nothing came behind the end either.
        if talk.closed and len(talk.answers) == 1:
            assert not talk.first.trailing
        else:
            assert talk.statuses == [200, 200], talk.brief()

    await together(proof_of_pings(gateway, worker, noise), kept_open())


@clause("chat.stream.keepalive.after_done")
async def test_only_comments_behind_done(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """While the worker keeps its body open behind [DONE], nothing but keepalives comes, and the stream ends well."""

    async def open_behind_done() -> None:
        script = worker.script(stream_of(ONE, LAST, wire.DONE, Hold(name="open")))
        async with gateway.open_chat(script, stream=True) as live:
            await live.until(wire.DONE, within_s=5.0)
            await live.listen(WINDOW_S)
            await script.release("open")
            chat = await live.rest()
        assert chat.ended_with_done, chat.brief()
        expect_only_pings_added(chat, ONE + LAST + wire.DONE)

    await together(proof_of_pings(gateway, worker, noise), open_behind_done())


async def silent_json(gateway: Gateway, worker: Worker, status: int, data: bytes, **fields: Any) -> None:
    """Let a worker fall silent in the middle of a JSON answer; Disproved when the client gets other bytes than sent."""
    head = Head(status=status, headers=[("content-type", "application/json")])
    middle = len(data) // 2
    script = worker.script(
        Wire(steps=[head, Chunk(data=data[:middle]), Hold(name="silent"), Chunk(data=data[middle:]), End()])
    )
    async with gateway.open_chat(script, **fields) as live:
        assert await script.reached("silent")
        await live.listen(WINDOW_S)
        await script.release("silent")
        chat = await live.rest()
    if chat.body != data or not chat.closed_cleanly:
        raise Disproved("JSON changed", f"a JSON answer with a silence in it did not arrive as sent: {chat.brief()}")


@clause("chat.stream.keepalive.not_in_whole_answers")
async def test_nothing_in_an_answer_that_is_no_stream(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Who asked for no stream gets the worker's JSON alone, however long its middle is waited for."""
    await together(proof_of_pings(gateway, worker, noise), silent_json(gateway, worker, 200, ANSWER))


@clause("chat.stream.keepalive.not_in_json")
async def test_nothing_in_json_for_a_stream(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Who asked for a stream and is answered with JSON, a success or an error, gets that JSON alone."""
    await together(
        proof_of_pings(gateway, worker, noise),
        silent_json(gateway, worker, 200, ANSWER, stream=True),
        silent_json(gateway, worker, 400, REFUSAL, stream=True),
    )


@clause("chat.stream.keepalive.off")
async def test_keepalives_switched_off(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Switched off, a silence longer than the default interval brings nothing, and the stream goes on behind it."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await live.event()
        silent = await live.silent(noise.allow(DEFAULT_INTERVAL_S + LATE_S))
        assert silent, f"bytes in the silence: {live.exchange.brief()}"
        await script.release("quiet")
        chat = await live.rest()
    assert chat.body == ONE + LAST + wire.DONE
