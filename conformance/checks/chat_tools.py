"""Tools of a chat request arrive as they were declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_json import kept_order
from conformance.checks.chat_kit import answer, case, deliver, tool
from conformance.harness.bodies import literal
from conformance.harness.marks import clause, engines
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

PARAMETERS = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "é\n\u2028 😀", "enum": ["a", "b"], "default": None},
        "when": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]},
    },
    "$defs": {"d": {"type": "array", "items": {"type": "integer"}, "examples": [[], [1, 2]]}},
    "required": ["place"],
    "additionalProperties": False,
}
NUMBERS = {"minimum": literal("1.0"), "maximum": literal("1"), "const": literal("9007199254740993")}
SPELLED = {"minimum": literal("0.10"), "maximum": literal("1e3")}
MANY = [tool(f"tool_{(i * 37) % 64}", description=f"number {i}") for i in range(64)]
WORDY = 'Line one.\n\tLine two: "quoted" \\ é 😀 <|im_end|> '

DECLARED = [
    case("chat.tools.function_kept", [tool("look_up", description="d", parameters=PARAMETERS, strict=True)]),
    case("chat.tools.function_kept", [tool("look_up", strict=False)], name="not strict"),
    case("chat.tools.order_kept", [tool(name) for name in ("zulu", "alpha", "mike", "bravo")]),
    case("chat.tools.many_kept", MANY),
    case("chat.tools.parameters_verbatim", [tool(parameters=PARAMETERS)]),
    case("chat.tools.parameters_verbatim", [tool(parameters={})], name="empty"),
    case("chat.tools.parameters_numbers_kept", [tool(parameters={"properties": {"a": NUMBERS}})]),
    case("chat.tools.parameters_number_text_kept", [tool(parameters={"properties": {"a": SPELLED}})]),
    case("chat.tools.description_verbatim", [tool(description=WORDY)]),
]


@pytest.mark.parametrize("tools", DECLARED)
@engines("sglang", "vllm", "tokenspeed")
async def test_tools_arrive(gateway: Gateway, worker: Worker, tools: list[dict[str, Any]]) -> None:
    """Tools arrive in order, each with every member that was sent, whatever the engine."""
    delivery = await deliver(gateway, worker, tools=tools)
    delivery.unchanged("tools", additions=True)


@clause("chat.tools.parameters_order_kept")
async def test_parameters_keep_their_order(gateway: Gateway, worker: Worker) -> None:
    """The properties of a function's parameters arrive in the order in which a template will print them."""
    names = ("zulu", "alpha", "mike", "bravo", "yankee", "echo")
    properties = {name: {"type": "string", "description": name} for name in names}
    delivery = await deliver(gateway, worker, tools=[tool(parameters={"type": "object", "properties": properties})])
    assert kept_order(delivery.sent["tools"], delivery.at("tools"))


@clause("chat.tools.without_parameters_accepted")
async def test_function_without_parameters_is_accepted(gateway: Gateway, worker: Worker) -> None:
    """A function that takes nothing may say nothing of parameters, and none of its own are invented."""
    delivery = await deliver(gateway, worker, tools=[{"type": "function", "function": {"name": "now"}}])
    delivery.arrived_as("now", "tools", 0, "function", "name")
    parameters = delivery.at("tools", 0, "function").get("parameters") or {}
    assert not parameters.get("properties")


@clause("chat.tools.empty_accepted")
async def test_empty_tools_are_accepted(gateway: Gateway, worker: Worker) -> None:
    """A list without tools is served as a request without tools."""
    (await deliver(gateway, worker, tools=[])).unset("tools", neutral=([],))


CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": 1}'}}
CHOICES = {"required": "required", "named": {"type": "function", "function": {"name": "look_up"}}}


@clause("chat.tools.finish_reason_kept")
@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_finish_reason_is_the_engine_s(
    gateway: Gateway, worker: Worker, reason: str, choice: object, *, stream: bool
) -> None:
    """Whichever reason the engine gives for a forced call, the client reads that one."""
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    if stream:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}
        first = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        reply = wire.sse(first, last)
    else:
        reply = answer(message, reason)
    delivery = await deliver(gateway, worker, reply, tools=[tool()], tool_choice=choice, stream=stream)
    exchange = delivery.exchange
    body = exchange.chunks[-1] if stream else exchange.json
    assert body["choices"][0]["finish_reason"] == reason
