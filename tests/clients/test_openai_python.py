"""The real OpenAI client for Python against the reference gateway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import openai
import pytest
from pydantic import BaseModel

from fake_workers.control import Control
from fake_workers.script import Reply, Script
from fake_workers.wire import json as json_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

    from tests.clients.conftest import Stack

MODELS = ["m-sglang", "m-vllm", "m-tokenspeed"]
WEATHER: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture
def client(stack: Stack) -> Iterator[openai.OpenAI]:
    """A client that never retries on its own."""
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="k-shared", max_retries=0, timeout=20) as made:
        yield made


def _ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("model", MODELS)
def test_chat(client: openai.OpenAI, model: str) -> None:
    """A chat completion parses, speaks as the assistant and counts its tokens."""
    answer = client.chat.completions.create(model=model, messages=_ask("hello"), max_completion_tokens=5)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("model", MODELS)
def test_chat_stream(client: openai.OpenAI, model: str) -> None:
    """A stream yields a role, text, one finish reason and, as asked, the usage last."""
    stream = client.chat.completions.create(
        model=model,
        messages=_ask("hello"),
        stream=True,
        stream_options={"include_usage": True},
        max_completion_tokens=5,
    )
    chunks = list(stream)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices)
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["length"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize("model", MODELS)
def test_stream_equals_whole(client: openai.OpenAI, model: str) -> None:
    """The client's stream helper puts together the same text as the unstreamed answer to the same seed."""
    whole = client.chat.completions.create(model=model, messages=_ask("same"), seed=7)
    with client.chat.completions.stream(model=model, messages=_ask("same"), seed=7) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == whole.choices[0].message.content


@pytest.mark.parametrize("model", MODELS)
def test_tools(client: openai.OpenAI, model: str) -> None:
    """A forced tool call comes back with the tool's name and arguments that fit its schema."""
    answer = client.chat.completions.create(
        model=model, messages=_ask("weather in Paris?"), tools=[WEATHER], tool_choice="required"
    )
    calls = answer.choices[0].message.tool_calls
    assert calls
    assert calls[0].type == "function"
    assert calls[0].function.name == "weather"
    assert isinstance(json.loads(calls[0].function.arguments)["city"], str)


@pytest.mark.parametrize("model", MODELS)
def test_tools_stream(client: openai.OpenAI, model: str) -> None:
    """Streamed tool-call fragments add up to one call with valid arguments."""
    with client.chat.completions.stream(
        model=model, messages=_ask("weather in Paris?"), tools=[WEATHER], tool_choice="required"
    ) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls
    assert calls[0].function.name == "weather"
    assert "city" in json.loads(calls[0].function.arguments)


class Town(BaseModel):
    """What the structured-output test asks for."""

    name: str
    inhabitants: int


@pytest.mark.parametrize("model", MODELS)
def test_structured_output(client: openai.OpenAI, model: str) -> None:
    """The client's parse helper gets an object of the asked type."""
    answer = client.chat.completions.parse(model=model, messages=_ask("a town"), response_format=Town)
    assert isinstance(answer.choices[0].message.parsed, Town)


@pytest.mark.parametrize("model", MODELS)
def test_completions(client: openai.OpenAI, model: str) -> None:
    """Legacy completions answer every prompt of an array with a choice of its own."""
    answer = client.completions.create(model=model, prompt=["one", "two"], max_tokens=4)
    assert answer.object == "text_completion"
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert all(choice.text for choice in answer.choices)


@pytest.mark.parametrize("model", MODELS)
def test_completions_stream(client: openai.OpenAI, model: str) -> None:
    """Legacy completions stream text and end with a finish reason."""
    chunks = list(client.completions.create(model=model, prompt="one", max_tokens=4, stream=True))
    finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert finishes == ["length"]


def test_models(client: openai.OpenAI) -> None:
    """Every served model is listed once and can be retrieved by its id."""
    assert sorted(model.id for model in client.models.list()) == sorted(MODELS)
    assert client.models.retrieve("m-vllm").id == "m-vllm"


def test_embeddings(client: openai.OpenAI) -> None:
    """Asked for floats or left to the client's own choice (base64 on the wire), the vectors are the same numbers."""
    plain = client.embeddings.create(model="m-vllm", input=["a", "b"], encoding_format="float")
    packed = client.embeddings.create(model="m-vllm", input=["a", "b"])
    assert [item.index for item in plain.data] == [0, 1]
    assert packed.data[1].embedding == pytest.approx(plain.data[1].embedding, abs=1e-6)


def test_wrong_key(stack: Stack) -> None:
    """An unknown key is an AuthenticationError."""
    stranger = openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key="nobody", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model="m-vllm", messages=_ask("hello"))


def test_unknown_model(client: openai.OpenAI) -> None:
    """An unknown model is a NotFoundError whose code says so."""
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nope", messages=_ask("hello"))
    assert caught.value.code == "model_not_found"


def test_bad_range(client: openai.OpenAI) -> None:
    """A value out of range is a BadRequestError of type invalid_request_error."""
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m-vllm", messages=_ask("hello"), temperature=3)
    assert caught.value.type == "invalid_request_error"


async def test_the_client_s_own_retries(stack: Stack) -> None:
    """A worker's 409, which a gateway does not retry, is tried again by the client and then succeeds."""
    marker = "igc-00000000000a11ce"
    control = Control(stack.control_url)
    script = Script(answers=[json_answer(409, {"error": {"message": "busy"}}), Reply(pieces=["ok"])])
    await control.put_script(marker, script)
    async with openai.AsyncOpenAI(base_url=f"{stack.base_url}/v1", api_key="k-shared", max_retries=1) as client:
        answer = await client.chat.completions.create(model="m-vllm", messages=_ask(f"hello {marker}"))
    assert answer.choices[0].message.content == "ok"
    assert len(await control.entries(marker, at_least=2)) == 2
