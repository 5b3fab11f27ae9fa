"""Completions: the non-streaming answer."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import spec
from conformance.checks.stream_support import ALL_ENGINES, DISCONNECT_BOUND_S, felt_after_s, is_json, text_answer
from conformance.harness import clause, engines
from fake_workers import wire
from fake_workers.script import Chunk, Close, Head, Hold, Reply, Reset, Wire

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Noise, Worker

TWO_PIECES = Reply(pieces=[" jumps over", " the lazy dog."], prompt_tokens=4, completion_tokens=7)
JSON = "application/json"


async def answer(gateway: Gateway, worker: Worker, **fields: Any) -> Exchange:
    """Ask for a completion that the worker's engine words in its own way."""
    completion = await gateway.completion(worker.script(TWO_PIECES), **fields)
    assert completion.succeeded, completion.brief()
    return completion


@engines(*ALL_ENGINES)
@clause("completions.response.status")
async def test_success_is_200(gateway: Gateway, worker: Worker) -> None:
    """A completion that the worker produced is answered with status 200."""
    script = worker.script(TWO_PIECES)
    completion = await gateway.completion(script)
    await script.only()
    assert completion.status == 200


@engines(*ALL_ENGINES)
@clause("completions.response.content_type")
async def test_answer_is_json(gateway: Gateway, worker: Worker) -> None:
    """The answer is JSON by its content type."""
    script = worker.script()
    found = await gateway.completion(script)
    await script.only()
    assert is_json(found)


@engines(*ALL_ENGINES)
@clause("completions.response.id")
async def test_id(gateway: Gateway, worker: Worker) -> None:
    """The answer has an id, a non-empty string."""
    identity = (await answer(gateway, worker)).json["id"]
    assert isinstance(identity, str)
    assert identity


@engines(*ALL_ENGINES)
@clause("completions.response.object")
async def test_object(gateway: Gateway, worker: Worker) -> None:
    """The answer's object is text_completion."""
    assert (await answer(gateway, worker)).json["object"] == "text_completion"


@engines(*ALL_ENGINES)
@clause("completions.response.created")
async def test_created(gateway: Gateway, worker: Worker) -> None:
    """The answer's created is the Unix time of this answer, in whole seconds."""
    created = (await answer(gateway, worker)).json["created"]
    assert type(created) is int
    assert abs(created - time.time()) < 3600, "a time in seconds, not milliseconds, and of today"


@engines(*ALL_ENGINES)
@clause("completions.response.model")
async def test_model(gateway: Gateway, worker: Worker) -> None:
    """The answer's model is a string."""
    model = (await answer(gateway, worker)).json["model"]
    assert isinstance(model, str)
    assert model


@engines(*ALL_ENGINES)
@clause("completions.response.choice_text")
async def test_text(gateway: Gateway, worker: Worker) -> None:
    """The choice's text is the text the engine generated, whole."""
    assert (await answer(gateway, worker)).json["choices"][0]["text"] == "".join(TWO_PIECES.pieces)


@engines(*ALL_ENGINES)
@clause("completions.response.choice_index")
async def test_index(gateway: Gateway, worker: Worker) -> None:
    """With n = 2, the choices have the indexes 0 and 1."""
    assert sorted(choice["index"] for choice in (await answer(gateway, worker, n=2)).json["choices"]) == [0, 1]


@engines(*ALL_ENGINES)
@clause("completions.response.choice_finish_reason")
async def test_finish_reason(gateway: Gateway, worker: Worker) -> None:
    """A choice that ran into its limit says so."""
    completion = await gateway.completion(worker.script(Reply(pieces=["a"], finish_reason="length")))
    assert completion.json["choices"][0]["finish_reason"] == "length"


@engines(*ALL_ENGINES)
@clause("completions.response.usage_counts")
async def test_usage(gateway: Gateway, worker: Worker) -> None:
    """The client reads the engine's three counts."""
    usage = (await answer(gateway, worker)).json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (4, 7, 11)


