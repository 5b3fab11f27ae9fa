"""Reads a request body into a :class:`~fake_workers.engine.outcome.Call`, leniently: a wrong type counts as absent.

Judging is the dialect's business and comes before; a scripted reply skips the judging, so this must never fail.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from fake_workers.engine import tokens
from fake_workers.engine.outcome import Call

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPLETION_DEFAULT_MAX_TOKENS = 16
_PARTS_OF_A_MESSAGE = 3  # role marker, end marker and newline of a usual template, in tokens


def load(body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object, an empty one if it is none."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def whole_number(value: Any) -> int | None:
    """Return an integer as such, None for anything else (a bool is no number)."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_call(
    kind: Literal["chat", "completion"],
    body: dict[str, Any],
    *,
    default_model: str,
    request_id: str | None = None,
    thinks: Callable[[dict[str, Any]], bool] = lambda _: False,
) -> Call:
    """Read a chat or completion request."""
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    model = body.get("model")
    call = Call(
        kind=kind,
        body=body,
        model=model if isinstance(model, str) and model else default_model,
        request_id=request_id,
        n=min(max(whole_number(body.get("n")) or 1, 1), 128),
        min_tokens=whole_number(body.get("min_tokens")) or 0,
        stop=_texts(body.get("stop")),
        ignore_eos=body.get("ignore_eos") is True,
        keep_stop=body.get("include_stop_str_in_output") is True or body.get("no_stop_trim") is True,
        stream=body.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("continuous_usage_stats") is True,
        seed=whole_number(body.get("seed")) or 0,
    )
    if kind == "chat":
        _read_chat(call, body)
        call.thinking = thinks(body)
    else:
        _read_completion(call, body)
    return call


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read_chat(call: Call, body: dict[str, Any]) -> None:
    limit = whole_number(body.get("max_completion_tokens"))
    call.max_tokens = limit if limit is not None else whole_number(body.get("max_tokens"))
    call.prompts = [render_chat(body)]
    messages = body.get("messages")
    template = _PARTS_OF_A_MESSAGE * (len(messages) if isinstance(messages, list) else 0)
    call.prompt_tokens = [tokens.count(call.prompts[0]) + template]
    if body.get("logprobs") is True:
        call.logprobs = max(whole_number(body.get("top_logprobs")) or 0, 0)
    tools = body.get("tools")
    call.tools = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    _read_tool_choice(call, body.get("tool_choice"))
    _read_response_format(call, body)


def _read_tool_choice(call: Call, choice: Any) -> None:
    if not call.tools or choice == "none":
        return
    if choice is None or choice == "auto":
        call.tool_mode = "auto"
    elif choice == "required":
        call.tool_mode = "required"
    elif isinstance(choice, dict) and isinstance(choice.get("function"), dict):
        call.tool_mode, call.tool_name = "named", choice["function"].get("name")


def _read_response_format(call: Call, body: dict[str, Any]) -> None:
    wanted = body.get("response_format")
    if not isinstance(wanted, dict):
        return
    if wanted.get("type") == "json_object":
        call.schema = {"type": "object"}
    elif wanted.get("type") == "json_schema" and isinstance(wanted.get("json_schema"), dict):
        call.schema = wanted["json_schema"].get("schema", {"type": "object"})


def _read_completion(call: Call, body: dict[str, Any]) -> None:
    limit = whole_number(body.get("max_tokens"))
    call.max_tokens = _COMPLETION_DEFAULT_MAX_TOKENS if limit is None else limit
    call.prompts, call.prompt_tokens = read_prompts(body.get("prompt"))
    call.logprobs = whole_number(body.get("logprobs"))
    call.echo = body.get("echo") is True
    _read_response_format(call, body)


def read_prompts(prompt: Any) -> tuple[list[str], list[int]]:
    """Read the four prompt forms (text, texts, ids, lists of ids); return texts and token counts."""
    if isinstance(prompt, str):
        return [prompt], [tokens.count(prompt)]
    if not isinstance(prompt, list) or not prompt:
        return [""], [0]
    if isinstance(prompt[0], int):
        ids = [item for item in prompt if isinstance(item, int)]
        return [tokens.decode(ids)], [len(ids)]
    texts, counts = [], []
    for item in prompt:
        if isinstance(item, str):
            texts.append(item)
            counts.append(tokens.count(item))
        elif isinstance(item, list):
            ids = [part for part in item if isinstance(part, int)]
            texts.append(tokens.decode(ids))
            counts.append(len(ids))
    return texts, counts


def render_chat(body: dict[str, Any]) -> str:
    """Return the messages (and tools) of a chat as prompt text."""
    messages = body.get("messages")
    lines = []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            lines.append(f"{message.get('role')}: {_content_text(message.get('content'))}")
            if message.get("tool_calls"):
                lines.append(json.dumps(message["tool_calls"]))
    if body.get("tools"):
        lines.append(json.dumps(body["tools"]))
    return "\n".join(lines)


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            texts.append(text if isinstance(text, str) else f"<{part.get('type')}>")
    return "\n".join(texts)
