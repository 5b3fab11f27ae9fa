"""Chat Completions: the members of a non-streaming answer, behind each engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import spec
from conformance.checks.stream_support import ALL_ENGINES, is_json, media_type
from conformance.harness import clause, engines
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

TWO_PIECES = Reply(pieces=["The capital", " of France is Paris."], prompt_tokens=9, completion_tokens=7)


async def answer(gateway: Gateway, worker: Worker, **fields: Any) -> Exchange:
    """Ask for a completion that the worker's engine words in its own way."""
    chat = await gateway.chat(worker.script(TWO_PIECES), **fields)
    assert chat.succeeded, chat.brief()
    return chat


@engines(*ALL_ENGINES)
@clause("chat.response.status")
async def test_success_is_200(gateway: Gateway, worker: Worker) -> None:
    """A completion that the worker produced is answered with status 200."""
    script = worker.script(TWO_PIECES)
    chat = await gateway.chat(script)
    await script.only()
    assert chat.status == 200


@engines(*ALL_ENGINES)
@clause("chat.response.content_type")
async def test_answer_is_json(gateway: Gateway, worker: Worker) -> None:
    """A non-streaming answer is JSON by its content type."""
    script = worker.script()
    found = await gateway.chat(script)
    await script.only()
    assert is_json(found)


@engines(*ALL_ENGINES)
@clause("chat.response.id")
async def test_id(gateway: Gateway, worker: Worker) -> None:
    """The answer has an id, a non-empty string."""
    identity = (await answer(gateway, worker)).json["id"]
    assert isinstance(identity, str)
    assert identity


@engines(*ALL_ENGINES)
@clause("chat.response.object")
async def test_object(gateway: Gateway, worker: Worker) -> None:
    """The answer's object is chat.completion."""
    assert (await answer(gateway, worker)).json["object"] == "chat.completion"


@engines(*ALL_ENGINES)
@clause("chat.response.created")
async def test_created(gateway: Gateway, worker: Worker) -> None:
    """The answer's created is the Unix time of this answer, in whole seconds."""
    created = (await answer(gateway, worker)).json["created"]
    assert type(created) is int
    assert abs(created - time.time()) < 3600, "a time in seconds, not milliseconds, and of today"


@engines(*ALL_ENGINES)
@clause("chat.response.model")
async def test_model(gateway: Gateway, worker: Worker) -> None:
    """The answer's model is a string."""
    model = (await answer(gateway, worker)).json["model"]
    assert isinstance(model, str)
    assert model


@engines(*ALL_ENGINES)
@clause("chat.response.choices")
async def test_choices(gateway: Gateway, worker: Worker) -> None:
    """With n = 2, choices is an array of two."""
    choices = (await answer(gateway, worker, n=2)).json["choices"]
    assert isinstance(choices, list)
    assert len(choices) == 2


@engines(*ALL_ENGINES)
@clause("chat.response.choice.index")
async def test_choice_index(gateway: Gateway, worker: Worker) -> None:
    """With n = 2, the choices have the indexes 0 and 1."""
    choices = (await answer(gateway, worker, n=2)).json["choices"]
    assert sorted(choice["index"] for choice in choices) == [0, 1]


@engines(*ALL_ENGINES)
@clause("chat.response.choice.message_role")
async def test_message_role(gateway: Gateway, worker: Worker) -> None:
    """The message of a choice has the role assistant."""
    assert (await answer(gateway, worker)).json["choices"][0]["message"]["role"] == "assistant"


@engines(*ALL_ENGINES)
@clause("chat.response.choice.message_content")
async def test_message_content(gateway: Gateway, worker: Worker) -> None:
    """The message's content is the text the engine generated, whole."""
    message = (await answer(gateway, worker)).json["choices"][0]["message"]
    assert message["content"] == "".join(TWO_PIECES.pieces)


@engines(*ALL_ENGINES)
@clause("chat.response.choice.finish_reason")
async def test_finish_reason(gateway: Gateway, worker: Worker) -> None:
    """A choice that ran into its limit says so."""
    script = worker.script(Reply(pieces=["a", "b"], finish_reason="length"))
    chat = await gateway.chat(script)
    assert chat.json["choices"][0]["finish_reason"] == "length"


@engines(*ALL_ENGINES)
@clause("chat.response.usage_member")
async def test_usage_member(gateway: Gateway, worker: Worker) -> None:
    """The answer carries a usage object beside its choices."""
    assert isinstance((await answer(gateway, worker)).json["usage"], dict)


@engines(*ALL_ENGINES)
@clause("chat.response.shape")
async def test_documented_shape(gateway: Gateway, worker: Worker) -> None:
    """The answer has the shape of the document."""
    assert spec.schemas.problems("ChatCompletion", (await answer(gateway, worker)).json) == []


@engines(*ALL_ENGINES)
@clause("chat.response.not_streamed")
async def test_no_stream_by_default(gateway: Gateway, worker: Worker) -> None:
    """Without stream, the worker is not asked for a stream and the client gets one JSON body."""
    script = worker.script(TWO_PIECES)
    chat = await gateway.chat(script)
    received = await script.only()
    assert received.json.get("stream") in {None, False}
    assert media_type(chat) != "text/event-stream"
    assert chat.json["object"] == "chat.completion"


@engines(*ALL_ENGINES)
@clause("chat.response.stream_false")
async def test_no_stream_when_false(gateway: Gateway, worker: Worker) -> None:
    """With stream false, the worker is not asked for a stream and the client gets one JSON body."""
    script = worker.script(TWO_PIECES)
    chat = await gateway.chat(script, stream=False)
    received = await script.only()
    assert received.json.get("stream") in {None, False}
    assert media_type(chat) != "text/event-stream"
    assert chat.json["object"] == "chat.completion"
