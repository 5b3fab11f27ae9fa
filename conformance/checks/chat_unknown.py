"""Fields that the gateway does not model: kept at every level, and forwarded unchanged to the last digit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_json import Number, kept_order, parse
from conformance.checks.chat_kit import Fields, case, deliver, says, tool
from conformance.harness.bodies import literal
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

EXTRA = "igc_extra"
"""A member's name that no contract models."""
NESTED: Fields = {"a": [1, {"b": [None, True, "x"]}, []], "c": {"d": {"e": {"f": literal("1.5")}}}}

VALUES = [
    case("chat.unknown.kept", {EXTRA: "value"}),
    case("chat.unknown.null_value_kept", {EXTRA: None}),
    case("chat.unknown.false_value_kept", {EXTRA: False}),
    case("chat.unknown.zero_value_kept", {EXTRA: 0}),
    case("chat.unknown.empty_string_value_kept", {EXTRA: ""}),
    case("chat.unknown.empty_object_value_kept", {EXTRA: {}}),
    case("chat.unknown.empty_array_value_kept", {EXTRA: []}),
    case("chat.unknown.several_kept", {f"{EXTRA}_{i}": i for i in range(50)}),
    case("chat.unknown.several_kept", {"priority": 3, "cache_salt": "s", "custom_params": {"x": 1}}, name="real ones"),
    case("chat.unknown.name_kept_verbatim", {"igc with blanks": 1, "igc.dots/and\\more": 2, "igc_ünïcode_名前": 3}),
    case("chat.unknown.name_kept_verbatim", {'igc"quoted"': 1, "igc\nline": 2}, name="escaped"),
    case("chat.unknown.near_names_kept", {"Temperature": "warm", "max-tokens": 5, "STREAM": "no", "top_P": [1]}),
    case("chat.unknown.text_kept", {EXTRA: 'tab\tline\ncr\r"quotes"\\back/slash\u0000\u001f\u007f'}, name="controls"),
    case(
        "chat.unknown.text_kept",
        {EXTRA: "é ß 名前 😀 👨\u200d👩\u200d👧 e\u0301 \u2028\u2029\ufeff"},
        name="beyond ASCII",
    ),
    case("chat.unknown.nested_kept", {EXTRA: NESTED}),
    case("chat.unknown.array_order_kept", {EXTRA: [3, 1, 2, "b", "a", None]}),
    case("chat.unknown.integer_stays_integer", {EXTRA: literal("1"), "igc_more": [literal("-7"), literal("0")]}),
    case("chat.unknown.decimal_stays_decimal", {EXTRA: literal("1.0"), "igc_more": [literal("-7.0"), literal("0.5")]}),
    case("chat.unknown.trailing_zeros_kept", {EXTRA: [literal("1.50"), literal("-7.00"), literal("0.0000")]}),
    case("chat.unknown.sixty_four_bits_kept", {EXTRA: literal("9007199254740993")}, name="beyond doubles"),
    case("chat.unknown.sixty_four_bits_kept", {EXTRA: literal("18446744073709551615")}, name="unsigned"),
    case("chat.unknown.sixty_four_bits_kept", {EXTRA: literal("-9223372036854775808")}, name="signed"),
    case("chat.unknown.big_integer_kept", {EXTRA: literal("123456789012345678901234567890")}),
    case("chat.unknown.long_decimal_kept", {EXTRA: literal("0.1234567890123456789012345")}),
    case("chat.unknown.exponent_kept", {EXTRA: literal("1e3")}, name="integer"),
    case("chat.unknown.exponent_kept", {EXTRA: literal("1E-3")}, name="capital"),
    case("chat.unknown.exponent_kept", {EXTRA: literal("2.50e+2")}, name="signed"),
    case("chat.unknown.negative_zero_kept", {EXTRA: literal("-0.0")}),
    case("chat.unknown.kept_in_stream", {EXTRA: NESTED, "stream": True}),
    case("chat.unknown.kept_with_migration", {EXTRA: NESTED, "max_tokens": 9}),
]


