"""Chat Completions: a non-streaming answer of an HTTP worker is handed over as it came."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.stream_support import completion_answer
from conformance.harness import clause
from fake_workers import wire
from fake_workers.script import Chunk, End, Head, Wire

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

JSON = "application/json"


def choice(index: int = 0, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """Return a choice with this message."""
    return {"index": index, "message": {"role": "assistant", **message}, "finish_reason": finish}


async def relayed(gateway: Gateway, worker: Worker, body: bytes, **fields: Any) -> Exchange:
    """Let the worker answer with exactly this JSON text, and prove that it was the worker who answered."""
    script = worker.script(wire.body(200, body, JSON))
    chat = await gateway.chat(script, **fields)
    await script.only()
    assert chat.succeeded, chat.brief()
    return chat


async def relayed_members(gateway: Gateway, worker: Worker, **members: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the worker sent and what the client got, as objects."""
    sent = completion_answer(**members)
    chat = await relayed(gateway, worker, wire.compact(sent))
    return sent, chat.json


@clause("chat.response.relay.bytes")
async def test_odd_spacing_arrives_byte_for_byte(gateway: Gateway, worker: Worker) -> None:
    """Blanks, key order and spelling of a worker's body are those the client gets."""
    body = json.dumps(completion_answer(zebra=1, apple=2), indent=3).encode() + b" \n"
    chat = await relayed(gateway, worker, body)
    assert chat.body == body


@clause("chat.response.relay.engine_keys")
@pytest.mark.parametrize(
    "member",
    [
        {"metadata": {"weight_version": "default"}},
        {"system_fingerprint": "engine-1.0-12345678"},
        {"kv_transfer_params": {"remote_block_ids": [1, 2]}},
        {"something_of_tomorrow": [{"nested": True}]},
    ],
    ids=lambda member: next(iter(member)),
)
async def test_members_of_one_engine_are_kept(gateway: Gateway, worker: Worker, member: dict[str, Any]) -> None:
    """A top-level member that the contract does not name reaches the client."""
    sent, got = await relayed_members(gateway, worker, **member)
    assert got == sent


@clause("chat.response.relay.engine_keys")
async def test_members_of_one_engine_are_kept_in_choices(gateway: Gateway, worker: Worker) -> None:
    """Members of a choice and of its message that the contract does not name reach the client."""
    odd = choice(content="hi", annotations=[], audio=None) | {
        "matched_stop": 7,
        "stop_reason": "END",
        "token_ids": None,
    }
    sent, got = await relayed_members(gateway, worker, choices=[odd])
    assert got == sent


@clause("chat.response.relay.nulls")
async def test_nulls_stay(gateway: Gateway, worker: Worker) -> None:
    """Members sent as null are there, as null."""
    sent, got = await relayed_members(gateway, worker, service_tier=None, prompt_logprobs=None, metrics=None)
    assert got == sent


@clause("chat.response.relay.number_text")
@pytest.mark.parametrize("number", ["1.0", "1e2", "1E-3", "0.30000000000000004", "12345678901234567890123", "-0.0"])
async def test_numbers_keep_their_spelling(gateway: Gateway, worker: Worker, number: str) -> None:
    """A number is spelt for the client as the worker spelt it."""
    body = wire.compact(completion_answer(score="NUMBER")).replace(b'"NUMBER"', number.encode())
    chat = await relayed(gateway, worker, body)
    assert f'"score":{number}}}'.encode() in chat.body


@clause("chat.response.relay.unicode")
@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "raw"])
async def test_text_outside_ascii(gateway: Gateway, worker: Worker, *, ascii_only: bool) -> None:
    """Accents, symbols beyond the first plane and a line separator arrive as the worker wrote them."""
    body = json.dumps(
        completion_answer(choices=[choice(content="café 😀 \u2028 名")]), ensure_ascii=ascii_only
    ).encode()
    chat = await relayed(gateway, worker, body)
    assert chat.body == body


@clause("chat.response.relay.content_type")
@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/json;charset=UTF-8;v=2"])
async def test_content_type_keeps_its_parameters(gateway: Gateway, worker: Worker, content_type: str) -> None:
    """The content type the client sees is the worker's, parameters included."""
    script = worker.script(wire.body(200, wire.compact(completion_answer()), content_type))
    chat = await gateway.chat(script)
    await script.only()
    assert chat.headers.get_all("content-type") == [content_type]


