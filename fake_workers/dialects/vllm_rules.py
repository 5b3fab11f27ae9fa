"""What vLLM refuses. Source: vLLM 0.33 request classes and serving code; messages are in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_workers.dialects import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.spec import WorkerSpec

MAX_N = 16384
MAX_STOPS = 4
MAX_LOGPROBS = 20
MAX_PROMPTS = 1024
EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})

_BOUNDS = {  # lowest, highest, lowest excluded
    "temperature": (0.0, 2.0, False),
    "top_p": (0.0, 1.0, True),
    "min_p": (0.0, 1.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
    "presence_penalty": (-2.0, 2.0, False),
    "repetition_penalty": (0.0, 1e308, True),
    "n": (1, MAX_N, False),
    "seed": (-rules.INT64, rules.INT64 - 1, False),
}

Problem = tuple[str, str]  # (param, message)


def semantic_problems(kind: str, body: dict[str, Any], spec: WorkerSpec) -> Iterator[Problem]:
    """Yield what vLLM's own validation finds, in its order."""
    yield from _ranges(body)
    yield from _limits(kind, body)
    if kind == "chat":
        yield from _tools(body, spec)
        yield from _chat_logprobs(body)
        effort = body.get("reasoning_effort")
        if effort is not None and effort not in EFFORTS:
            yield "reasoning_effort", f"reasoning_effort must be one of {sorted(EFFORTS)}, got {effort!r}"
        if not body.get("messages"):
            yield "messages", "messages must not be empty"
    else:
        yield from _completion(body)


def _ranges(body: dict[str, Any]) -> Iterator[Problem]:
    for name, value in body.items():
        if name not in _BOUNDS:
            continue
        low, high, low_open = _BOUNDS[name]
        if rules.outside(value, low, high, low_open=low_open):
            left = "(" if low_open else "["
            yield name, f"{name} must be in {left}{low:g}, {high:g}], got {value}"
    top_k = rules.as_number(body.get("top_k"))
    if top_k is not None and top_k < -1:
        yield "top_k", f"top_k must be 0 or -1 (off), or at least 1, got {body['top_k']}"


def _limits(kind: str, body: dict[str, Any]) -> Iterator[Problem]:
    found = rules.stops(body.get("stop"))
    if len(found) > MAX_STOPS:
        yield "stop", f"stop takes at most {MAX_STOPS} strings, got {len(found)}"
    if "" in found:
        yield "stop", "stop must not hold an empty string"
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "stream_options", "stream_options can only be set when stream is true"
    fields = ("max_completion_tokens", "max_tokens") if kind == "chat" else ("max_tokens",)
    limits = [(name, value) for name in fields if (value := rules.as_number(body.get(name))) is not None]
    for name, value in limits:
        if value < 1 and not (kind == "completion" and value == 0 and body.get("echo")):
            yield name, f"{name} must be at least 1, got {body[name]}"
    least = rules.as_number(body.get("min_tokens"))
    if least is not None and limits and least > limits[0][1]:
        yield "min_tokens", f"min_tokens must not exceed {limits[0][0]}, got {least:g} > {limits[0][1]:g}"
    samples = rules.as_number(body.get("n")) or 1
    if samples > 1 and rules.as_number(body.get("temperature")) == 0:
        yield "n", f"n must be 1 when temperature is 0 (greedy sampling), got {samples:g}"
    if rules.as_number(body.get("priority")):
        yield "priority", "priority other than 0 needs priority scheduling, which is off"
    bias = body.get("logit_bias")
    if isinstance(bias, dict) and not all(rules.is_integral(key) for key in bias):
        yield "logit_bias", "logit_bias keys must be token ids"


def _tools(body: dict[str, Any], spec: WorkerSpec) -> Iterator[Problem]:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if isinstance(tools, list) and not tools:
        yield "tools", "tools must not be an empty array; leave it out instead"
    if choice is not None and choice != "none" and not tools:
        yield "tool_choice", "tool_choice can only be set when tools are given"
    if isinstance(choice, str) and choice not in {"none", "auto", "required"}:
        yield "tool_choice", f"tool_choice must be none, auto, required or a named function, got {choice!r}"
    if isinstance(choice, dict) and isinstance(tools, list):
        named = (choice.get("function") or {}).get("name") if isinstance(choice.get("function"), dict) else None
        names = [(tool.get("function") or {}).get("name") for tool in tools if isinstance(tool, dict)]
        if named not in names:
            yield "tool_choice", f"tool_choice names the function {named!r}, which is not among the tools"
    if choice == "auto" and tools and not spec.tool_parser:
        yield "tool_choice", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def _chat_logprobs(body: dict[str, Any]) -> Iterator[Problem]:
    count = rules.as_number(body.get("top_logprobs"))
    if count is None:
        return
    if count < 0 and count != -1:
        yield "top_logprobs", f"top_logprobs must not be negative, got {count:g}"
    if count > MAX_LOGPROBS:
        yield "top_logprobs", f"top_logprobs must be at most {MAX_LOGPROBS}, got {count:g}"
    if count and not body.get("logprobs"):
        yield "top_logprobs", "logprobs must be true when top_logprobs is set"


def _completion(body: dict[str, Any]) -> Iterator[Problem]:
    prompt = body.get("prompt")
    if prompt in (None, "", []):
        yield "prompt", "prompt is required and must not be empty"
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > MAX_PROMPTS:
        yield "prompt", f"at most {MAX_PROMPTS} prompts are taken at once, got {len(prompt)}"
    count = rules.as_number(body.get("logprobs"))
    if count is not None and not (-1 <= count <= MAX_LOGPROBS):
        yield "logprobs", f"logprobs must be from 0 to {MAX_LOGPROBS}, got {count:g}"
    if body.get("stream") and body.get("use_beam_search"):
        yield "use_beam_search", "beam search does not stream"


def schema_problems(kind: str, body: dict[str, Any]) -> list[Problem]:
    """Return what the request class refuses: wrong types, missing messages, messages that are no objects."""
    problems = rules.type_problems(body, rules.types_of(kind))
    if kind == "chat":
        messages = body.get("messages")
        if messages is None:
            problems.append(("messages", "Field required"))
        elif isinstance(messages, list):
            for number, message in enumerate(messages):
                if not isinstance(message, dict):
                    problems.append((f"messages.{number}", "Input should be a valid dictionary"))
                elif not isinstance(message.get("role"), str):
                    problems.append((f"messages.{number}.role", "Field required"))
    return problems
