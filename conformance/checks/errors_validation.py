"""Fields out of range and fields at odds with each other: refused with 400 and the number 400 as the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import (
    ERROR_CODE,
    check_plain_json,
    error_of,
    expect_code_400,
    expect_equal,
    expect_members,
    expect_status,
    expect_success,
)
from conformance.harness.gateway import CHAT, COMPLETIONS
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

TOOLS = [{"type": "function", "function": {"name": "known", "parameters": {"type": "object", "properties": {}}}}]
MISSING_TOOL = {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "missing"}}}
PRESENT_TOOL = {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "known"}}}
NO_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": "text"}}}
WITH_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}}

Pairs = list[tuple[dict[str, Any], dict[str, Any]]]
"""Fields that are allowed, and their twins that are not."""

RANGE: Pairs = [
    ({"temperature": 2}, {"temperature": 2.5}),
    ({"top_p": 1}, {"top_p": 0}),
    ({"n": 2}, {"n": 0}),
    ({"presence_penalty": -2}, {"presence_penalty": -3}),
]
CROSS: Pairs = [
    ({"stream": True, "stream_options": {"include_usage": True}}, {"stream_options": {"include_usage": True}}),
    ({"logprobs": True, "top_logprobs": 2}, {"top_logprobs": 2}),
    (PRESENT_TOOL, MISSING_TOOL),
    (WITH_SCHEMA, NO_SCHEMA),
]


def _cases(clause_id: str, pairs: Pairs) -> list[Any]:
    """The pairs as cases of one clause."""
    return [case(clause_id, valid, invalid, name="-".join(invalid)) for valid, invalid in pairs]


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [*_cases("errors.validation.range.refused", RANGE), *_cases("errors.validation.cross_field.refused", CROSS)],
)
async def test_body_is_refused(
    gateway: Gateway, worker: Worker, valid: dict[str, Any], invalid: dict[str, Any]
) -> None:
    """The allowed twin is served; the other is refused with 400, and no worker hears of it."""
    await gateway.refuses(worker, CHAT, valid, invalid)


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [*_cases("errors.validation.range.code", RANGE), *_cases("errors.validation.cross_field.code", CROSS)],
)
async def test_code_is_the_number(
    gateway: Gateway, worker: Worker, valid: dict[str, Any], invalid: dict[str, Any]
) -> None:
    """The code is 400, a number and not a text."""
    expect_success(await gateway.chat(worker.script(), **valid))
    answer = expect_status(await gateway.chat(worker.script(), **invalid), 400)
    expect_code_400(answer)


@pytest.mark.parametrize("invalid", [{"temperature": 2.5}, {"n": 129}, {"logprobs": 2, "top_p": 0}], ids="-".join)
@clause("errors.validation.completions.code")
async def test_completions_code_is_the_number(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """Completions have the same code for a field out of range."""
    refused = await gateway.refuses(worker, COMPLETIONS, {}, invalid)
    expect_code_400(refused.exchange)


ONE_OF_EACH = [RANGE[0][1], CROSS[0][1], CROSS[1][1], CROSS[2][1], CROSS[3][1]]
one_of_each = pytest.mark.parametrize("invalid", ONE_OF_EACH, ids="-".join)


@one_of_each
@clause("errors.validation.error_type")
async def test_type(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """The type is invalid_request_error."""
    answer = expect_status(await gateway.chat(worker.script(), **invalid), 400)
    expect_equal("another type", error_of(answer).get("type"), "invalid_request_error")


@one_of_each
@clause("errors.validation.keys")
async def test_members(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """The error object has message, type and code, and nothing else."""
    answer = expect_status(await gateway.chat(worker.script(), **invalid), 400)
    expect_members(answer, "message", "type", "code")


@one_of_each
@clause("errors.validation.message_is_text")
async def test_message(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """The message is a string that says something."""
    message = error_of(expect_status(await gateway.chat(worker.script(), **invalid), 400)).get("message")
    assert isinstance(message, str)
    assert message.strip()


@one_of_each
@clause("errors.validation.no_code_header")
async def test_no_header(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """There is no X-SMG-Error-Code, for this is not the envelope."""
    assert ERROR_CODE not in expect_status(await gateway.chat(worker.script(), **invalid), 400).headers


@one_of_each
@clause("errors.validation.json_content_type")
async def test_content_type(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """A client can tell from the content type that the refusal is JSON."""
    check_plain_json(expect_status(await gateway.chat(worker.script(), **invalid), 400))


@pytest.mark.parametrize(
    ("valid", "invalid"),
    [
        *_cases("codes.validation.field_range", RANGE[:1]),
        *_cases("codes.validation.stream_options_without_stream", CROSS[:1]),
        *_cases("codes.validation.top_logprobs_without_logprobs", CROSS[1:2]),
        *_cases("codes.validation.tool_choice_missing_tool", CROSS[2:3]),
        *_cases("codes.validation.json_schema_not_object", CROSS[3:]),
    ],
)
async def test_table_of_validation_failures(
    gateway: Gateway, worker: Worker, valid: dict[str, Any], invalid: dict[str, Any]
) -> None:
    """Each example of the table answers 400 with code 400, where its allowed twin is served."""
    refused = await gateway.refuses(worker, CHAT, valid, invalid)
    expect_code_400(refused.exchange)
