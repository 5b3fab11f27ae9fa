"""What does not fit the schema is a parse failure, what is out of bounds is not, and the two are told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference_server.endpoints import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint
from reference_server.errors import ParseRefusal, ValidationRefusal
from reference_server.stages.parse import parse_body
from reference_server.stages.profile import BASELINE
from reference_server.stages.validate import validate

USER = {"role": "user", "content": "hi"}
BASE: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [USER]},
    "completions": {"model": "m", "prompt": "hi"},
    "embeddings": {"model": "m", "input": "hi"},
}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}


def judge(endpoint: Endpoint, **fields: Any) -> None:
    """Parse and validate a request with these fields."""
    raw = json.dumps({**BASE[endpoint.name], **fields}).encode()
    validate(parse_body(raw, endpoint), BASELINE)


MISFITS = [
    (CHAT, {"model": 1}, "model"), (CHAT, {"model": None}, "model"), (CHAT, {"messages": "x"}, "messages"),
    (CHAT, {"messages": ["x"]}, "messages[0]"), (CHAT, {"messages": [{}]}, "messages[0]"),
    (CHAT, {"messages": [{"role": "bot", "content": "x"}]}, "messages[0]"),
    (CHAT, {"messages": [{"role": ["user"], "content": "x"}]}, "messages[0]"),
    (CHAT, {"messages": [{"role": "user"}]}, "messages[0].content"),
    (CHAT, {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    (CHAT, {"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content"),
    (CHAT, {"messages": [USER, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id"),
    (CHAT, {"n": 1.0}, "n"), (CHAT, {"n": True}, "n"), (CHAT, {"n": "1"}, "n"),
    (CHAT, {"temperature": "1"}, "temperature"), (CHAT, {"temperature": True}, "temperature"),
    (CHAT, {"stream": 1}, "stream"), (CHAT, {"stop": 5}, "stop"), (CHAT, {"stop": ["a", 1]}, "stop"),
    (CHAT, {"logprobs": 1}, "logprobs"), (CHAT, {"logit_bias": []}, "logit_bias"),
    (CHAT, {"logit_bias": {"1": "x"}}, "logit_bias.1"), (CHAT, {"logit_bias": {"1": True}}, "logit_bias.1"),
    (CHAT, {"tools": [{"type": "function"}]}, "tools[0].function"), (CHAT, {"tool_choice": "some"}, "tool_choice"),
    (CHAT, {"tool_choice": {"type": "function"}, "tools": TOOLS}, "tool_choice.function"),
    (CHAT, {"response_format": {"type": "xml"}}, "response_format"), (CHAT, {"response_format": {}}, "response_format"),
    (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    (CHAT, {"thinking": {"type": "maybe"}}, "thinking.type"), (CHAT, {"reasoning_effort": True}, "reasoning_effort"),
    (CHAT, {"stream_options": []}, "stream_options"), (CHAT, {"user": 5}, "user"),
    (COMPLETIONS, {"prompt": [1, 2]}, "prompt"), (COMPLETIONS, {"prompt": None}, "prompt"),
    (COMPLETIONS, {"logprobs": True}, "logprobs"), (COMPLETIONS, {"json_schema": {}}, "json_schema"),
    (EMBEDDINGS, {"model": 5}, "model"),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "fields", "where"), MISFITS)
def test_a_schema_mismatch_is_a_parse_failure(endpoint: Endpoint, fields: dict[str, Any], where: str) -> None:
    """Wrong types, missing keys and unknown words are refused as json_parse_error, and the place is named."""
    with pytest.raises(ParseRefusal) as caught:
        judge(endpoint, **fields)
    assert f" {where}" in caught.value.message


@pytest.mark.parametrize("document", ["null", "[]", '"x"', "5", "true"])
@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS, EMBEDDINGS])
def test_only_an_object_is_a_request(endpoint: Endpoint, document: str) -> None:
    """Any other JSON document is a parse failure."""
    with pytest.raises(ParseRefusal, match="object"):
        parse_body(document.encode(), endpoint)


TOO_WIDE = [
    (CHAT, {"n": -1}, "n"), (CHAT, {"n": 2**32}, "n"),
    (CHAT, {"max_completion_tokens": 2**32}, "max_completion_tokens"),
    (CHAT, {"stop_token_ids": [1, -1]}, "stop_token_ids[1]"), (CHAT, {"stop_token_ids": [2**32]}, "stop_token_ids[0]"),
    (CHAT, {"top_k": 2**31}, "top_k"), (CHAT, {"top_k": -(2**31) - 1}, "top_k"),
    (CHAT, {"sampling_seed": -1}, "sampling_seed"), (CHAT, {"sampling_seed": 2**64}, "sampling_seed"),
    (CHAT, {"seed": 2**63}, "seed"), (COMPLETIONS, {"seed": -(2**63) - 1}, "seed"),
    (COMPLETIONS, {"logprobs": -1}, "logprobs"), (COMPLETIONS, {"best_of": -1}, "best_of"),
    (EMBEDDINGS, {"dimensions": -1}, "dimensions"), (EMBEDDINGS, {"dimensions": 2**32}, "dimensions"),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "fields", "where"), TOO_WIDE)
def test_an_integer_beyond_its_width_is_a_misfit(endpoint: Endpoint, fields: dict[str, Any], where: str) -> None:
    """Counts below zero and integers no machine type of theirs holds do not fit the schema: code json_parse_error."""
    with pytest.raises(ParseRefusal, match="must be an integer from") as caught:
        judge(endpoint, **fields)
    assert f" {where}: " in caught.value.message


UNNAMED = [
    {"seed": "1"}, {"seed": 1.5}, {"metadata": []}, {"metadata": {"a": 1}}, {"modalities": "text"}, {"modalities": [1]},
    {"service_tier": 1}, {"prompt_cache_key": 1}, {"safety_identifier": 1}, {"return_audio": "yes"},
    {"session_params": []}, {"functions": [{}]}, {"function_call": "required"}, {"function_call": {"x": "f"}},
    {"messages": [USER, {"role": "function", "name": "f", "content": [{"type": "text", "text": "x"}]}]},
    {"messages": [USER, {"role": "function", "name": "f", "content": None}]},
    {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]}},
    {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [{"echo": None}, {"ignore_eos": None}, {"logit_bias": {"1": "x"}}, {"session_params": []}],
)
def test_silence_about_completions_is_filled_the_same_way(fields: dict[str, Any]) -> None:
    """Nulls that the real gateway refuses on Completions, and its types of unnamed fields there."""
    with pytest.raises(ParseRefusal):
        judge(COMPLETIONS, **fields)


@pytest.mark.parametrize("fields", UNNAMED)
def test_where_the_contract_is_silent_types_are_the_real_gateway_s(fields: dict[str, Any]) -> None:
    """Fields that no table names and the real gateway types are refused as json_parse_error when of another type."""
    with pytest.raises(ParseRefusal):
        judge(CHAT, **fields)


def test_a_misfit_wins_over_a_bound() -> None:
    """With both kinds of failure the request counts as not parsed."""
    with pytest.raises(ParseRefusal):
        judge(CHAT, temperature=9, n="x")


OUT_OF_BOUNDS = [
    (CHAT, {"messages": []}, "messages"), (CHAT, {"temperature": 2.1}, "temperature"), (CHAT, {"top_p": 0}, "top_p"),
    (CHAT, {"n": 0}, "n"), (CHAT, {"n": 11}, "n"), (CHAT, {"max_completion_tokens": 0}, "max_completion_tokens"),
    (CHAT, {"max_tokens": 0}, "max_tokens"), (CHAT, {"stop": ""}, "stop"), (CHAT, {"stop": ["a"] * 5}, "stop"),
    (CHAT, {"stop": ["a", ""]}, "stop[1]"), (CHAT, {"top_k": 0}, "top_k"), (CHAT, {"top_k": -2}, "top_k"),
    (CHAT, {"presence_penalty": -2.1}, "presence_penalty"), (CHAT, {"min_p": 1.1}, "min_p"),
    (CHAT, {"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
    (CHAT, {"messages": [USER, {"role": "user", "content": []}]}, "messages[1].content"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "", "schema": {}}}},
     "response_format.json_schema.name"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": "x"}}},
     "response_format.json_schema.schema"),
    (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": None}}},
     "response_format.json_schema.schema"),
    (CHAT, {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "mode": "any", "tools": []}}, "tool_choice.mode"),
    (COMPLETIONS, {"n": 129}, "n"), (COMPLETIONS, {"best_of": 21}, "best_of"),
    (COMPLETIONS, {"logprobs": 6}, "logprobs"),
    (COMPLETIONS, {"prompt": []}, "prompt"), (COMPLETIONS, {"top_k": 0}, "top_k"),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "fields", "where"), OUT_OF_BOUNDS)
def test_a_bound_is_a_validation_failure(endpoint: Endpoint, fields: dict[str, Any], where: str) -> None:
    """Values outside their bounds, and a schema that is no object, are refused with code 400; the field is named."""
    with pytest.raises(ValidationRefusal) as caught:
        judge(endpoint, **fields)
    assert caught.value.message.startswith(f"{where}: ")


def test_all_bounds_are_named() -> None:
    """Every field out of bounds has its line."""
    with pytest.raises(ValidationRefusal) as caught:
        judge(CHAT, temperature=9, n=0, top_k=0)
    assert [line.split(":")[0] for line in caught.value.message.split("\n")] == ["temperature", "n", "top_k"]


ACCEPTED = [
    (CHAT, {"temperature": 2, "top_p": 1, "n": 10, "stop": [], "top_k": -1, "min_tokens": 0}),
    (CHAT, {"stop": None, "tools": None, "logit_bias": None, "response_format": None, "stream_options": None}),
    (CHAT, {"messages": [{"role": "system"}, USER, {"role": "assistant", "content": None}]}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "odd", "x": 1}, {}, {"type": "text"}]}]}),
    (CHAT, {"zz": {"any": [1]}, "store": 5}), (CHAT, {"n": None, "seed": -5, "metadata": {"a": "b"}}),
    (CHAT, {"thinking": {"type": None, "budget_tokens": 5}}),
    (CHAT, {"tool_choice": "auto"}), (CHAT, {"tool_choice": "none", "tools": []}),
    (CHAT, {"tool_choice": "required", "tools": TOOLS}),
    (CHAT, {"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": TOOLS}),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}, "tools": TOOLS}),
    (CHAT, {"response_format": SCHEMA_FORMAT}), (CHAT, {"regex": "a", "response_format": {"type": "text"}}),
    (CHAT, {"json_schema": "x", "regex": "a"}), (CHAT, {"top_logprobs": 2, "logprobs": True}),
    (COMPLETIONS, {"prompt": "", "max_tokens": 0, "best_of": 1}), (COMPLETIONS, {"best_of": 3, "n": 2}),
    (COMPLETIONS, {"logit_bias": {"whatever": 1}, "min_tokens": 2, "max_completion_tokens": 1}),
    (EMBEDDINGS, {"input": [[1], [2]], "zz": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "fields"), ACCEPTED)
def test_what_the_contract_allows_passes(endpoint: Endpoint, fields: dict[str, Any]) -> None:
    """Bounds included, nulls of optional fields, unknown fields and parts."""
    judge(endpoint, **fields)


CROSS_FIELD = [
    (CHAT, {"top_logprobs": 0}, "top_logprobs"), (CHAT, {"top_logprobs": 1, "logprobs": False}, "top_logprobs"),
    (CHAT, {"stream_options": {}}, "stream_options"), (CHAT, {"stream_options": {}, "stream": False}, "stream_options"),
    (CHAT, {"min_tokens": 6, "max_completion_tokens": 5}, "min_tokens"),
    (CHAT, {"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
    (CHAT, {"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
    (CHAT, {"ebnf": "a", "response_format": SCHEMA_FORMAT}, "ebnf"), (CHAT, {"regex": "a", "ebnf": "b"}, "only one of"),
    (CHAT, {"tool_choice": "required"}, "tool_choice"), (CHAT, {"tool_choice": "required", "tools": []}, "tool_choice"),
    (CHAT, {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": TOOLS}, "tool_choice"),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]},
            "tools": TOOLS}, "tool_choice.tools"),
    (CHAT, {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "name": "f"}]},
            "tools": TOOLS}, "tool_choice.tools"),
    (CHAT, {"logit_bias": {"abc": 1}}, "logit_bias"), (CHAT, {"logit_bias": {"-1": 1}}, "logit_bias"),
    (CHAT, {"messages": [USER, {"role": "root", "content": "x"}]}, "messages[1].role"),
    (COMPLETIONS, {"stream_options": {}}, "stream_options"), (COMPLETIONS, {"best_of": 2, "n": 2}, "best_of"),
    (COMPLETIONS, {"best_of": 3, "stream": True}, "best_of"),
    (COMPLETIONS, {"min_tokens": 2, "max_tokens": 1}, "min_tokens"),
    (COMPLETIONS, {"regex": "a", "json_schema": "{}"}, "only one of"),
]  # fmt: skip


@pytest.mark.parametrize(("endpoint", "fields", "words"), CROSS_FIELD)
def test_a_rule_between_fields_is_a_validation_failure(endpoint: Endpoint, fields: dict[str, Any], words: str) -> None:
    """Every rule between fields refuses with code 400 and names its field."""
    with pytest.raises(ValidationRefusal) as caught:
        judge(endpoint, **fields)
    assert caught.value.message.startswith(words)


def test_bounds_come_before_rules_between_fields() -> None:
    """A rule between fields is not looked at while a field is out of bounds."""
    with pytest.raises(ValidationRefusal, match=r"^temperature: [^\n]*$"):
        judge(CHAT, temperature=9, top_logprobs=1)


REPEATS = [
    ('{"model":"m","model":"m","messages":[{"role":"user","content":"x"}]}', "model"),
    ('{"mod\\u0065l":"m","model":"m","messages":[{"role":"user","content":"x"}]}', "model"),
    ('{"model":"m","messages":[{"role":"user","content":"x","content":"y"}]}', "content"),
    ('{"model":"m","messages":[{"role":"user","content":"x"}],"thinking":{"type":null,"type":null}}', "type"),
    ('{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}', "text"),
    ('{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f","name":"f"}}]}', "name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key"), REPEATS)
def test_a_modelled_key_must_not_stand_twice(text: str, key: str) -> None:
    """At every level, a key the contract knows is refused when repeated, however it is spelled."""
    with pytest.raises(ParseRefusal, match=f"duplicate field '{key}'"):
        parse_body(text.encode(), CHAT)


@pytest.mark.parametrize(
    "text",
    [
        '{"model":"m","messages":[{"role":"user","content":"x"}],"zz":1,"zz":2}',
        '{"model":"m","messages":[{"role":"user","content":"x","zz":1,"zz":2}],"other":{"model":1,"model":2}}',
        '{"model":"m","messages":[{"role":"user","content":[{"type":"odd","text":1,"text":2}]}]}',
        '{"model":"m","messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"model":1,"model":2}}',
    ],
)
def test_an_unmodelled_key_may_stand_twice(text: str) -> None:
    """Repeats of keys the contract does not know are the engine's business and are forwarded."""
    request = parse_body(text.encode(), CHAT)
    assert request.document.raw == text.encode()


def test_both_names_of_reasoning_are_one_field_twice() -> None:
    """`reasoning` beside `reasoning_content` is a repeated field."""
    with pytest.raises(ParseRefusal, match=r"messages\[1\]"):
        judge(CHAT, messages=[USER, {"role": "assistant", "reasoning": "a", "reasoning_content": None}])
