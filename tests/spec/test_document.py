"""The OpenAPI document is valid, and its schemas take what engines send and refuse what is wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import spec
from spec import SpecError
from spec.document import resolve
from spec.schemas import problems

SGLANG: dict[str, Any] = {
    "id": "0" * 32,
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "reasoning_content": None},
            "logprobs": None,
            "finish_reason": "stop",
            "matched_stop": 7,
        }
    ],
    "usage": {
        "prompt_tokens": 5,
        "total_tokens": 7,
        "completion_tokens": 2,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    },
    "metadata": {"weight_version": "default"},
}
VLLM: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
            "stop_reason": None,
            "token_ids": None,
        }
    ],
    "service_tier": None,
    "system_fingerprint": "vllm-0.33.0-0a1b2c3d",
    "prompt_logprobs": None,
    "kv_transfer_params": None,
    "usage": {"prompt_tokens": 5, "total_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None},
}
CHUNK: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
USAGE = {"prompt_tokens": 5, "total_tokens": 7, "completion_tokens": 2}
CHUNKS: list[dict[str, Any]] = [
    {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None},
    {"index": 0, "delta": {"reasoning_content": None}, "logprobs": None, "finish_reason": "stop", "matched_stop": 7},
    {
        "index": 0,
        "delta": {
            "role": None,
            "content": None,
            "reasoning_content": None,
            "tool_calls": [{"id": None, "index": 0, "type": "function", "function": {"name": None, "arguments": "{"}}],
        },
        "finish_reason": None,
    },
    {
        "index": 0,
        "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        "logprobs": None,
        "finish_reason": None,
    },
]


def test_the_document_is_valid_openapi() -> None:
    """An outside validator of OpenAPI 3.1 finds nothing."""
    assert list(OpenAPIV31SpecValidator(spec.openapi()).iter_errors()) == []


@pytest.mark.parametrize("body", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_answers_of_real_engines_fit(body: dict[str, Any]) -> None:
    """The extra keys and nulls of each engine's dialect are no problem."""
    assert problems("ChatCompletion", body) == []


@pytest.mark.parametrize("choice", CHUNKS)
def test_chunks_of_real_engines_fit(choice: dict[str, Any]) -> None:
    """Role, text, tool and finish chunks of both dialects fit."""
    assert problems("ChatCompletionChunk", CHUNK | {"choices": [choice], "usage": None}) == []


def _without(body: dict[str, Any], *path: Any) -> dict[str, Any]:
    """A copy of a value without the member at a path."""
    changed: Any = copy.deepcopy(body)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return dict(changed)


@pytest.mark.parametrize(
    "path",
    [
        ("id",),
        ("object",),
        ("created",),
        ("model",),
        ("choices",),
        ("choices", 0, "index"),
        ("choices", 0, "message"),
        ("choices", 0, "message", "role"),
        ("choices", 0, "finish_reason"),
        ("usage", "prompt_tokens"),
        ("usage", "total_tokens"),
    ],
)
def test_an_answer_that_lacks_something_does_not_fit(path: tuple[Any, ...]) -> None:
    """Each member that a client relies on is demanded."""
    assert problems("ChatCompletion", _without(SGLANG, *path)) != []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ChatCompletion", SGLANG | {"object": "chat.completion.chunk"}),
        ("ChatCompletion", SGLANG | {"created": "1"}),
        ("ChatCompletion", SGLANG | {"choices": []}),
        ("ChatCompletion", SGLANG | {"usage": {"prompt_tokens": -1, "completion_tokens": 0, "total_tokens": 0}}),
        ("ChatCompletionChunk", CHUNK | {"choices": [{"index": 0, "delta": {"role": "user"}, "finish_reason": None}]}),
        ("UsageChunk", CHUNK),
        ("UsageChunk", CHUNK | {"usage": USAGE, "choices": [CHUNKS[0]]}),
        ("UsageChunk", CHUNK | {"usage": None}),
        ("ErrorEnvelope", {"error": {"type": "Not Found", "code": "model_not_found", "message": "m"}}),
        (
            "ErrorEnvelope",
            {"error": {"type": "Not Found", "code": "model_not_found", "message": "m", "param": "model"}},
        ),
        ("ErrorEnvelope", {"error": {"type": "Not Found", "code": "x", "message": "m", "param": None}, "more": 1}),
        ("ValidationError", {"error": {"message": "m", "type": "invalid_request_error", "code": "400"}}),
        ("ValidationError", {"error": {"message": "m", "type": "invalid_request_error", "code": 400, "param": None}}),
        ("ParseError", {"error": {"message": "m", "type": "invalid_request_error", "code": 400}}),
        (
            "ModelList",
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 5, "owned_by": "self_hosted"}]},
        ),
        ("ModelList", {"object": "list", "data": []}),
    ],
)
def test_wrong_values_do_not_fit(name: str, value: Any) -> None:
    """The schemas of answers and errors can fail."""
    assert problems(name, value) != []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UsageChunk", CHUNK | {"usage": USAGE}),
        ("ErrorEnvelope", {"error": {"type": "Not Found", "code": "model_not_found", "message": "m", "param": None}}),
        ("ValidationError", {"error": {"message": "m", "type": "invalid_request_error", "code": 400}}),
        ("ParseError", {"error": {"message": "m", "type": "invalid_request_error", "code": "json_parse_error"}}),
        (
            "ModelList",
            {"object": "list", "data": [{"id": "m", "object": "model", "created": 0, "owned_by": "self_hosted"}]},
        ),
        ("StreamError", {"error": {"message": "m", "type": "internal_error"}}),
        (
            "Completion",
            {
                "id": "c",
                "object": "text_completion",
                "created": 1,
                "model": "m",
                "choices": [{"text": "x", "index": 0, "finish_reason": "stop"}],
                "usage": USAGE,
            },
        ),
    ],
)
def test_right_values_fit(name: str, value: Any) -> None:
    """The shapes that the contract shows fit."""
    assert problems(name, value) == []


def test_examples_fit_their_schemas() -> None:
    """Every example in the document is valid where it stands, so the cases made from it are too."""
    schemas = spec.openapi()["components"]["schemas"]
    bad = [
        f"{name}: {found[0]}"
        for name, schema in schemas.items()
        for example in schema.get("examples", [])
        if (found := problems(name, example))
    ]
    assert bad == []


def test_a_problem_names_its_place() -> None:
    """A problem says where in the value it sits."""
    broken = _without(SGLANG, "choices", 0, "message", "role")
    assert any(line.startswith("$.choices[0].message: ") for line in problems("ChatCompletion", broken))


def test_an_unknown_schema_is_told() -> None:
    """Asking for a schema that is not there names those that are."""
    with pytest.raises(SpecError, match=r"has no schema 'Chat'.*ChatCompletion"):
        problems("Chat", {})


def test_a_reference_to_nothing_is_told() -> None:
    """A reference that leads nowhere is an error of the document with its name in it."""
    with pytest.raises(SpecError, match="points to nothing"):
        resolve(spec.openapi(), {"$ref": "#/components/schemas/Nothing"})