@engines(*ALL_ENGINES)
@clause("completions.response.shape")
async def test_documented_shape(gateway: Gateway, worker: Worker) -> None:
    """The answer has the shape of the document."""
    assert spec.schemas.problems("Completion", (await answer(gateway, worker)).json) == []


@clause("completions.response.n_choices")
async def test_choices_of_several_prompts(gateway: Gateway, worker: Worker) -> None:
    """Two completions of each of two prompts arrive, all four, with the worker's indexes and in its order."""
    choices = [
        {"index": index, "text": text, "logprobs": None, "finish_reason": "stop"}
        for index, text in [(0, "a"), (1, "b"), (3, "d"), (2, "c")]
    ]
    script = worker.script(wire.json(200, text_answer(choices=choices)))
    completion = await gateway.completion(script, prompt=[script.prompt, "another"], n=2)
    await script.only()
    assert completion.json["choices"] == choices


@clause("completions.response.bytes")
async def test_odd_spacing_arrives_byte_for_byte(gateway: Gateway, worker: Worker) -> None:
    """Blanks, key order, escapes and number spellings of a worker's body are those the client gets."""
    body = json.dumps(text_answer(zebra=1, apple="é", score=0.5), indent=3).encode().replace(b"0.5", b"5.0e-1") + b" \n"
    script = worker.script(wire.body(200, body, JSON))
    completion = await gateway.completion(script)
    await script.only()
    assert completion.body == body


@clause("completions.response.logprobs")
async def test_logprobs(gateway: Gateway, worker: Worker) -> None:
    """Log probabilities reach the client with nulls, offsets of -1 and more alternatives than were asked for."""
    logprobs = {
        "text_offset": [-1, -1],
        "token_logprobs": [None, -0.25],
        "tokens": ["H", "i"],
        "top_logprobs": [None, {"i": -0.25, "o": -2.5, "e": -9999.0}],
    }
    choices = [{"index": 0, "text": "Hi", "logprobs": logprobs, "finish_reason": "stop"}]
    script = worker.script(wire.json(200, text_answer(choices=choices)))
    completion = await gateway.completion(script, logprobs=2)
    await script.only()
    assert completion.json["choices"] == choices


@clause("completions.response.usage_own_object")
async def test_the_engines_own_usage(gateway: Gateway, worker: Worker) -> None:
    """The usage object reaches the client with the engine's keys, nulls and counts."""
    usage = {
        "prompt_tokens": 5,
        "total_tokens": 70,
        "completion_tokens": 2,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }
    script = worker.script(wire.json(200, text_answer(usage=usage)))
    completion = await gateway.completion(script)
    await script.only()
    assert list(completion.json["usage"].items()) == list(usage.items())


@clause("completions.response.truncated")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_answer_breaks_off(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A chunked answer without its last chunk is an error to the client, or a transfer that breaks."""
    body = wire.compact(text_answer())
    script = worker.script(Wire(steps=[Head(headers=[("content-type", JSON)]), Chunk(data=body[:60]), end]))
    completion = await gateway.completion(script)
    await script.received()
    assert not completion.succeeded or not completion.closed_cleanly, completion.brief()


@clause("completions.response.error_relayed")
@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
async def test_rejection_is_relayed(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker's rejection reaches the client with its status and body."""
    body = b'{ "detail": [{"msg": "caf\xc3\xa9"}] }'
    script = worker.script(wire.body(status, body, JSON))
    completion = await gateway.completion(script)
    await script.received()
    assert (completion.status, completion.body) == (status, body)


@clause("completions.response.disconnect")
async def test_client_leaves_while_the_worker_thinks(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the client of a completion has gone."""
    script = worker.script(Wire(steps=[Hold(name="thinking")]))
    async with gateway.open_completion(script) as live:
        assert await script.reached("thinking")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("completions.response.alias_model")
async def test_model_name_of_the_answer(gateway: Gateway, worker: Worker) -> None:
    """A request by alias gets the model name that the worker put into its answer."""
    script = worker.script(wire.json(200, text_answer(model="the-name-the-worker-uses")))
    completion = await gateway.completion(script, model=gateway.alias)
    await script.only()
    assert completion.json["model"] == "the-name-the-worker-uses"
