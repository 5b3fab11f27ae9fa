"""Embeddings: the request reaches the worker's own route, and the worker's answer the client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import spec
from conformance.checks.stream_support import ALL_ENGINES, DISCONNECT_BOUND_S, felt_after_s, is_json
from conformance.harness import EMBEDDINGS, clause, engines
from fake_workers import wire
from fake_workers.script import Chunk, Close, Head, Hold, Reply, Reset, Wire

if TYPE_CHECKING:
    from conformance.harness import Entry, Exchange, Gateway, Noise, Worker

JSON = "application/json"
VECTOR = Reply(embedding=[0.25, -0.5, 1.0], prompt_tokens=6)


def vectors(*embeddings: Any, **members: Any) -> dict[str, Any]:
    """Return an embeddings answer as a worker might send it."""
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(embeddings)],
        "model": "conformance",
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
        **members,
    }


async def received(gateway: Gateway, worker: Worker, **fields: Any) -> Entry:
    """Send an embeddings request with these members; return what the worker received, after it was answered 200."""
    script = worker.script(VECTOR)
    answer = await gateway.embedding(script, **fields)
    entry = await script.only()
    assert answer.succeeded, answer.brief()
    return entry


async def relayed(gateway: Gateway, worker: Worker, body: bytes, **fields: Any) -> Exchange:
    """Let the worker answer with exactly this JSON text, and prove that it was the worker who answered."""
    script = worker.script(wire.body(200, body, JSON))
    answer = await gateway.embedding(script, **fields)
    await script.only()
    assert answer.status == 200, answer.brief()
    return answer


@clause("embeddings.route")
async def test_same_route_at_the_worker(gateway: Gateway, worker: Worker) -> None:
    """An embeddings request is posted to the worker's own /v1/embeddings."""
    entry = await received(gateway, worker)
    assert (entry.method, entry.target) == ("POST", EMBEDDINGS)
    assert entry.worker == worker.name


@engines(*ALL_ENGINES)
@clause("embeddings.status")
async def test_success_is_200(gateway: Gateway, worker: Worker) -> None:
    """Embeddings that the worker produced are answered with status 200."""
    script = worker.script(VECTOR)
    answer = await gateway.embedding(script)
    await script.only()
    assert answer.status == 200


@engines(*ALL_ENGINES)
@clause("embeddings.content_type")
async def test_answer_is_json(gateway: Gateway, worker: Worker) -> None:
    """The answer is JSON by its content type."""
    script = worker.script(VECTOR)
    found = await gateway.embedding(script)
    await script.only()
    assert is_json(found)


@engines(*ALL_ENGINES)
@clause("embeddings.response.shape")
async def test_documented_shape(gateway: Gateway, worker: Worker) -> None:
    """The answer is a list of embeddings in the shape of the document, with the engine's vector in it."""
    answer = await gateway.embedding(worker.script(VECTOR))
    assert spec.schemas.problems("EmbeddingList", answer.json) == []
    assert answer.json["data"][0]["embedding"] == VECTOR.embedding


@clause("embeddings.response.bytes")
async def test_odd_spacing_arrives_byte_for_byte(gateway: Gateway, worker: Worker) -> None:
    """Blanks, key order and unknown members of a worker's body are those the client gets."""
    body = json.dumps(vectors([0.25], zebra=1, apple=None), indent=3).encode() + b"\n"
    assert (await relayed(gateway, worker, body)).body == body


@clause("embeddings.response.number_text")
@pytest.mark.parametrize("number", ["1.0", "1e-7", "-0.0", "0.30000001192092896", "2"])
async def test_numbers_keep_their_spelling(gateway: Gateway, worker: Worker, number: str) -> None:
    """A number of a vector is spelt for the client as the worker spelt it."""
    body = wire.compact(vectors(["NUMBER"])).replace(b'"NUMBER"', number.encode())
    assert f'"embedding":[{number}]'.encode() in (await relayed(gateway, worker, body)).body


@clause("embeddings.response.base64")
async def test_base64(gateway: Gateway, worker: Worker) -> None:
    """A base64 embedding is asked for and reaches the client unchanged."""
    script = worker.script(wire.json(200, vectors("AACAPgAAAL8=")))
    answer = await gateway.embedding(script, encoding_format="base64")
    assert (await script.only()).json["encoding_format"] == "base64"
    assert answer.json["data"][0]["embedding"] == "AACAPgAAAL8="


@clause("embeddings.response.large")
async def test_three_megabytes(gateway: Gateway, worker: Worker) -> None:
    """A batch of three megabytes arrives whole."""
    body = wire.compact(vectors(*([round(number * 1e-6, 6) for number in range(1000)] for _ in range(350))))
    assert len(body) > 3_000_000
    assert (await relayed(gateway, worker, body)).body == body


