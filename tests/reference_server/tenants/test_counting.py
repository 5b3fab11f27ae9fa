"""The estimate of a prompt's tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference_server.endpoints import CHAT, COMPLETIONS
from reference_server.stages.parse import parse_body
from reference_server.tenants.counting import EstimatedTokens


def chat(*messages: Any, **fields: object) -> int:
    """The estimate for a chat."""
    body = json.dumps({"model": "m", "messages": list(messages), **fields}).encode()
    return EstimatedTokens().input_tokens(parse_body(body, CHAT))


def completion(prompt: object) -> int:
    """The estimate for a completion."""
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    return EstimatedTokens().input_tokens(parse_body(body, COMPLETIONS))


def test_four_bytes_are_a_token() -> None:
    """Bytes of all texts are added up, rounded up once, and a request is never free."""
    assert completion("x" * 8) == 2
    assert completion("x" * 9) == 3
    assert completion("é" * 4) == 2
    assert completion(["xx", "xx"]) == 1
    assert completion("") == 1


def test_what_is_rendered_into_a_prompt_counts() -> None:
    """Contents in both forms, reasoning, calls of tools and definitions of tools."""
    user = {"role": "user", "content": "x" * 8}
    parts = {"role": "user", "content": [{"type": "text", "text": "x" * 8}]}
    assert chat(user) == chat(parts) == 2
    call = {"id": "c", "type": "function", "function": {"name": "name", "arguments": "x" * 4}}
    assistant = {"role": "assistant", "content": None, "reasoning_content": "y" * 4, "tool_calls": [call]}
    assert chat(user, assistant) == 2 + 3
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    written = json.dumps(tool, separators=(",", ":"))
    assert chat(user, tools=[tool]) == -(-(8 + len(written)) // 4)


@pytest.mark.parametrize("field", ["max_tokens", "n"])
def test_what_is_only_wished_for_does_not_count(field: str) -> None:
    """Neither the number of answers nor their length adds to the estimate."""
    assert chat({"role": "user", "content": "x" * 8}, **{field: 3}) == 2


def test_pictures_count_nothing() -> None:
    """A part without text costs nothing, for only the engine knows its price."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}
    assert chat({"role": "user", "content": [picture, {"type": "text", "text": "x" * 4}]}) == 1
