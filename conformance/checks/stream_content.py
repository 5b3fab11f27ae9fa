"""Chat Completions: what engines put into deltas beside text, and streams of several choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.stream_support import chunk, content_of, delta_chunk, relayed_chunks
from conformance.harness import clause

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker


@clause("chat.stream.relay.reasoning")
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_deltas(gateway: Gateway, worker: Worker, name: str) -> None:
    """Reasoning deltas arrive under the engine's name for them, before the text."""
    chunks = [delta_chunk({name: "2 + "}), delta_chunk({name: "2"}), chunk("4"), chunk(finish="stop")]
    assert await relayed_chunks(gateway, worker, *chunks) == chunks


@clause("chat.stream.relay.tool_calls")
async def test_interleaved_tool_calls(gateway: Gateway, worker: Worker) -> None:
    """The fragments of two calls, interleaved, arrive in order with their indexes."""
    fragments = [
        {"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "call_1", "type": "function", "function": {"name": "g"}},
        {"index": 0, "function": {"arguments": '{"a"'}},
        {"index": 1, "function": {"arguments": "{}"}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ]
    chunks = [delta_chunk({"tool_calls": [fragment]}) for fragment in fragments] + [chunk(finish="tool_calls")]
    assert await relayed_chunks(gateway, worker, *chunks) == chunks


@clause("chat.stream.relay.tool_calls")
async def test_two_fragments_of_one_call_in_one_chunk(gateway: Gateway, worker: Worker) -> None:
    """Two entries with the same index in one chunk arrive as two entries with the same index."""
    entries = [{"index": 0, "id": "c", "function": {"name": "f"}}, {"index": 0, "function": {"arguments": "{}"}}]
    chunks = [delta_chunk({"tool_calls": entries}), chunk(finish="tool_calls")]
    assert await relayed_chunks(gateway, worker, *chunks) == chunks


@clause("chat.stream.relay.logprobs")
async def test_logprobs(gateway: Gateway, worker: Worker) -> None:
    """Log probabilities on a chunk arrive whole."""
    one = chunk("H")
    one["choices"][0]["logprobs"] = {"content": [{"token": "H", "logprob": -0.5, "bytes": [72], "top_logprobs": []}]}
    chunks = [one, chunk(finish="stop")]
    assert await relayed_chunks(gateway, worker, *chunks, logprobs=True) == chunks


@clause("chat.stream.relay.finish_reason")
@pytest.mark.parametrize("reason", ["abort", "error", "repetition"])
async def test_finish_reasons(gateway: Gateway, worker: Worker, reason: str) -> None:
    """Whatever an HTTP worker gives as finish reason is what the client reads."""
    chunks = [chunk("x"), chunk(finish=reason)]
    assert await relayed_chunks(gateway, worker, *chunks) == chunks


@clause("chat.stream.alias.model")
async def test_model_name_of_the_chunks(gateway: Gateway, worker: Worker) -> None:
    """A streaming request by alias gets the model name that the worker put into its chunks."""
    chunks = [chunk("x", model="the-name-the-worker-uses"), chunk(finish="stop", model="the-name-the-worker-uses")]
    assert await relayed_chunks(gateway, worker, *chunks, model=gateway.alias) == chunks


@clause("chat.stream.n.interleaved")
async def test_choices_take_turns(gateway: Gateway, worker: Worker) -> None:
    """Chunks of three choices that end at different times arrive in the order in which they were sent."""
    turns = [
        (2, "c", None),
        (0, "a", None),
        (2, None, "length"),
        (1, "b", None),
        (0, "A", None),
        (1, None, "stop"),
        (0, None, "stop"),
    ]
    chunks = [chunk(text, index=index, finish=finish) for index, text, finish in turns]
    got = await relayed_chunks(gateway, worker, *chunks, n=3)
    assert got == chunks
    assert [content_of(got, index) for index in range(3)] == ["aA", "b", "c"]
