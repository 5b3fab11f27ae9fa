"""The openai client, unchanged, against each engine: the shapes a typed client trips over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from fake_workers import Fleet, Script, WorkerSpec, new_marker, wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Client = Any  # the client's own types are for requests written by hand, not for tables of them
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ASK = [{"role": "user", "content": "hi"}]


@pytest.fixture(params=["vllm", "sglang", "tokenspeed"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of one worker, with its fleet as ``fleet``."""
    spec = WorkerSpec(engine=request.param, model="m", reasoning=True)
    async with Fleet([spec]) as fleet, openai.AsyncOpenAI(base_url=f"{fleet.urls[0]}/v1", api_key="x") as made:
        patient: Client = made.with_options(max_retries=0)
        patient.fleet = fleet
        yield patient


async def test_chat(client: Client) -> None:
    """A chat has text, a finish reason and usage that adds up."""
    answer = await client.chat.completions.create(model="m", messages=ASK, max_tokens=20)
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_stream(client: Client) -> None:
    """A stream has the same text as the whole answer, one finish and one usage chunk."""
    options = {"model": "m", "messages": ASK, "max_tokens": 20}
    whole = await client.chat.completions.create(**options)
    stream = await client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == (whole.choices[0].message.content or "")
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == [
        whole.choices[0].finish_reason
    ]
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.total_tokens == whole.usage.total_tokens


async def test_tools(client: Client) -> None:
    """A tool call has valid arguments, whole and streamed; the answer after a tool's result is text."""
    whole = await client.chat.completions.create(model="m", messages=ASK, tools=[WEATHER])
    (call,) = whole.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": ""}
    stream = await client.chat.completions.create(model="m", messages=ASK, tools=[WEATHER], stream=True)
    choices = [choice async for chunk in stream for choice in chunk.choices]
    arguments = "".join(part.function.arguments or "" for choice in choices for part in choice.delta.tool_calls or [])
    assert json.loads(arguments) == {"city": ""}
    history = [
        *ASK,
        whole.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "content": "sun", "tool_call_id": call.id},
    ]
    after = await client.chat.completions.create(model="m", messages=history, tools=[WEATHER])
    assert after.choices[0].message.content


async def test_structured_output(client: Client) -> None:
    """A json_schema answer is an instance of the schema."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    answer = await client.chat.completions.create(
        model="m",
        messages=ASK,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )
    assert json.loads(answer.choices[0].message.content or "") == {"n": 3}


async def test_completions_models_embeddings(client: Client) -> None:
    """Completions, models and embeddings are read by the client as it expects them."""
    completion = await client.completions.create(model="m", prompt="hi", max_tokens=3)
    assert completion.choices[0].text
    assert [model.id async for model in client.models.list()] == ["m"]
    vectors = await client.embeddings.create(model="m", input=["a", "b"])
    assert [len(one.embedding) for one in vectors.data] == [8, 8]


async def test_the_client_retries(client: Client) -> None:
    """A scripted 503 is retried by the client, which then gets the next answer of the script."""
    marker = new_marker()
    fleet: Fleet = client.fleet
    chat = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": []}
    fleet.book.put(marker, Script.of(wire.json(503, {}, [("retry-after-ms", "1")]), wire.json(200, chat)))
    retrying = client.with_options(max_retries=1)
    answer = await retrying.chat.completions.create(model="m", messages=[{"role": "user", "content": marker}])
    assert answer.id == "x"
    assert [entry.dispatch for entry in fleet.journal.entries(marker)] == [0, 1]
