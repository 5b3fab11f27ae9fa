"""Pieces of bodies that a schema alone would not suggest: conversations, and fields that belong together."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

TEXT = {"type": "text", "text": "Hello."}
PARTS: tuple[Any, ...] = (
    TEXT,
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png", "max_long_side_pixel": 5}},
    {"type": "image_url", "image_url": "http://127.0.0.1/x.png"},
    {"type": "video_url", "video_url": {"url": "http://127.0.0.1/x.mp4", "fps": 1.5}},
    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    {"type": "input_audio", "input_audio": {"data": 5}},
    {"type": "audio_url", "audio_url": {"url": "http://127.0.0.1/x.wav"}},
    {"type": "file", "file": {"file_id": "f"}},
    {"type": "text"},
    {"type": 5},
    {},
    "text",
    None,
)
CALL = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"q":"x"}'}}
MESSAGES: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "system"},
    {"role": "system", "content": None},
    {"role": "developer", "content": "Be brief.", "name": "dev"},
    {"role": "developer"},
    {"role": "user", "content": "{prompt}"},
    {"role": "user", "content": "{prompt}", "name": "alice"},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "assistant", "content": "Hi."},
    {"role": "assistant"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": "Hi.", "reasoning_content": "So."},
    {"role": "assistant", "content": "Hi.", "reasoning": "So."},
    {"role": "assistant", "content": "Hi.", "reasoning": "So.", "reasoning_content": "So."},
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "42"},
    {"role": "tool", "content": "42"},
    {"role": "tool", "tool_call_id": "call_1", "content": [TEXT]},
    {"role": "function", "name": "lookup", "content": "42"},
    {"role": "function", "content": "42"},
    {"role": "root", "content": "All."},
    {"role": "user", "content": "{prompt}", "tools": []},
    {"role": "User", "content": "{prompt}"},
    {"content": "{prompt}"},
)
FUNCTION = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
}
OTHER = {"type": "function", "function": {"name": "g"}}


def _allowed(reference: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": "auto", "tools": [reference]}


FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
TOGETHER: dict[str, tuple[dict[str, Any], ...]] = {
    "chat": (
        {"tools": [FUNCTION, OTHER], "tool_choice": "required"},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "function": {"name": "zz"}}},
        {"tools": [FUNCTION], "tool_choice": _allowed({"type": "function", "name": "f"})},
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "mode": "any", "tools": []}},
        {"tools": [FUNCTION], "tool_choice": _allowed({"type": "function", "name": "z"})},
        {"tools": [FUNCTION], "tool_choice": _allowed({"type": "mcp", "server_label": "l"})},
        {"tools": [], "tool_choice": "required"},
        {"tool_choice": "required"},
        {"tools": [], "tool_choice": "none"},
        {"tools": [FUNCTION, FUNCTION]},
        {"tools": [{"type": "web_search"}]},
        {"tools": [FUNCTION], "parallel_tool_calls": False},
        {"functions": [{"name": "f", "parameters": {}}], "function_call": {"name": "f"}},
        {"functions": [{"name": "f"}], "function_call": "auto"},
        {"function_call": {"name": "f"}},
        {"response_format": FORMAT, "regex": "a"},
        {"response_format": {"type": "json_object"}, "ebnf": "root ::= x"},
        {"response_format": {"type": "text"}, "regex": "a"},
        {"regex": "a", "ebnf": "root ::= x"},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "", "schema": {}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": True}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        {"top_logprobs": 3},
        {"top_logprobs": 3, "logprobs": False},
        {"top_logprobs": 0, "logprobs": True},
        {"stream_options": {"include_usage": True}},
        {"stream_options": {"include_usage": True, "other": 1}, "stream": True},
        {"stream_options": {}, "stream": False},
        {"min_tokens": 5, "max_tokens": 4},
        {"min_tokens": 5, "max_completion_tokens": 5},
        {"min_tokens": 5, "max_completion_tokens": 9, "max_tokens": 4},
        {"max_tokens": 7, "max_completion_tokens": None},
        {"max_tokens": 7, "max_completion_tokens": 8},
        {"thinking": {"type": "enabled", "effort": "high", "keep": "all", "clear_thinking": True}},
        {"reasoning_effort": 7},
        {"reasoning_effort": 0.5},
        {"chat_template_kwargs": {"enable_thinking": False, "x": [1, None]}},
        {"logit_bias": {"1": 5, "2": -100.5}},
        {"logit_bias": {"abc": 5}},
        {"logit_bias": {"1": "5"}},
    ),
    "completions": (
        {"best_of": 3, "n": 2},
        {"best_of": 2, "n": 2},
        {"best_of": 3, "stream": True},
        {"best_of": 1},
        {"prompt": ["{prompt}", "more"]},
        {"prompt": [1, 2]},
        {"prompt": ""},
        {"prompt": ["", "{prompt}"]},
        {"stream_options": {"include_usage": True}},
        {"stream_options": {"include_usage": True}, "stream": True},
        {"min_tokens": 5, "max_tokens": 4},
        {"min_tokens": 5, "max_completion_tokens": 4},
        {"regex": "a", "json_schema": "{}"},
        {"ebnf": "root ::= x", "regex": "a"},
        {"logprobs": 5, "echo": True, "suffix": " end"},
        {"logprobs": 6},
        {"max_tokens": 0},
        {"response_format": FORMAT},
    ),
    "embeddings": (
        {"input": [1, 2]},
        {"input": [[1], [2]]},
        {"input": None},
        {"encoding_format": "base64"},
        {"dimensions": 4},
    ),
}  # fmt: skip


def conversation(dice: random.Random) -> list[Any]:
    """One to four messages, some with a list of parts for content."""
    messages = copy.deepcopy(dice.choices(MESSAGES, k=dice.choice((1, 2, 2, 3, 4))))
    for message in messages:
        if message.get("content") and dice.random() < 0.25:
            message["content"] = copy.deepcopy(dice.choices(PARTS, k=dice.choice((1, 1, 2))))
    return messages


def together(kind: str, dice: random.Random) -> dict[str, Any]:
    """Fields that belong together, by route."""
    return copy.deepcopy(dice.choice(TOGETHER[kind]))
