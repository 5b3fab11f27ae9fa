"""Checks both engines' rules are made of. Each returns a problem as text, or None.

Numbers given as text are read as numbers, as pydantic's lax mode does in both engines.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

INT64 = 2**63


def as_number(value: Any) -> float | None:
    """Return a finite or infinite number for a number or numeric text, None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def is_integral(value: Any) -> bool:
    """Say whether lax mode reads a value as an integer."""
    number = as_number(value)
    return number is not None and math.isfinite(number) and number == int(number)


_BOOLEAN_FORMS = (0, 1, "true", "false", "on", "off", "yes", "no", "1", "0")
_READERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "number": (lambda value: as_number(value) is not None, "Input should be a valid number"),
    "integer": (is_integral, "Input should be a valid integer"),
    "boolean": (
        lambda value: isinstance(value, bool) or value in _BOOLEAN_FORMS,
        "Input should be a valid boolean",
    ),
    "string": (lambda value: isinstance(value, str), "Input should be a valid string"),
    "object": (lambda value: isinstance(value, dict), "Input should be a valid dictionary"),
    "list": (lambda value: isinstance(value, list), "Input should be a valid list"),
}

_CHAT_TYPES = {
    "messages": "list",
    "model": "string",
    "frequency_penalty": "number",
    "presence_penalty": "number",
    "repetition_penalty": "number",
    "temperature": "number",
    "top_p": "number",
    "min_p": "number",
    "top_k": "integer",
    "n": "integer",
    "seed": "integer",
    "max_tokens": "integer",
    "max_completion_tokens": "integer",
    "min_tokens": "integer",
    "top_logprobs": "integer",
    "stream": "boolean",
    "logprobs": "boolean",
    "parallel_tool_calls": "boolean",
    "ignore_eos": "boolean",
    "skip_special_tokens": "boolean",
    "continue_final_message": "boolean",
    "logit_bias": "object",
    "response_format": "object",
    "stream_options": "object",
    "chat_template_kwargs": "object",
    "tools": "list",
    "user": "string",
}
_NOT_OF_COMPLETIONS = {
    "messages", "logprobs", "top_logprobs", "tools", "parallel_tool_calls", "chat_template_kwargs",
    "max_completion_tokens",
}  # fmt: skip
_COMPLETION_TYPES = {
    **{name: kind for name, kind in _CHAT_TYPES.items() if name not in _NOT_OF_COMPLETIONS},
    "logprobs": "integer",
    "echo": "boolean",
}


def types_of(kind: str) -> dict[str, str]:
    """Return the types of the fields of a chat or completion request."""
    return _CHAT_TYPES if kind == "chat" else _COMPLETION_TYPES


def type_problems(body: dict[str, Any], types: dict[str, str]) -> list[tuple[str, str]]:
    """Return (field, message) for each field of the wrong type; null counts as absent."""
    problems = []
    for name, value in body.items():
        kind = types.get(name)
        if value is None or kind is None:
            continue
        reads, message = _READERS[kind]
        if not reads(value):
            problems.append((name, message))
    return problems


def outside(value: Any, low: float, high: float, *, low_open: bool = False) -> bool:
    """Say whether a given number is out of range; what is no number is not this check's business."""
    number = as_number(value)
    if number is None:
        return False
    if math.isnan(number):
        return True
    return number > high or (number <= low if low_open else number < low)


def stops(value: Any) -> list[str]:
    """Return the stop strings of a request."""
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def parse_object(data: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the JSON object of a body, or None and what is wrong with it."""
    try:
        value = json.loads(data)
    except ValueError as error:
        return None, f"JSON decode error: {error}"
    if not isinstance(value, dict):
        return None, "Input should be a valid dictionary or object to extract fields from"
    return value, ""


def is_json_type(content_type: str | None) -> bool:
    """Say whether a content type is application/json, parameters allowed."""
    return content_type is not None and content_type.partition(";")[0].strip().lower() == "application/json"


def first(problems: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the first problem."""
    return next(iter(problems), None)
