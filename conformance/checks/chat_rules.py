"""Rules between the fields of a chat request, each from both sides: just outside refused, just inside served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_kit import Fields, case, deliver, refused
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

USAGE: Fields = {"stream_options": {"include_usage": True}}
STREAMED: Fields = {**USAGE, "stream": True}
TOP: Fields = {"top_logprobs": 2}
REGEX: Fields = {"regex": "[ab]+"}
EBNF: Fields = {"ebnf": 'root ::= "a" | "b"'}
SCHEMA: Fields = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
}
OBJECT: Fields = {"response_format": {"type": "json_object"}}
TEXT: Fields = {"response_format": {"type": "text"}}

REFUSED = [
    case("chat.stream_options.requires_stream", STREAMED, USAGE),
    case("chat.stream_options.refused_with_stream_false", STREAMED, {**USAGE, "stream": False}),
    case("chat.stream_options.refused_with_stream_null", STREAMED, {**USAGE, "stream": None}),
    case("chat.stream_options.empty_needs_stream", {"stream_options": {}, "stream": True}, {"stream_options": {}}),
    case(
        "chat.stream_options.empty_needs_stream",
        {"stream_options": {"x": 1}, "stream": True},
        {"stream_options": {"x": 1}},
        name="unknown key only",
    ),
    case("chat.top_logprobs.requires_logprobs", {**TOP, "logprobs": True}, TOP),
    case(
        "chat.top_logprobs.requires_logprobs",
        {**TOP, "logprobs": True, "stream": True},
        {**TOP, "stream": True},
        name="stream",
    ),
    case("chat.top_logprobs.refused_with_logprobs_false", {**TOP, "logprobs": True}, {**TOP, "logprobs": False}),
    case("chat.top_logprobs.refused_with_logprobs_null", {**TOP, "logprobs": True}, {**TOP, "logprobs": None}),
    case("chat.top_logprobs.zero_needs_logprobs", {"top_logprobs": 0, "logprobs": True}, {"top_logprobs": 0}),
    case("chat.stop.empty_string_refused", {"stop": "a"}, {"stop": ""}),
    case("chat.stop.empty_among_others_refused", {"stop": ["a", "b"]}, {"stop": ["a", ""]}, name="last"),
    case("chat.stop.empty_among_others_refused", {"stop": ["a", "b", "c"]}, {"stop": ["a", "", "c"]}, name="middle"),
    case("chat.stop.empty_among_others_refused", {"stop": ["a"]}, {"stop": [""]}, name="alone"),
    case("chat.logit_bias.key_is_token_id", {"logit_bias": {"7": 1}}, {"logit_bias": {"abc": 1}}, name="word"),
    case("chat.logit_bias.key_is_token_id", {"logit_bias": {"7": 1}}, {"logit_bias": {"1.5": 1}}, name="fraction"),
    case("chat.logit_bias.key_is_token_id", {"logit_bias": {"7": 1}}, {"logit_bias": {"": 1}}, name="empty"),
    case("chat.top_k.zero_refused", {"top_k": 1}, {"top_k": 0}),
    case("chat.top_k.below_minus_one_refused", {"top_k": -1}, {"top_k": -2}),
    case("chat.top_k.below_minus_one_refused", {"top_k": -1}, {"top_k": -2147483648}, name="far"),
    case("chat.constraints.regex_with_ebnf_refused", REGEX, {**REGEX, **EBNF}),
    case("chat.constraints.regex_with_json_schema_refused", SCHEMA, {**REGEX, **SCHEMA}),
    case("chat.constraints.ebnf_with_json_schema_refused", SCHEMA, {**EBNF, **SCHEMA}),
    case("chat.constraints.all_three_refused", SCHEMA, {**REGEX, **EBNF, **SCHEMA}),
    case("chat.constraints.regex_with_json_object_refused", OBJECT, {**REGEX, **OBJECT}),
    case("chat.constraints.ebnf_with_json_object_refused", OBJECT, {**EBNF, **OBJECT}),
]


@pytest.mark.parametrize(("valid", "invalid"), REFUSED)
async def test_rule_is_broken(gateway: Gateway, worker: Worker, valid: Fields, invalid: Fields) -> None:
    """A request that breaks the rule is refused with 400 before any worker; its twin that keeps it is served."""
    await refused(gateway, worker, valid, invalid)


ACCEPTED = [
    case("chat.stream_options.accepted_with_stream", STREAMED),
    case("chat.stream_options.accepted_with_stream", {"stream_options": {}, "stream": True}, name="empty"),
    case("chat.stop.white_space_is_not_empty", {"stop": [" ", "\n", "\t"]}, name="array"),
    case("chat.stop.white_space_is_not_empty", {"stop": " "}, name="string"),
    case("chat.stop.empty_list_accepted", {"stop": []}),
    case("chat.logprobs.alone_accepted", {"logprobs": True}),
    case("chat.top_logprobs.accepted_with_logprobs", {**TOP, "logprobs": True}),
    case("chat.top_logprobs.accepted_with_logprobs", {"top_logprobs": 0, "logprobs": True}, name="zero"),
    case("chat.logit_bias.empty_accepted", {"logit_bias": {}}),
    case("chat.top_k.minus_one_disables", {"top_k": -1}),
    case("chat.top_k.one_accepted", {"top_k": 1}),
    case("chat.constraints.regex_with_text_accepted", {**REGEX, **TEXT}),
    case("chat.constraints.ebnf_with_text_accepted", {**EBNF, **TEXT}),
    case("chat.constraints.regex_alone_accepted", REGEX),
    case("chat.constraints.ebnf_alone_accepted", EBNF),
    case("chat.constraints.json_schema_alone_accepted", SCHEMA),
]


@pytest.mark.parametrize("fields", ACCEPTED)
async def test_rule_is_kept(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """A request just inside the rule is served, and the fields of the rule arrive."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.all_unchanged(fields, digits=False)


UNSET = [
    case("chat.stream_options.null_needs_no_stream", {"stream_options": None}),
    case("chat.top_logprobs.null_needs_no_logprobs", {"top_logprobs": None}),
    case("chat.constraints.null_is_no_constraint", {**REGEX, "ebnf": None}, name="regex"),
    case("chat.constraints.null_is_no_constraint", {**EBNF, "regex": None}, name="ebnf"),
    case("chat.constraints.null_is_no_constraint", {**SCHEMA, "regex": None, "ebnf": None}, name="json_schema"),
    case("chat.constraints.null_is_no_constraint", {**OBJECT, "regex": None, "ebnf": None}, name="json_object"),
]


@pytest.mark.parametrize("fields", UNSET)
async def test_null_breaks_no_rule(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """A field that is null cannot break a rule, and the fields beside it arrive."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.all_unchanged(name for name, value in fields.items() if value is not None)


@clause("chat.stream_options.requires_stream")
@pytest.mark.parametrize("options", [{"include_usage": False}, {"include_usage": True, "continuous_usage_stats": True}])
async def test_no_value_of_the_options_lifts_the_rule(gateway: Gateway, worker: Worker, options: Fields) -> None:
    """Options that ask for nothing need a stream as much as those that do."""
    fields: Fields = {"stream_options": options}
    await refused(gateway, worker, {**fields, "stream": True}, fields)
