"""What SGLang refuses. Source: SGLang 0.5.23 request classes, sampling parameters and serving code; our wording."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_STOPS = 32
EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"})
MAX_EFFORT = 0.99
ROLES = frozenset({"system", "developer", "assistant", "tool", "function", "user", "latest_reminder", "root"})
ENGINE, CONVERSION, SCHEMA = "BadRequestError", "BadRequest", "Bad Request"

_BOUNDS = {  # lowest, highest, lowest excluded
    "top_p": (0.0, 1.0, True),
    "min_p": (0.0, 1.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
    "presence_penalty": (-2.0, 2.0, False),
    "repetition_penalty": (0.0, 2.0, True),
}

Problem = tuple[str, str]  # (error type, message)

# Known keys of sampling_params on /generate; the contract gate refuses any other.
SAMPLING_KEYS = frozenset(
    {
        "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k", "min_p",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n", "json_schema", "regex",
        "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens",
        "no_stop_trim", "stream_interval", "logit_bias", "sampling_seed", "custom_params", "beam_width", "watermark",
        "choice",
    }
)  # fmt: skip


def problems(kind: str, body: dict[str, Any]) -> Iterator[Problem]:
    """Yield what SGLang refuses, schema first."""
    for field, message in rules.type_problems(body, rules.types_of(kind)):
        yield SCHEMA, f"1 validation error:\n  {{'type': 'type_error', 'loc': ('body', '{field}'), 'msg': '{message}'}}"
    if kind == "chat":
        yield from _messages(body)
        yield from _chat(body)
    else:
        yield from _completion(body)
    yield from sampling_problems(body)


def _messages(body: dict[str, Any]) -> Iterator[Problem]:
    messages = body.get("messages")
    if messages is None:
        yield SCHEMA, "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}"
        return
    if not messages:
        yield CONVERSION, "Messages cannot be empty."
    for number, message in enumerate(messages if isinstance(messages, list) else []):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role.lower() not in ROLES:
            yield (
                SCHEMA,
                f"1 validation error:\n  {{'loc': ('body', 'messages', {number}), 'msg': 'unknown role {role!r}'}}",
            )


def _chat(body: dict[str, Any]) -> Iterator[Problem]:
    choice, tools = body.get("tool_choice"), body.get("tools")
    if (choice == "required" or isinstance(choice, dict)) and not tools:
        yield CONVERSION, "Tools cannot be empty if tool choice is set to required."
    if isinstance(choice, dict) and isinstance(tools, list):
        function = choice.get("function")
        named = function.get("name") if isinstance(function, dict) else None
        known = [tool.get("function", {}).get("name") for tool in tools if isinstance(tool, dict)]
        if tools and named not in known:
            yield CONVERSION, f"Tool '{named}' not found in tools list."
    limits = [rules.as_number(body.get(name)) for name in ("max_completion_tokens", "max_tokens")]
    if any(limit is not None and limit < 0 for limit in limits):
        yield CONVERSION, "max_completion_tokens must be positive."
    effort = body.get("reasoning_effort")
    if effort is not None and not _is_effort(effort):
        yield SCHEMA, f"1 validation error:\n  {{'loc': ('body', 'reasoning_effort'), 'msg': 'got {effort!r}'}}"
    if body.get("stream"):
        for name in ("return_token_ids", "return_meta_info", "return_prompt_token_ids"):
            if body.get(name):
                yield CONVERSION, f"{name} is not supported with stream."


def _is_effort(effort: Any) -> bool:
    if effort in EFFORTS:
        return True
    number = rules.as_number(effort)
    return number is not None and not isinstance(effort, bool) and 0 <= number <= MAX_EFFORT


def _completion(body: dict[str, Any]) -> Iterator[Problem]:
    if body.get("prompt") is None:
        yield SCHEMA, "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}"
    elif not body["prompt"]:
        yield CONVERSION, "Prompt cannot be empty"
    limit = rules.as_number(body.get("max_tokens"))
    if limit is not None and limit <= 0:
        yield CONVERSION, "max_tokens must be positive."


def sampling_problems(params: dict[str, Any]) -> Iterator[Problem]:
    """Yield what the engine's sampling parameters refuse; the same fields on all routes."""
    temperature = rules.as_number(params.get("temperature"))
    if temperature is not None and not (math.isfinite(temperature) and temperature >= 0):
        yield ENGINE, f"temperature must be a non-negative finite number, got {params['temperature']}."
    for name, value in params.items():
        if name not in _BOUNDS:
            continue
        low, high, low_open = _BOUNDS[name]
        if rules.outside(value, low, high, low_open=low_open):
            yield ENGINE, f"{name} must be in {'(' if low_open else '['}{low:g}, {high:g}], got {value}."
    top_k = rules.as_number(params.get("top_k"))
    if top_k is not None and top_k < 1 and top_k != -1:
        yield ENGINE, f"top_k must be -1 (disable) or at least 1, got {params['top_k']}."
    if len(rules.stops(params.get("stop"))) > MAX_STOPS:
        yield ENGINE, f"stop takes at most {MAX_STOPS} strings."
    yield from _counts(params)


def _counts(params: dict[str, Any]) -> Iterator[Problem]:
    least = rules.as_number(params.get("min_tokens", params.get("min_new_tokens")))
    most = next(
        (
            number
            for name in ("max_completion_tokens", "max_tokens", "max_new_tokens")
            if (number := rules.as_number(params.get(name)))
        ),
        None,
    )
    if least is not None and least < 0:
        yield ENGINE, f"min_new_tokens must be at least 0, got {least:g}."
    if least is not None and most is not None and least > most:
        yield ENGINE, f"min_new_tokens must be in [0, max_new_tokens({most:g})], got {least:g}."
    seed = rules.as_number(params.get("seed"))
    if seed is not None and not -rules.INT64 <= seed < rules.INT64:
        yield ENGINE, "seed must fit 64 bits."
    bias = params.get("logit_bias")
    if isinstance(bias, dict) and not all(rules.is_integral(key) for key in bias):
        yield ENGINE, "logit_bias keys must be token ids."
