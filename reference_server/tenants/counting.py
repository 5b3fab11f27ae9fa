"""What a request will cost, before anybody has counted it.

The contract and the real gateway reserve the exact number of input tokens, which takes the model's own tokeniser; the
real one enforces tenant limits only where it has one, behind gRPC workers. Behind HTTP workers this server has text and
no tokeniser, so it reserves an estimate, and the usage that the worker reports puts the account right. A counter that
can count takes the place of the estimate through the protocol below.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from reference_server.endpoints import COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference_server.stages.parse import ParsedRequest

BYTES_PER_TOKEN = 4


class TokenCounter(Protocol):
    """Counts, or estimates, the input tokens of a request."""

    def input_tokens(self, request: ParsedRequest) -> int:
        """How many tokens the prompt has; at least 1."""
        ...


class EstimatedTokens:
    """One token for every four bytes of the prompt's text in UTF-8, rounded up.

    Of a chat counts what is rendered into its prompt: contents and reasoning of all messages, calls of tools and what
    came of them, and the definitions of tools. Pictures and sound count nothing, for only the engine knows their price.
    """

    def input_tokens(self, request: ParsedRequest) -> int:
        """The estimate; never 0."""
        body = request.body
        parts = _texts(body["prompt"]) if request.endpoint is COMPLETIONS else _chat(body)
        size_bytes = sum(len(part.encode(errors="replace")) for part in parts)
        return max(1, -(-size_bytes // BYTES_PER_TOKEN))


def _chat(body: dict[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        yield from _texts(message.get("content"))
        for name in ("reasoning_content", "reasoning"):
            yield from _texts(message.get(name))
        for call in message.get("tool_calls") or ():
            function = call.get("function")
            if isinstance(function, dict):
                yield from _texts([function.get("name"), function.get("arguments")])
    for tool in body.get("tools") or ():
        yield json.dumps(tool, ensure_ascii=False, separators=(",", ":"))


def _texts(value: Any) -> Iterator[str]:
    """The text in a string or in a list of strings and content parts."""
    for part in value if isinstance(value, list) else [value]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text
