"""Chat Completions: what a stream consists of, behind each engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import spec
from conformance.checks.stream_support import ALL_ENGINES, content_of, media_type
from conformance.harness import clause, engines
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

PIECES = Reply(pieces=["Hello", ", ", "world", "!"], prompt_tokens=9, completion_tokens=4)


async def stream(gateway: Gateway, worker: Worker, reply: Reply = PIECES, **fields: Any) -> Exchange:
    """Ask for a stream that the worker's engine words in its own way."""
    chat = await gateway.chat(worker.script(reply), stream=True, **fields)
    assert chat.succeeded, chat.brief()
    assert chat.events, "a stream without an event proves nothing"
    return chat


async def choices_of(gateway: Gateway, worker: Worker, **fields: Any) -> list[dict[str, Any]]:
    """Return every choice of every chunk, in order."""
    chat = await stream(gateway, worker, **fields)
    choices = [choice for chunk in chat.chunks for choice in chunk["choices"]]
    assert choices, "a stream without a choice proves nothing"
    return choices


@engines(*ALL_ENGINES)
@clause("chat.stream.status")
async def test_stream_is_200(gateway: Gateway, worker: Worker) -> None:
    """A stream that the worker opened is answered with status 200."""
    script = worker.script(PIECES)
    chat = await gateway.chat(script, stream=True)
    received = await script.only()
    assert received.json["stream"] is True
    assert chat.status == 200


@engines(*ALL_ENGINES)
@clause("chat.stream.content_type")
async def test_content_type(gateway: Gateway, worker: Worker) -> None:
    """With stream true the content type is text/event-stream."""
    assert media_type(await stream(gateway, worker)) == "text/event-stream"


@engines(*ALL_ENGINES)
@clause("chat.stream.framing")
async def test_one_data_line_an_event(gateway: Gateway, worker: Worker) -> None:
    """Each event is one data line with a JSON object, closed by a blank line, and the body holds nothing else."""
    chat = await stream(gateway, worker)
    *chunks, _ = chat.events
    for event in chunks:
        assert event.raw.count(b"\n") == 2, event.raw
        assert event.raw.startswith(b"data: {"), event.raw
        assert isinstance(event.json, dict)
    assert b"".join(event.raw for event in chat.events) == chat.body


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.id")
async def test_ids(gateway: Gateway, worker: Worker) -> None:
    """Each chunk has an id, a non-empty string."""
    for chunk in (await stream(gateway, worker)).chunks:
        assert isinstance(chunk["id"], str)
        assert chunk["id"]


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.same_id")
async def test_one_id_throughout(gateway: Gateway, worker: Worker) -> None:
    """All chunks of one completion carry the same id, and another completion's carry another."""
    first, second = await stream(gateway, worker), await stream(gateway, worker)
    ids = [{chunk["id"] for chunk in chat.chunks} for chat in (first, second)]
    assert [len(one) for one in ids] == [1, 1]
    assert ids[0] != ids[1]


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.object")
async def test_objects(gateway: Gateway, worker: Worker) -> None:
    """Each chunk's object is chat.completion.chunk."""
    assert {chunk["object"] for chunk in (await stream(gateway, worker)).chunks} == {"chat.completion.chunk"}


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.created")
async def test_created(gateway: Gateway, worker: Worker) -> None:
    """Each chunk's created is the Unix time of this answer, in whole seconds."""
    for chunk in (await stream(gateway, worker)).chunks:
        assert type(chunk["created"]) is int
        assert abs(chunk["created"] - time.time()) < 3600, "a time in seconds, not milliseconds, and of today"


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.model")
async def test_models(gateway: Gateway, worker: Worker) -> None:
    """Each chunk names the model."""
    models = [chunk["model"] for chunk in (await stream(gateway, worker)).chunks]
    assert all(isinstance(model, str) and model for model in models)


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.choice_index")
async def test_indexes(gateway: Gateway, worker: Worker) -> None:
    """Each choice in a chunk carries its index."""
    assert {choice["index"] for choice in await choices_of(gateway, worker)} == {0}


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.delta")
async def test_deltas(gateway: Gateway, worker: Worker) -> None:
    """What is new in a choice is in its delta, and no choice has a whole message."""
    for choice in await choices_of(gateway, worker):
        assert isinstance(choice["delta"], dict)
        assert "message" not in choice


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.role_first")
async def test_role_comes_first(gateway: Gateway, worker: Worker) -> None:
    """The first delta of a choice says the role assistant."""
    assert (await choices_of(gateway, worker))[0]["delta"]["role"] == "assistant"


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.content")
async def test_joined_content(gateway: Gateway, worker: Worker) -> None:
    """The deltas' content, joined, is the generated text."""
    assert content_of((await stream(gateway, worker)).chunks) == "".join(PIECES.pieces)


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.finish_null")
async def test_no_reason_before_the_end(gateway: Gateway, worker: Worker) -> None:
    """finish_reason is null, or absent, in every choice but the last."""
    *before, last = await choices_of(gateway, worker)
    assert before, "one chunk alone proves nothing"
    assert {choice.get("finish_reason") for choice in before} == {None}
    assert last["finish_reason"] == "stop"


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.finish_once")
async def test_each_choice_ends_once(gateway: Gateway, worker: Worker) -> None:
    """With n = 3 each index gets exactly one finish_reason."""
    choices = await choices_of(gateway, worker, n=3)
    assert sorted(choice["index"] for choice in choices if choice.get("finish_reason")) == [0, 1, 2]


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.finish_last")
async def test_nothing_said_after_the_end(gateway: Gateway, worker: Worker) -> None:
    """No content of a choice follows its finish_reason."""
    ended: set[int] = set()
    for choice in await choices_of(gateway, worker, n=2):
        assert choice["index"] not in ended or not choice["delta"].get("content")
        if choice.get("finish_reason"):
            ended.add(choice["index"])
    assert ended == {0, 1}


