"""Completions: the streaming answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import spec
from conformance.checks.stream_support import (
    ALL_ENGINES,
    DISCONNECT_BOUND_S,
    broken_stream,
    felt_after_s,
    is_json,
    media_type,
    stream_of,
    tells_of_the_break,
    text_chunk,
)
from conformance.harness import clause, engines
from fake_workers import wire
from fake_workers.script import Close, Hold, Reply, Reset

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Noise, Worker

PIECES = Reply(pieces=[" jumps", " over", " the dog"], prompt_tokens=4, completion_tokens=3)
ONE, FINISH = wire.event(text_chunk("one")), wire.event(text_chunk("", finish="stop"))


async def stream(gateway: Gateway, worker: Worker, **fields: Any) -> Exchange:
    """Ask for a stream that the worker's engine words in its own way."""
    completion = await gateway.completion(worker.script(PIECES), stream=True, **fields)
    assert completion.succeeded, completion.brief()
    assert completion.events, "a stream without an event proves nothing"
    return completion


@engines(*ALL_ENGINES)
@clause("completions.stream.content_type")
async def test_content_type(gateway: Gateway, worker: Worker) -> None:
    """With stream true the content type is text/event-stream."""
    assert media_type(await stream(gateway, worker)) == "text/event-stream"


@engines(*ALL_ENGINES)
@clause("completions.stream.object")
async def test_objects(gateway: Gateway, worker: Worker) -> None:
    """Each chunk's object is text_completion."""
    assert {chunk["object"] for chunk in (await stream(gateway, worker)).chunks} == {"text_completion"}


@engines(*ALL_ENGINES)
@clause("completions.stream.text")
async def test_joined_text(gateway: Gateway, worker: Worker) -> None:
    """The chunks' texts, joined, are the generated text."""
    chunks = (await stream(gateway, worker)).chunks
    assert "".join(choice["text"] for chunk in chunks for choice in chunk["choices"]) == "".join(PIECES.pieces)


@engines(*ALL_ENGINES)
@clause("completions.stream.shape")
async def test_documented_shape(gateway: Gateway, worker: Worker) -> None:
    """Every chunk has the shape of the document, the usage chunk included."""
    chunks = (await stream(gateway, worker, stream_options={"include_usage": True})).chunks
    assert {problem for chunk in chunks for problem in spec.schemas.problems("CompletionChunk", chunk)} == set()


@engines(*ALL_ENGINES)
@clause("completions.stream.done_last")
async def test_done_comes_last(gateway: Gateway, worker: Worker) -> None:
    """The stream ends with [DONE] and nothing after it."""
    assert (await stream(gateway, worker)).ended_with_done


@clause("completions.stream.as_it_arrives")
async def test_each_event_before_the_next_is_written(gateway: Gateway, worker: Worker) -> None:
    """The client has event k while the worker is held before event k + 1."""
    texts = ["one", "two", "three"]
    script = worker.script(wire.sse(*map(text_chunk, texts), hold_before={1: "before-1", 2: "before-2"}))
    async with gateway.open_completion(script, stream=True) as live:
        for number, text in enumerate(texts):
            if number:
                await script.release(f"before-{number}")
            assert (await live.event(within_s=5.0)).json == text_chunk(text)
        completion = await live.rest()
    assert completion.ended_with_done


@clause("completions.stream.bytes")
async def test_odd_stream_arrives_byte_for_byte(gateway: Gateway, worker: Worker) -> None:
    """CRLF, comments, fields other than data and a cut inside a character reach the client as they were sent."""
    odd = (
        b'id: 7\r\nevent: odd\r\ndata: {"choices":[ ],"n":1.0,"t":"\xf0\x9f\x98\x80"}\r\n\r\n: note\n\n'
        + ONE
        + wire.DONE
    )
    script = worker.script(stream_of(*wire.split_at(odd, odd.index(b"\xf0") + 2, odd.index(b"\r\n\r\n") + 1)))
    completion = await gateway.completion(script, stream=True)
    await script.only()
    assert completion.body == odd


@clause("completions.stream.done_not_invented")
async def test_missing_done_stays_missing(gateway: Gateway, worker: Worker) -> None:
    """A stream that ends without [DONE] arrives without [DONE]."""
    script = worker.script(stream_of(ONE, FINISH))
    completion = await gateway.completion(script, stream=True)
    await script.completed()
    assert completion.body == ONE + FINISH


@clause("completions.stream.n_choices")
async def test_choices_take_turns(gateway: Gateway, worker: Worker) -> None:
    """Chunks of three choices arrive in the order in which they were sent, each with its index."""
    chunks = [
        text_chunk("c", index=2),
        text_chunk("a"),
        text_chunk("b", index=1, finish="stop"),
        text_chunk("A", finish="stop"),
        text_chunk("", index=2, finish="length"),
    ]
    script = worker.script(wire.sse(*chunks))
    completion = await gateway.completion(script, stream=True, n=3)
    await script.only()
    assert completion.chunks == chunks


@engines(*ALL_ENGINES)
@clause("completions.stream.usage_chunk")
async def test_usage_comes_last_and_alone(gateway: Gateway, worker: Worker) -> None:
    """With include_usage, the chunk before [DONE] has no choices and carries the engine's counts."""
    completion = await stream(gateway, worker, stream_options={"include_usage": True})
    *_, last, done = completion.events
    assert done.is_done
    assert last.json["choices"] == []
    assert (last.json["usage"]["prompt_tokens"], last.json["usage"]["total_tokens"]) == (4, 7)


@clause("completions.stream.usage_default_off")
async def test_usage_is_not_asked_for(gateway: Gateway, worker: Worker) -> None:
    """A streaming request without stream_options does not ask the engine for usage."""
    script = worker.script(PIECES)
    completion = await gateway.completion(script, stream=True)
    received = (await script.only()).json
    assert completion.succeeded
    assert received["stream"] is True
    assert not (received.get("stream_options") or {}).get("include_usage")


@clause("completions.stream.rejected")
@pytest.mark.parametrize("status", [400, 422, 429, 500, 503])
async def test_rejection_is_no_stream(gateway: Gateway, worker: Worker, status: int) -> None:
    """A rejected streaming request keeps the worker's status, its JSON content type and its body."""
    body = b'{ "object":"error", "message": "caf\xc3\xa9" }'
    script = worker.script(wire.body(status, body, "application/json"))
    completion = await gateway.completion(script, stream=True)
    await script.received()
    assert (completion.status, completion.body) == (status, body)
    assert is_json(completion)


@clause("completions.stream.disconnect")
async def test_leaving_while_the_worker_is_silent(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the reader of its stream has gone."""
    script = worker.script(broken_stream(ONE, Hold(name="silent")))
    async with gateway.open_completion(script, stream=True) as live:
        await live.event()
        assert await script.reached("silent")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("completions.stream.broken")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_break_is_visible(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A worker that breaks off leaves the client with a broken transfer or an error event."""
    script = worker.script(broken_stream(ONE, end))
    completion = await gateway.completion(script, stream=True)
    await script.received()
    assert tells_of_the_break(completion), completion.brief()
