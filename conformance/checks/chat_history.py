"""Earlier turns in a chat request: tool calls, their results, and reasoning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_kit import case, deliver, refused, says
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio


def _call(identity: str, arguments: str = "{}", name: str = "look_up") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _turns(*calls: dict[str, Any], content: str | None = None, **members: Any) -> list[dict[str, Any]]:
    """A question, the assistant's calls, one result each, and the prompt."""
    results = [says("done", "tool", tool_call_id=call["id"]) for call in calls]
    return [says("Look it up."), says(content, "assistant", tool_calls=list(calls), **members), *results, says()]


@clause("chat.messages.tool_calls.kept", "chat.messages.tool_calls.without_content")
@engines("sglang", "vllm", "tokenspeed")
async def test_tool_calls_arrive(gateway: Gateway, worker: Worker) -> None:
    """A tool call made without a text arrives with its id, its type and its function's name."""
    delivery = await deliver(gateway, worker, messages=_turns(_call("call_é-1", name="look_up")))
    delivery.unchanged("messages", 1, "tool_calls")


ARGUMENTS = {
    "blanks": '{ "a" : 1 ,  "b":\n[ 1,2 ] }',
    "escapes": '{"a":"\\u00e9\\n\\"","b":"é"}',
    "numbers": '{"a":1.0,"b":1e3,"c":123456789012345678901234567890}',
    "order": '{"z":1,"a":2,"z":3}',
    "empty object": "{}",
    "beyond ASCII": '{"名":"😀"}',
}


@clause("chat.messages.tool_calls.arguments_verbatim")
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS.keys())
async def test_arguments_arrive_verbatim(gateway: Gateway, worker: Worker, arguments: str) -> None:
    """The text of the arguments arrives as it was sent, not parsed and printed again."""
    delivery = await deliver(gateway, worker, messages=_turns(_call("call_1", arguments)))
    delivery.arrived_as(arguments, "messages", 1, "tool_calls", 0, "function", "arguments")


@clause("chat.messages.tool_calls.arguments_need_not_be_json")
@pytest.mark.parametrize("arguments", ["", " ", "not json", '{"cut":', "[1]", '"text"', "null"])
async def test_arguments_need_not_be_an_object(gateway: Gateway, worker: Worker, arguments: str) -> None:
    """Arguments that a model got wrong are history all the same: accepted, and they arrive."""
    delivery = await deliver(gateway, worker, messages=_turns(_call("call_1", arguments)))
    delivery.arrived_as(arguments, "messages", 1, "tool_calls", 0, "function", "arguments")


@clause("chat.messages.tool_calls.order_kept")
async def test_tool_calls_keep_their_order(gateway: Gateway, worker: Worker) -> None:
    """Parallel calls and their results arrive in the order in which they were sent."""
    calls = [_call(f"call_{i}", name=name) for i, name in enumerate(["zulu", "alpha", "mike", "alpha"])]
    delivery = await deliver(gateway, worker, messages=_turns(*calls))
    delivery.unchanged("messages", 1, "tool_calls")
    assert [message["tool_call_id"] for message in delivery.at("messages")[2:-1]] == [call["id"] for call in calls]


@clause("chat.messages.tool_calls.beside_content")
async def test_tool_calls_beside_content(gateway: Gateway, worker: Worker) -> None:
    """A turn that said something and called a tool arrives with both."""
    delivery = await deliver(gateway, worker, messages=_turns(_call("call_1"), content="Let me see."))
    delivery.arrived_as("Let me see.", "messages", 1, "content")
    delivery.unchanged("messages", 1, "tool_calls")


INCOMPLETE = [
    case("chat.messages.tool_calls.id_needed", {"type": "function", "function": {"name": "f", "arguments": "{}"}}),
    case("chat.messages.tool_calls.name_needed", {"id": "c", "type": "function", "function": {"arguments": "{}"}}),
]