@clause("embeddings.response.usage_counts")
async def test_usage(gateway: Gateway, worker: Worker) -> None:
    """The worker's usage reaches the client, with its own keys."""
    usage = {"prompt_tokens": 37, "total_tokens": 37, "completion_tokens": 0, "prompt_tokens_details": None}
    answer = await relayed(gateway, worker, wire.compact(vectors([0.5], usage=usage)))
    assert answer.json["usage"] == usage


@clause("embeddings.response.order")
async def test_several_embeddings(gateway: Gateway, worker: Worker) -> None:
    """Three embeddings arrive in the worker's order, even if that is not the order of their indexes."""
    body = vectors([0.1], [0.2], [0.3])
    body["data"].reverse()
    answer = await relayed(gateway, worker, wire.compact(body))
    assert [entry["index"] for entry in answer.json["data"]] == [2, 1, 0]
    assert answer.json == body


@clause("embeddings.response.error_relayed")
@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503])
async def test_rejection_is_relayed(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker's rejection reaches the client with its status and body."""
    body = b'{ "detail":"Not Found" }'
    script = worker.script(wire.body(status, body, JSON))
    answer = await gateway.embedding(script)
    await script.received()
    assert (answer.status, answer.body) == (status, body)


@clause("embeddings.response.truncated")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_answer_breaks_off(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A chunked answer without its last chunk is an error to the client, or a transfer that breaks."""
    body = wire.compact(vectors([0.5]))
    script = worker.script(Wire(steps=[Head(headers=[("content-type", JSON)]), Chunk(data=body[:40]), end]))
    answer = await gateway.embedding(script)
    await script.received()
    assert not answer.succeeded or not answer.closed_cleanly, answer.brief()


@clause("embeddings.model.alias")
async def test_alias_is_resolved(gateway: Gateway, worker: Worker) -> None:
    """A request by alias reaches a worker of the model the alias stands for, under that model's name."""
    entry = await received(gateway, worker, model=gateway.alias)
    assert entry.json["model"] == gateway.alias_of


@clause("embeddings.model.unknown")
async def test_unknown_model(gateway: Gateway, worker: Worker) -> None:
    """A model that no worker serves is answered with 404, and no worker hears of it."""
    await gateway.refuses(worker, EMBEDDINGS, {}, {"model": "conformance-nobody-serves-this"}, status=404)


@clause("embeddings.model.response_untouched")
async def test_model_name_of_the_answer(gateway: Gateway, worker: Worker) -> None:
    """A request by alias gets the model name that the worker put into its answer."""
    body = wire.compact(vectors([0.5], model="/models/the-path-the-worker-uses"))
    answer = await relayed(gateway, worker, body, model=gateway.alias)
    assert answer.json["model"] == "/models/the-path-the-worker-uses"


@clause("embeddings.input.text", "embeddings.input.unicode")
@pytest.mark.parametrize("text", ["plain", "café 名 😀", 'line\nbreak "quoted" \\', " \u2028 "])
async def test_text(gateway: Gateway, worker: Worker, text: str) -> None:
    """A text input reaches the worker as the same text."""
    script = worker.script(VECTOR)
    await gateway.embedding(script, input=f"{text} {script.marker}")
    assert (await script.only()).json["input"] == f"{text} {script.marker}"


@clause("embeddings.input.texts", "embeddings.input.one_request")
async def test_texts(gateway: Gateway, worker: Worker) -> None:
    """Three texts, each with the marker, reach the worker in one request and in their order."""
    script = worker.script(VECTOR)
    texts = [f"{word} {script.marker}" for word in ("zebra", "apple", "é")]
    await gateway.embedding(script, input=texts)
    assert (await script.only()).json["input"] == texts


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param([1, 2, 4294967295], marks=pytest.mark.clause("embeddings.input.tokens"), id="one-input"),
        pytest.param([[1, 2], [3]], marks=pytest.mark.clause("embeddings.input.token_lists"), id="two-inputs"),
    ],
)
async def test_token_ids(gateway: Gateway, worker: Worker, tokens: list[Any]) -> None:
    """Token ids reach the worker as they are; the marker travels in user."""
    script = worker.script(VECTOR)
    answer = await gateway.embedding(script, input=tokens, user=script.marker)
    assert (await script.only()).json["input"] == tokens
    assert answer.succeeded


@clause("embeddings.disconnect")
async def test_client_leaves_while_the_worker_thinks(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the client of an embeddings request has gone."""
    script = worker.script(Wire(steps=[Hold(name="thinking")]))
    async with gateway.open("POST", EMBEDDINGS, gateway.embedding_body(script)) as live:
        assert await script.reached("thinking")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)