@clause("chat.response.relay.tool_calls", "chat.response.relay.content_null")
async def test_tool_calls(gateway: Gateway, worker: Worker) -> None:
    """Two calls arrive with ids, names and arguments untouched, and the content beside them stays null."""
    calls = [
        {"id": "call_1", "type": "function", "index": 0, "function": {"name": "f", "arguments": '{"a": 1.0}'}},
        {"id": "functions.g:1", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    sent, got = await relayed_members(
        gateway, worker, choices=[choice(0, "tool_calls", content=None, tool_calls=calls)]
    )
    assert got["choices"][0]["message"]["tool_calls"] == calls
    assert got["choices"][0]["message"]["content"] is None
    assert got == sent


@clause("chat.response.relay.reasoning")
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning(gateway: Gateway, worker: Worker, name: str) -> None:
    """Reasoning arrives under the name the engine gave it."""
    sent, got = await relayed_members(gateway, worker, choices=[choice(0, "stop", **{"content": "4", name: "2 + 2"})])
    assert got == sent


@clause("chat.response.relay.logprobs")
async def test_logprobs(gateway: Gateway, worker: Worker) -> None:
    """Log probabilities arrive with every member, bytes and alternatives included."""
    token = {
        "token": "H",
        "bytes": [72],
        "logprob": -0.25,
        "top_logprobs": [{"token": "h", "bytes": None, "logprob": -9999.0}],
    }
    sent, got = await relayed_members(
        gateway, worker, choices=[choice(content="H") | {"logprobs": {"content": [token]}}]
    )
    assert got == sent


@clause("chat.response.relay.finish_reason")
@pytest.mark.parametrize("reason", ["abort", "error", "repetition", "content_filter", None])
async def test_finish_reasons(gateway: Gateway, worker: Worker, reason: str | None) -> None:
    """Whatever an HTTP worker gives as finish reason is what the client reads."""
    _, got = await relayed_members(gateway, worker, choices=[choice(0, reason, content="x")])
    assert got["choices"][0]["finish_reason"] == reason


@clause("chat.response.relay.choices")
async def test_choices_keep_their_order(gateway: Gateway, worker: Worker) -> None:
    """Three choices arrive in the worker's order, with the worker's indexes."""
    body = wire.compact(
        completion_answer(choices=[choice(2, content="c"), choice(0, content="a"), choice(1, content="b")])
    )
    chat = await relayed(gateway, worker, body, n=3)
    assert [(one["index"], one["message"]["content"]) for one in chat.json["choices"]] == [(2, "c"), (0, "a"), (1, "b")]


@clause("chat.response.relay.large")
async def test_three_megabytes(gateway: Gateway, worker: Worker) -> None:
    """An answer of three megabytes arrives whole."""
    body = wire.compact(completion_answer(choices=[choice(content="0123456789abcdef" * 196_608)]))
    chat = await relayed(gateway, worker, body)
    assert len(chat.body) == len(body)
    assert chat.body == body


@clause("chat.response.relay.chunked_worker")
async def test_chunked_worker(gateway: Gateway, worker: Worker) -> None:
    """A body that the worker sends in chunks, without a length, arrives whole."""
    body = wire.compact(completion_answer())
    script = worker.script(
        Wire(steps=[Head(headers=[("content-type", JSON)]), Chunk(data=body[:40]), Chunk(data=body[40:]), End()])
    )
    chat = await gateway.chat(script)
    assert chat.closed_cleanly
    assert chat.body == body


@clause("chat.response.relay.chunk_cuts")
async def test_cuts_inside_characters(gateway: Gateway, worker: Worker) -> None:
    """A body cut inside a four-byte character and inside an escape arrives as if it had not been cut."""
    body = (
        json.dumps(completion_answer(choices=[choice(content="😀 X")]), ensure_ascii=False)
        .encode()
        .replace(b"X", b"\\u00e9")
    )
    emoji, escape = body.index("😀".encode()), body.index(b"\\u00e9")
    cuts = wire.split_at(body, emoji + 1, emoji + 3, escape + 1, escape + 4)
    script = worker.script(Wire(steps=[Head(headers=[("content-type", JSON)]), *cuts, End()]))
    chat = await gateway.chat(script)
    assert chat.body == body


@clause("chat.response.relay.not_json")
@pytest.mark.parametrize(
    "body", [b'{"id": "cut off', b"plain text", b"\xff\xfe\x00", b""], ids=["half", "text", "binary", "empty"]
)
async def test_success_that_is_no_json(gateway: Gateway, worker: Worker, body: bytes) -> None:
    """A body that calls itself JSON and is none is the client's to judge."""
    chat = await relayed(gateway, worker, body)
    assert chat.body == body


@clause("chat.response.relay.length")
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_announced_length(gateway: Gateway, worker: Worker, framing: str) -> None:
    """The client's answer is framed once, truly, however the worker framed its own."""
    body = wire.compact(completion_answer(choices=[choice(content="é" * 100)]))
    chunked = Wire(steps=[Head(headers=[("content-type", JSON)]), Chunk(data=body), End()])
    chat = await gateway.chat(worker.script(wire.body(200, body, JSON) if framing == "length" else chunked))
    lengths = chat.headers.get_all("content-length")
    codings = chat.headers.get_all("transfer-encoding")
    assert len(lengths) + len(codings) == 1, "one framing, or the bytes cannot be told apart"
    assert not lengths or int(lengths[0]) == len(body)
    assert chat.closed_cleanly
    assert chat.body == body
    assert chat.trailing == b""


@clause("chat.response.relay.sse_unasked")
async def test_stream_nobody_asked_for(gateway: Gateway, worker: Worker) -> None:
    """An event stream in answer to an ordinary request arrives as an event stream."""
    body = b"data: x\n\n" + wire.DONE
    chat = await gateway.chat(worker.script(wire.sse(b"data: x\n\n")))
    assert chat.headers["content-type"] == wire.SSE
    assert chat.body == body


@clause("chat.response.alias.model")
async def test_model_name_of_the_answer(gateway: Gateway, worker: Worker) -> None:
    """A request by alias gets the model name that the worker put into its answer."""
    script = worker.script(wire.json(200, completion_answer(model="the-name-the-worker-uses")))
    chat = await gateway.chat(script, model=gateway.alias)
    await script.only()
    assert chat.json["model"] == "the-name-the-worker-uses"
