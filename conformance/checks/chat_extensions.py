"""Extension fields of a chat request: what must arrive of them, and what of the worker's answer must come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_kit import Fields, answer, case, deliver, says
from conformance.harness.bodies import literal
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

TEXTS = [
    case("chat.constraints.text_kept_verbatim", {"regex": r'^\d{3}-"\w+"\s*[^\\/]$'}, name="regex"),
    case("chat.constraints.text_kept_verbatim", {"regex": "名前|é+|\u2028|😀"}, name="regex beyond ASCII"),
    case("chat.constraints.text_kept_verbatim", {"ebnf": 'root ::= "yes\\n"\n  | \'no\'\r\n\t| [^"]*'}, name="ebnf"),
    case("chat.stop_token_ids.order_kept", {"stop_token_ids": [literal("9"), literal("0"), literal("128009")]}),
    case("chat.stop_token_ids.order_kept", {"stop_token_ids": [literal("4294967295")]}, name="largest"),
    case("chat.lora_path.kept_verbatim", {"lora_path": "adapters/é/a b:1"}),
    case("chat.sampling_seed.digits_kept", {"sampling_seed": literal("9007199254740993")}),
    case("chat.rid.sent_to_worker", {"rid": 'Request-é/1 "quoted"'}),
    case(
        "chat.chat_template_kwargs.entries_kept",
        {
            "chat_template_kwargs": {
                "enable_thinking": False,
                "none": None,
                "number": literal("1.0"),
                "nested": {"b": [1, {"a": None}], "a": {}},
                "text": "é\n",
            },
        },
    ),
]


@pytest.mark.parametrize("fields", TEXTS)
@engines("sglang", "vllm")
async def test_extension_arrives_verbatim(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """The value arrives as it was sent, whatever the engine."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.all_unchanged(fields)


ALL: Fields = {
    "top_k": 40,
    "min_p": literal("0.05"),
    "min_tokens": 2,
    "repetition_penalty": literal("1.05"),
    "regex": "a+",
    "stop_token_ids": [1, 2],
    "ignore_eos": True,
    "no_stop_trim": True,
    "skip_special_tokens": False,
    "continue_final_message": True,
    "separate_reasoning": False,
    "stream_reasoning": False,
    "chat_template_kwargs": {"a": 1},
    "lora_path": "adapter",
    "sampling_seed": 7,
    "return_hidden_states": True,
    "rid": "rid-1",
}
"""Every extension field with a value that is not its default; ebnf is the one that cannot be combined."""


@clause("chat.extensions.all_at_once")
@engines("sglang", "vllm", "tokenspeed")
async def test_all_extensions_arrive_together(gateway: Gateway, worker: Worker) -> None:
    """Seventeen extension fields in one request all arrive."""
    messages = [says(), says("Once upon", "assistant")]
    delivery = await deliver(gateway, worker, messages=messages, **ALL)
    delivery.all_unchanged(ALL, digits=False)


@clause("chat.separate_reasoning.reasoning_content_returned")
async def test_reasoning_comes_back_separately(gateway: Gateway, worker: Worker) -> None:
    """What the worker separated as reasoning is separate at the client as well."""
    reply = answer({"role": "assistant", "content": "42", "reasoning_content": "6 x 7\n= 42"})
    message = (await deliver(gateway, worker, reply, separate_reasoning=True)).exchange.json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("6 x 7\n= 42", "42")


@clause("chat.continue_final_message.assistant_stays_last")
@pytest.mark.parametrize("text", ["Once upon a", "The answer is ", "{\n"])
async def test_trailing_assistant_message_stays_last(gateway: Gateway, worker: Worker, text: str) -> None:
    """The message to be continued arrives as the last one, its trailing white space included."""
    messages = [says(), says(text, "assistant")]
    delivery = await deliver(gateway, worker, messages=messages, continue_final_message=True)
    delivery.unchanged("messages")
    delivery.unchanged("continue_final_message")


@clause("chat.chat_template_kwargs.not_interpreted")
async def test_template_entries_do_not_touch_request_fields(gateway: Gateway, worker: Worker) -> None:
    """Entries named like request fields stay entries: the fields beside them arrive as they were sent."""
    entries: Fields = {"reasoning_effort": "low", "tool_choice": "none", "response_format": {"type": "json_object"}}
    delivery = await deliver(gateway, worker, reasoning_effort="high", chat_template_kwargs=entries)
    delivery.arrived_as("high", "reasoning_effort")
    for name in ("tool_choice", "response_format"):
        delivery.unset(name)


@clause("chat.return_hidden_states.returned")
async def test_hidden_states_come_back(gateway: Gateway, worker: Worker) -> None:
    """Hidden states in the worker's answer reach the client with their numbers."""
    states = [[0.30000000000000004, -1.5], [2.0, 1e-07]]
    reply = answer({"role": "assistant", "content": "Hi"}, hidden_states=states)
    delivery = await deliver(gateway, worker, reply, return_hidden_states=True)
    assert delivery.exchange.json["choices"][0]["hidden_states"] == states