@pytest.mark.parametrize("fields", VALUES)
async def test_unmodelled_field_arrives_unchanged(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """Every unmodelled member arrives with its name and its value, numbers as they were written."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.all_unchanged(name for name in fields if name not in {"stream", "max_tokens"})


@clause("chat.unknown.tiny_and_huge_not_changed")
@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400"])
async def test_number_beyond_doubles_is_not_changed(gateway: Gateway, worker: Worker, text: str) -> None:
    """A number that no double can hold arrives with its digits or refuses the request; it becomes no other."""
    proof = await gateway.proof(worker, CHAT, {EXTRA: 1})
    script = worker.script()
    exchange = await gateway.post(CHAT, {**gateway.chat_body(script), EXTRA: literal(text)})
    if exchange.status == 400:
        await script.never_seen(because=proof)
        return
    received = parse((await script.only()).body)
    if received.get(EXTRA) != Number(text):
        raise Disproved("changed on the way", f"sent {text}, arrived as {received.get(EXTRA)}")


@clause("chat.unknown.kept")
@engines("sglang", "vllm", "tokenspeed")
async def test_unmodelled_field_reaches_every_engine(gateway: Gateway, worker: Worker) -> None:
    """What is kept does not depend on the engine behind the gateway."""
    delivery = await deliver(gateway, worker, **{EXTRA: NESTED})
    delivery.unchanged(EXTRA)


@clause("chat.unknown.kept_with_alias")
async def test_unmodelled_fields_survive_the_alias(gateway: Gateway, worker: Worker) -> None:
    """Writing the canonical name into the body leaves the unmodelled members as they were."""
    delivery = await deliver(gateway, worker, model=gateway.alias, **{EXTRA: NESTED})
    delivery.unchanged(EXTRA)


@clause("chat.unknown.nested_order_kept")
async def test_order_of_members_is_kept(gateway: Gateway, worker: Worker) -> None:
    """The members of an unmodelled object arrive in the order in which they were written."""
    value = {name: {"z": 1, "y": 2, "x": {"b": 1, "a": 2}} for name in ("zulu", "alpha", "mike", "bravo", "yankee")}
    delivery = await deliver(gateway, worker, **{EXTRA: value})
    delivery.unchanged(EXTRA)
    assert kept_order(delivery.sent[EXTRA], delivery.got[EXTRA])


CALL: Fields = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
NAMED: Fields = {"type": "function", "function": {"name": "look_up"}}
FORMAT: Fields = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}


def _put(value: Any, *path: str | int) -> Any:
    """A copy of the value with `EXTRA` in the object at the path."""
    if isinstance(value, list):
        return [_put(item, *path[1:]) if i == path[0] else item for i, item in enumerate(value)]
    if not path:
        return {**value, EXTRA: 1}
    return {**value, path[0]: _put(value[path[0]], *path[1:])}


def _message(role: str, **members: Any) -> Fields:
    return {"messages": [{**says("x", role, **members), EXTRA: 1}, says()]}


CALLING: list[Any] = [says("x", "assistant", tool_calls=[CALL]), says("y", "tool", tool_call_id="call_1"), says()]
ALLOWED: Fields = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look_up"}]}

LEVELS = [
    case("chat.unknown.in_message.system", _message("system"), ("messages", 0)),
    case("chat.unknown.in_message.developer", _message("developer"), ("messages", 0)),
    case("chat.unknown.in_message.user", _message("user"), ("messages", 0)),
    case("chat.unknown.in_message.assistant", _message("assistant"), ("messages", 0)),
    case("chat.unknown.in_message.tool", _message("tool", tool_call_id="call_1"), ("messages", 0)),
    case("chat.unknown.in_message.function", _message("function", name="look_up"), ("messages", 0)),
    case(
        "chat.unknown.in_tool_call", {"messages": _put(CALLING, 0, "tool_calls", 0)}, ("messages", 0, "tool_calls", 0)
    ),
    case(
        "chat.unknown.in_tool_call_function",
        {"messages": _put(CALLING, 0, "tool_calls", 0, "function")},
        ("messages", 0, "tool_calls", 0, "function"),
    ),
    case("chat.unknown.in_tool", {"tools": _put([tool()], 0)}, ("tools", 0)),
    case("chat.unknown.in_tool_function", {"tools": _put([tool()], 0, "function")}, ("tools", 0, "function")),
    case("chat.unknown.in_tool_choice", {"tools": [tool()], "tool_choice": _put(NAMED)}, ("tool_choice",)),
    case(
        "chat.unknown.in_tool_choice_function",
        {"tools": [tool()], "tool_choice": _put(NAMED, "function")},
        ("tool_choice", "function"),
    ),
    case(
        "chat.unknown.in_allowed_tools_entry",
        {"tools": [tool()], "tool_choice": _put(ALLOWED, "tools", 0)},
        ("tool_choice", "tools", 0),
    ),
    case(
        "chat.unknown.in_response_format", {"response_format": {"type": "json_object", EXTRA: 1}}, ("response_format",)
    ),
    case(
        "chat.unknown.in_json_schema",
        {"response_format": _put(FORMAT, "json_schema")},
        ("response_format", "json_schema"),
    ),
    case("chat.unknown.in_thinking", {"thinking": {"type": "enabled", EXTRA: 1}}, ("thinking",)),
    case(
        "chat.unknown.in_stream_options",
        {"stream": True, "stream_options": {"include_usage": True, EXTRA: 1}},
        ("stream_options",),
    ),
    case("chat.unknown.in_chat_template_kwargs", {"chat_template_kwargs": {EXTRA: 1}}, ("chat_template_kwargs",)),
]


@pytest.mark.parametrize(("fields", "place"), LEVELS)
async def test_unmodelled_field_is_kept_at_every_level(
    gateway: Gateway, worker: Worker, fields: Fields, place: tuple[str | int, ...]
) -> None:
    """An unmodelled member inside a modelled object arrives in the same place with the same value."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.unchanged(*place, EXTRA)


@clause("chat.unknown.values_in_message_kept")
async def test_values_inside_a_message_are_kept(gateway: Gateway, worker: Worker) -> None:
    """A nested value inside a message keeps the text of its numbers."""
    delivery = await deliver(
        gateway, worker, messages=[{**says(), EXTRA: {"x": literal("1e3"), "y": [literal("2.0")]}}]
    )
    delivery.unchanged("messages", 0, EXTRA)


STREAM_OPTIONS = [
    case("chat.unknown.in_stream_options", {"step_usage_chunks": 3}, name="step_usage_chunks"),
    case("chat.unknown.in_stream_options_nested", {"igc": {"a": [1, None, {"b": literal("1.0")}]}}),
    case(
        "chat.unknown.in_stream_options_beside_known",
        {"include_usage": True, "continuous_usage_stats": True, "step_usage_chunks": 3},
    ),
    case("chat.unknown.in_stream_options_beside_known", {"include_usage": False, "igc": 1}, name="false"),
]


@pytest.mark.parametrize("options", STREAM_OPTIONS)
@engines("sglang", "vllm", "tokenspeed")
async def test_stream_options_arrive_whole(gateway: Gateway, worker: Worker, options: Fields) -> None:
    """Stream options arrive with every key that was sent, known or not, whatever the engine."""
    delivery = await deliver(gateway, worker, stream=True, stream_options=options)
    delivery.unchanged("stream_options", additions=True)