@engines(*ALL_ENGINES)
@clause("chat.stream.chunk.shape")
async def test_documented_shape(gateway: Gateway, worker: Worker) -> None:
    """Every chunk has the shape of the document, the usage chunk included."""
    chunks = (await stream(gateway, worker, stream_options={"include_usage": True})).chunks
    assert {problem for chunk in chunks for problem in spec.schemas.problems("ChatCompletionChunk", chunk)} == set()


@engines(*ALL_ENGINES)
@clause("chat.stream.done.last")
async def test_done_comes_last(gateway: Gateway, worker: Worker) -> None:
    """The stream ends with [DONE] and nothing after it."""
    chat = await stream(gateway, worker)
    assert chat.body.endswith(b"data: [DONE]\n\n")
    assert chat.closed_cleanly
    assert chat.trailing == b""


@engines(*ALL_ENGINES)
@clause("chat.stream.done.once")
async def test_done_comes_once(gateway: Gateway, worker: Worker) -> None:
    """[DONE] comes exactly once."""
    chat = await stream(gateway, worker)
    assert sum(event.is_done for event in chat.events) == 1


@engines(*ALL_ENGINES)
@clause("chat.stream.n.all_choices")
async def test_all_choices_are_streamed(gateway: Gateway, worker: Worker) -> None:
    """With n = 2 the whole text of both choices arrives."""
    chunks = (await stream(gateway, worker, n=2)).chunks
    assert [content_of(chunks, index) for index in (0, 1)] == ["".join(PIECES.pieces)] * 2


@engines(*ALL_ENGINES)
@clause("chat.stream.end.clean")
async def test_the_body_ends(gateway: Gateway, worker: Worker) -> None:
    """When the worker's stream ends, the client's body ends too, as its framing says."""
    script = worker.script(PIECES)
    chat = await gateway.chat(script, stream=True)
    await script.completed()
    assert chat.closed_cleanly, chat.brief()
