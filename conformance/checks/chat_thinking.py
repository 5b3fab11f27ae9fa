"""Reasoning effort and the thinking object at HTTP workers: both arrive as they were sent."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_kit import Fields, case, deliver, refused
from conformance.harness.bodies import literal
from conformance.harness.marks import engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

LEVELS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
STRINGS = [
    *(case(f"chat.reasoning_effort.{level}_kept", level) for level in LEVELS),
    case("chat.reasoning_effort.any_string_kept", "ultra"),
    case("chat.reasoning_effort.any_string_kept", "HIGH", name="another case"),
    case("chat.reasoning_effort.any_string_kept", "", name="empty"),
    case("chat.reasoning_effort.any_string_kept", " é ", name="odd"),
    case("chat.reasoning_effort.numeric_string_kept", "5"),
    case("chat.reasoning_effort.numeric_string_kept", "007", name="zeros"),
    case("chat.reasoning_effort.numeric_string_kept", "1e3", name="exponent"),
]


@pytest.mark.parametrize("effort", STRINGS)
@engines("sglang", "vllm", "tokenspeed")
async def test_effort_string_arrives(gateway: Gateway, worker: Worker, effort: str) -> None:
    """A string arrives as that string, whatever the engine."""
    (await deliver(gateway, worker, reasoning_effort=effort)).arrived_as(effort, "reasoning_effort")


NUMBERS = [
    case("chat.reasoning_effort.integer_becomes_string", "5", {}),
    case("chat.reasoning_effort.integer_becomes_string", "100", {}, name="100"),
    case("chat.reasoning_effort.zero_becomes_string", "0", {}),
    case("chat.reasoning_effort.decimal_becomes_string", "0.5", {}),
    case("chat.reasoning_effort.decimal_becomes_string", "0.95", {}, name="no binary fraction"),
    case("chat.reasoning_effort.big_integer_becomes_string", "12345678901234567890", {}),
    case("chat.reasoning_effort.negative_becomes_string", "-3", {}),
    case("chat.reasoning_effort.converted_in_stream", "5", {"stream": True}),
]


@pytest.mark.parametrize(("number", "fields"), NUMBERS)
@engines("sglang", "vllm", "tokenspeed")
async def test_effort_number_becomes_a_string(gateway: Gateway, worker: Worker, number: str, fields: Fields) -> None:
    """A number arrives as the string of its decimal digits, whatever the engine."""
    delivery = await deliver(gateway, worker, reasoning_effort=literal(number), **fields)
    delivery.arrived_as(number, "reasoning_effort")


SPELLED = [
    case("chat.reasoning_effort.whole_decimal_becomes_string", "1.0"),
    case("chat.reasoning_effort.whole_decimal_becomes_string", "0.10", name="trailing zero"),
    case("chat.reasoning_effort.exponent_becomes_string", "1e3"),
    case("chat.reasoning_effort.exponent_becomes_string", "25E-2", name="fraction"),
]


@pytest.mark.parametrize("number", SPELLED)
async def test_effort_number_becomes_a_decimal_string(gateway: Gateway, worker: Worker, number: str) -> None:
    """A number with more than one decimal spelling arrives as a string in one of them, and without exponent."""
    effort = (await deliver(gateway, worker, reasoning_effort=literal(number))).at("reasoning_effort")
    assert isinstance(effort, str)
    assert re.fullmatch(r"-?\d+(\.\d+)?", effort)
    assert Decimal(effort) == Decimal(number)


PREFIX = "chat.thinking"
FOUR: Fields = {"type": "enabled", "effort": "high", "keep": "all", "clear_thinking": False}
KEPT = [
    *(case(f"{PREFIX}.type_{kind}_kept", {"type": kind}) for kind in ("enabled", "disabled", "adaptive")),
    case(f"{PREFIX}.type_may_lack", {"keep": "all"}),
    case(f"{PREFIX}.type_null_kept", {"type": None}),
    case(f"{PREFIX}.empty_object_kept", {}),
    *(case(f"{PREFIX}.effort_kept", {"type": "enabled", "effort": level}, name=level) for level in LEVELS),
    case(f"{PREFIX}.any_effort_kept", {"type": "enabled", "effort": "ultra"}),
    case(f"{PREFIX}.any_effort_kept", {"type": "enabled", "effort": ""}, name="empty"),
    case(f"{PREFIX}.effort_without_type_kept", {"effort": "low"}),
    case(f"{PREFIX}.keep_kept", {"type": "enabled", "keep": "all"}),
    case(f"{PREFIX}.keep_kept", {"type": "disabled", "keep": "ünlisted"}, name="any string"),
    case(f"{PREFIX}.clear_thinking_true_kept", {"type": "enabled", "clear_thinking": True}),
    case(f"{PREFIX}.clear_thinking_false_kept", {"type": "enabled", "clear_thinking": False}),
    case(f"{PREFIX}.all_members_kept", FOUR),
    case(f"{PREFIX}.unknown_members_kept", {"type": "enabled", "budget_tokens": 1024}),
]


@pytest.mark.parametrize("thinking", KEPT)
@engines("sglang", "vllm", "tokenspeed")
async def test_thinking_arrives(gateway: Gateway, worker: Worker, thinking: Fields) -> None:
    """The object arrives with exactly the members that were sent, whatever the engine."""
    delivery = await deliver(gateway, worker, thinking=thinking)
    delivery.unchanged("thinking")


REFUSED = [
    case(f"{PREFIX}.other_type_refused", "maybe"),
    case(f"{PREFIX}.other_type_refused", "auto", name="of another vendor"),
    case(f"{PREFIX}.other_type_refused", "enabled ", name="blank"),
    case(f"{PREFIX}.type_case_sensitive", "Enabled"),
    case(f"{PREFIX}.type_case_sensitive", "DISABLED", name="capitals"),
    case(f"{PREFIX}.empty_type_refused", ""),
]


@pytest.mark.parametrize("kind", REFUSED)
async def test_other_thinking_type_is_refused(gateway: Gateway, worker: Worker, kind: str) -> None:
    """A type that is none of the three is refused; the same object with one of them is served."""
    await refused(gateway, worker, {"thinking": {"type": "enabled"}}, {"thinking": {"type": kind}})


BOTH: Fields = {"reasoning_effort": "low", "thinking": {"type": "enabled", "effort": "max"}}


@pytest.mark.parametrize(
    "fields", [case(f"{PREFIX}.both_kept", BOTH), case(f"{PREFIX}.kept_in_stream", {**BOTH, "stream": True})]
)
async def test_both_fields_arrive(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """The two efforts arrive side by side: which one counts is for the engine to work out."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.unchanged("reasoning_effort")
    delivery.unchanged("thinking")


DERIVED = [
    case(f"{PREFIX}.not_derived_from_effort", {"reasoning_effort": "high"}, "thinking", name="high"),
    case(f"{PREFIX}.not_derived_from_effort", {"reasoning_effort": "none"}, "thinking", name="none"),
    case(f"{PREFIX}.effort_not_derived", {"thinking": {"type": "enabled", "effort": "low"}}, "reasoning_effort"),
    case(f"{PREFIX}.effort_not_derived", {"thinking": {"type": "disabled"}}, "reasoning_effort", name="disabled"),
    case(f"{PREFIX}.no_template_variables", BOTH, "chat_template_kwargs"),
    case(f"{PREFIX}.no_template_variables", {"thinking": FOUR}, "chat_template_kwargs", name="thinking alone"),
    case(f"{PREFIX}.null_sets_nothing", {"thinking": None}, "thinking"),
]


@pytest.mark.parametrize(("fields", "other"), DERIVED)
@engines("sglang", "vllm", "tokenspeed")
async def test_one_field_makes_no_other(gateway: Gateway, worker: Worker, fields: Fields, other: str) -> None:
    """What the client did not send does not appear because of what it did send."""
    (await deliver(gateway, worker, **fields)).unset(other)