@pytest.mark.parametrize("call", INCOMPLETE)
async def test_incomplete_tool_call_is_refused(gateway: Gateway, worker: Worker, call: dict[str, Any]) -> None:
    """A call that lacks what names it is refused; the complete one is served."""
    turns = [says(None, "assistant", tool_calls=[call]), says()]
    whole = [says(None, "assistant", tool_calls=[_call("c", name="f")]), says()]
    await refused(gateway, worker, {"messages": whole}, {"messages": turns})


@clause("chat.messages.tool_call_id.kept")
@pytest.mark.parametrize("identity", ["call_1", "chatcmpl-tool-0123456789abcdef", "functions.look_up:0", "é 1"])
async def test_tool_call_id_arrives(gateway: Gateway, worker: Worker, identity: str) -> None:
    """The id of a tool message arrives whatever its form."""
    delivery = await deliver(gateway, worker, messages=_turns(_call(identity)))
    delivery.arrived_as(identity, "messages", 2, "tool_call_id")


@clause("chat.messages.tool_call_id.repeat_not_checked")
async def test_repeated_tool_call_id_is_accepted(gateway: Gateway, worker: Worker) -> None:
    """Two turns with the same call id are accepted and arrive."""
    first, second = _turns(_call("call_0"))[:3], _turns(_call("call_0"))
    delivery = await deliver(gateway, worker, messages=[*first, *second])
    assert [message["role"] for message in delivery.at("messages")].count("tool") == 2


REASONING = "First, é…\n\n<think>no</think> 😀 "


@clause("chat.messages.reasoning_content.kept")
@engines("sglang", "vllm", "tokenspeed")
async def test_reasoning_content_arrives(gateway: Gateway, worker: Worker) -> None:
    """Reasoning of an earlier turn arrives character by character, whatever the engine."""
    delivery = await deliver(gateway, worker, messages=[says("x", "assistant", reasoning_content=REASONING), says()])
    delivery.arrived_as(REASONING, "messages", 0, "reasoning_content")


@clause("chat.messages.reasoning.accepted")
async def test_reasoning_alias_is_accepted(gateway: Gateway, worker: Worker) -> None:
    """Reasoning under the other name is accepted and is not lost."""
    delivery = await deliver(gateway, worker, messages=[says("x", "assistant", reasoning=REASONING), says()])
    message = delivery.at("messages", 0)
    assert REASONING in (message.get("reasoning"), message.get("reasoning_content"))


@clause("chat.messages.reasoning.becomes_reasoning_content")
@engines("sglang", "vllm", "tokenspeed")
async def test_reasoning_alias_becomes_reasoning_content(gateway: Gateway, worker: Worker) -> None:
    """Reasoning under the alias arrives under the name that it stands for, whatever the engine."""
    delivery = await deliver(gateway, worker, messages=[says("x", "assistant", reasoning=REASONING), says()])
    delivery.arrived_as(REASONING, "messages", 0, "reasoning_content")


@clause("chat.messages.reasoning.alias_not_repeated")
async def test_reasoning_alias_is_gone(gateway: Gateway, worker: Worker) -> None:
    """An engine that reads both names does not get the reasoning twice."""
    delivery = await deliver(gateway, worker, messages=[says("x", "assistant", reasoning=REASONING), says()])
    assert "reasoning" not in delivery.at("messages", 0)


@clause("chat.messages.reasoning.both_refused")
async def test_both_names_at_once_are_refused(gateway: Gateway, worker: Worker) -> None:
    """A message with both names is refused; with one of them it is served."""
    one = says("x", "assistant", reasoning_content="a")
    await refused(gateway, worker, {"messages": [one, says()]}, {"messages": [{**one, "reasoning": "b"}, says()]})


@clause("chat.messages.reasoning_content.with_tool_calls")
async def test_reasoning_beside_tool_calls(gateway: Gateway, worker: Worker) -> None:
    """A turn that reasoned and called a tool arrives with both."""
    delivery = await deliver(gateway, worker, messages=_turns(_call("call_1"), reasoning_content=REASONING))
    delivery.arrived_as(REASONING, "messages", 1, "reasoning_content")
    delivery.unchanged("messages", 1, "tool_calls")
