"""What the client leaves out stays out: no default of the gateway's reaches an engine, and null means left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_kit import case, deliver, tool
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

NOT_INVENTED = [
    "temperature",
    "top_p",
    "n",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "logit_bias",
    "top_logprobs",
    "parallel_tool_calls",
    "response_format",
    "stream_options",
    "user",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "reasoning_effort",
    "thinking",
]


@pytest.mark.parametrize("field", [case(f"chat.{name}.not_invented", name) for name in NOT_INVENTED])
@engines("sglang", "vllm", "tokenspeed")
async def test_absent_field_stays_absent(gateway: Gateway, worker: Worker, field: str) -> None:
    """A field that the client left out arrives neither in a plain nor in a streaming request, for any engine."""
    for fields in ({}, {"stream": True}):
        (await deliver(gateway, worker, **fields)).unset(field)


SWITCHES = ["logprobs", "ignore_eos", "no_stop_trim", "continue_final_message", "return_hidden_states"]


@pytest.mark.parametrize("field", [case(f"chat.{name}.not_turned_on", name) for name in [*SWITCHES, "stream"]])
@engines("sglang", "vllm", "tokenspeed")
async def test_absent_switch_stays_off(gateway: Gateway, worker: Worker, field: str) -> None:
    """A switch that the client left out arrives as false or not at all."""
    (await deliver(gateway, worker)).unset(field, neutral=(False,))


OFF = [
    *(case(f"chat.{name}.false_stays_off", {name: False}) for name in [*SWITCHES[1:], "stream"]),
    case("chat.stream.null_stays_off", {"stream": None}),
]


@pytest.mark.parametrize("fields", OFF)
async def test_switch_that_is_off_stays_off(gateway: Gateway, worker: Worker, fields: dict[str, Any]) -> None:
    """A switch that the client set to false (or null) arrives as false or not at all."""
    delivery = await deliver(gateway, worker, **fields)
    for field in fields:
        delivery.unset(field, neutral=(False,))


ON_BY_DEFAULT = ["skip_special_tokens", "separate_reasoning", "stream_reasoning"]


@pytest.mark.parametrize("field", [case(f"chat.{name}.default_true", name) for name in ON_BY_DEFAULT])
@engines("sglang", "vllm", "tokenspeed")
async def test_absent_field_means_true(gateway: Gateway, worker: Worker, field: str) -> None:
    """A field that is true by default arrives as true or not at all when left out."""
    for fields in ({}, {"stream": True}):
        (await deliver(gateway, worker, **fields)).unset(field, neutral=(True,))


@pytest.mark.parametrize("field", [case(f"chat.{name}.false_reaches_worker", name) for name in ON_BY_DEFAULT])
@engines("sglang", "vllm", "tokenspeed")
async def test_explicit_false_arrives(gateway: Gateway, worker: Worker, field: str) -> None:
    """The value that differs from the default arrives."""
    (await deliver(gateway, worker, **{field: False})).unchanged(field)


@pytest.mark.parametrize("field", [case(f"chat.{name}.true_stays_true", name) for name in ON_BY_DEFAULT])
async def test_explicit_true_stays_true(gateway: Gateway, worker: Worker, field: str) -> None:
    """The value that equals the default arrives as such or not at all."""
    (await deliver(gateway, worker, **{field: True})).unset(field, neutral=(True,))


NEUTRAL: dict[str, Any] = {
    "max_completion_tokens": None,
    "max_tokens": None,
    "temperature": None,
    "top_p": None,
    "n": None,
    "stream": False,
    "stream_options": None,
    "stop": None,
    "presence_penalty": None,
    "frequency_penalty": None,
    "logprobs": False,
    "top_logprobs": None,
    "logit_bias": None,
    "tools": None,
    "tool_choice": None,
    "parallel_tool_calls": None,
    "response_format": None,
    "reasoning_effort": None,
    "thinking": None,
    "user": None,
    "top_k": None,
    "min_p": None,
    "min_tokens": None,
    "repetition_penalty": None,
    "regex": None,
    "ebnf": None,
    "stop_token_ids": None,
    "ignore_eos": False,
    "no_stop_trim": False,
    "skip_special_tokens": True,
    "continue_final_message": False,
    "separate_reasoning": True,
    "stream_reasoning": True,
    "chat_template_kwargs": None,
    "lora_path": None,
    "sampling_seed": None,
    "return_hidden_states": False,
    "rid": None,
}
"""Optional fields, each with what it may arrive as beside null and absence: the value that says nothing."""


@clause("chat.request.null_counts_as_unset")
async def test_nulls_count_as_left_out(gateway: Gateway, worker: Worker) -> None:
    """A client that writes every unset option as null is served, and no cross-field rule fires."""
    delivery = await deliver(gateway, worker, **dict.fromkeys(NEUTRAL))
    assert delivery.exchange.json["object"] == "chat.completion"


@clause("chat.request.null_never_becomes_a_value")
@pytest.mark.parametrize("field", NEUTRAL)
async def test_null_becomes_no_value(gateway: Gateway, worker: Worker, field: str) -> None:
    """A null arrives as null, as the neutral value, or not at all."""
    delivery = await deliver(gateway, worker, **{field: None})
    delivery.unset(field, neutral=(NEUTRAL[field],))


@clause("chat.tool_choice.null_needs_no_tools")
@pytest.mark.parametrize("tools", [None, [tool()]])
async def test_null_tool_choice_is_none(gateway: Gateway, worker: Worker, tools: list[Any] | None) -> None:
    """A null tool_choice is accepted, with and without tools, and forces none."""
    delivery = await deliver(gateway, worker, tool_choice=None, tools=tools)
    delivery.unset("tool_choice", neutral=("auto", "none"))
