"""Neutral forms between the dialects and the model: what was asked, and what the model said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fake_workers.script import ToolCall


@dataclass(slots=True)
class Call:
    """A chat, completion or native request, read leniently; the dialect has judged it already.

    ``prompts`` are the rendered prompt texts; ``max_tokens`` None means no limit but the context.
    ``tool_mode`` "named" uses ``tool_name``. ``logprobs`` None means off, else the number of alternatives.
    """

    kind: Literal["chat", "completion", "generate"]
    body: dict[str, Any]
    model: str
    request_id: str | None = None
    prompts: list[str] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    n: int = 1
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: list[str] = field(default_factory=list)
    ignore_eos: bool = False
    keep_stop: bool = False
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    logprobs: int | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    tool_mode: Literal["none", "auto", "required", "named"] = "none"
    tool_name: str | None = None
    schema: Any = None
    thinking: bool = False
    echo: bool = False
    seed: int = 0


@dataclass(slots=True)
class Choice:
    """One sample: reasoning first, then text or calls. ``matched`` is the stop string that ended it, None for EOS."""

    index: int
    pieces: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str = "stop"
    matched: str | None = None

    @property
    def text(self) -> str:
        """The answer text."""
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        """Number of generated tokens."""
        calls = sum(count_call(call) for call in self.tool_calls)
        return len(self.reasoning) + len(self.pieces) + calls


def count_call(call: ToolCall) -> int:
    """Return the tokens counted for one tool call: one for the name, and about one for three bytes of arguments."""
    return 1 + -(-len(call.arguments) // 3)


@dataclass(slots=True)
class Outcome:
    """All samples of a request and its usage. ``cached_tokens`` and ``reasoning_tokens`` None mean not reported."""

    choices: list[Choice]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    holds: dict[int, str] = field(default_factory=dict)
    hold_max_s: float = 30.0
    pauses: dict[int, float] = field(default_factory=dict)
    every_s: float = 0.0
    model: str | None = None
    embedding: list[float] | None = None

    @property
    def at_once(self) -> bool:
        """Whether no script asks for a wait."""
        return not (self.holds or self.pauses or self.every_s)

    def pause_before(self, piece: int) -> float:
        """Return the seconds of silence before a content piece (-1: before any byte)."""
        return self.pauses.get(piece, self.every_s if piece > 0 else 0.0)


@dataclass(slots=True)
class Event:
    """One SSE event. ``step`` is the generation step that makes it possible; ``piece`` the content piece it carries."""

    data: bytes
    step: int = 0
    piece: int | None = None
