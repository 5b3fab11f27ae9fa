"""The fake model: text, tool calls and JSON that depend on the request and the seed only."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import TYPE_CHECKING, Any

from fake_workers.engine import tokens
from fake_workers.engine.outcome import Choice, Outcome
from fake_workers.engine.schema import minimal_instance
from fake_workers.script import ToolCall

if TYPE_CHECKING:
    from fake_workers.engine.outcome import Call

# Two letters and a blank each: one token (see tokens.py).
_WORDS = tuple(
    " " + word
    for word in (
        "am an as at be by do go he if in is it me my no of on or so to up us we ox pi hi ha oh ah ye ad".split()  # noqa: SIM905 - a list of 32 quoted words is unreadable
    )
)
_FIRST = ("Now", "The", "You", "All", "One", "Yes", "Its", "Let")
_SHORTEST, _SPREAD = 8, 24
_REASONING_SHORTEST, _REASONING_SPREAD = 3, 6


class _Dice:
    """A stream of small numbers made from a hash; the same for the same words."""

    __slots__ = ("_at", "_key", "_numbers", "_round")

    def __init__(self, *words: object) -> None:
        self._key = hashlib.blake2b(
            "\0".join(map(str, words)).encode("utf-8", "surrogatepass"), digest_size=32
        ).digest()
        self._round = 0
        self._numbers: tuple[int, ...] = ()
        self._at = 0

    def roll(self, sides: int) -> int:
        if self._at >= len(self._numbers):
            block = hashlib.blake2b(self._key + self._round.to_bytes(4, "big"), digest_size=64).digest()
            self._numbers = struct.unpack(">32H", block)
            self._round += 1
            self._at = 0
        self._at += 1
        return self._numbers[self._at - 1] % sides


def generate(call: Call, seed: int) -> Outcome:
    """Return what the model says to a request; choices are prompt-major, ``n`` a prompt."""
    choices = [
        _sample(call, _Dice(seed, call.seed, prompt, sample), number * call.n + sample)
        for number, prompt in enumerate(call.prompts)
        for sample in range(call.n)
    ]
    return Outcome(
        choices=choices,
        prompt_tokens=sum(call.prompt_tokens),
        completion_tokens=sum(choice.tokens for choice in choices),
        reasoning_tokens=sum(len(choice.reasoning) for choice in choices),
    )


def _sample(call: Call, dice: _Dice, index: int) -> Choice:
    choice = Choice(index)
    if call.thinking:
        choice.reasoning = _words(dice, _REASONING_SHORTEST + dice.roll(_REASONING_SPREAD))
    tool = _tool_to_call(call)
    if tool is not None:
        choice.tool_calls = [_tool_call(tool)]
        choice.finish_reason = "tool_calls"
        return choice
    if call.schema is not None:
        choice.pieces = tokens.split(json.dumps(minimal_instance(call.schema), separators=(", ", ": ")))
    else:
        length = max(_SHORTEST + dice.roll(_SPREAD), call.min_tokens)
        if call.ignore_eos and call.max_tokens is not None:
            length = call.max_tokens + 1  # the limit ends it, never the model
        length = min(length, call.max_tokens + 1) if call.max_tokens is not None else length
        choice.pieces = _words(dice, length)
    _limit(choice, call)
    return choice


def _words(dice: _Dice, length: int) -> list[str]:
    if length <= 0:
        return []
    first = _FIRST[dice.roll(len(_FIRST))]
    return [first, *(_WORDS[dice.roll(len(_WORDS))] for _ in range(length - 1))]


def _limit(choice: Choice, call: Call) -> None:
    """Cut at the first stop string or at max_tokens, whichever comes first."""
    if call.stop:
        _stop(choice, call)
    room = call.max_tokens
    if room is None or choice.tokens <= room:
        return
    choice.reasoning = choice.reasoning[:room]
    choice.pieces = choice.pieces[: room - len(choice.reasoning)]
    choice.finish_reason = "length"
    choice.matched = None


def _stop(choice: Choice, call: Call) -> None:
    text = choice.text
    found = [(text.find(stop), stop) for stop in call.stop if stop and stop in text]
    if not found:
        return
    at, choice.matched = min(found)
    end = at + len(choice.matched) if call.keep_stop else at
    kept: list[str] = []
    for piece in choice.pieces:
        kept.append(piece[:end])
        end -= len(piece)
        if end <= 0:
            break
    choice.pieces = [piece for piece in kept if piece]


def _tool_to_call(call: Call) -> dict[str, Any] | None:
    functions = [tool.get("function") for tool in call.tools if isinstance(tool.get("function"), dict)]
    if call.tool_mode == "none" or not functions:
        return None
    if call.tool_mode == "named":
        return next((function for function in functions if function and function.get("name") == call.tool_name), None)
    if call.tool_mode == "auto" and _answers_a_tool(call.body):
        return None
    return functions[0]


def _answers_a_tool(body: dict[str, Any]) -> bool:
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "tool"


def _tool_call(function: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(minimal_instance(function.get("parameters") or {"type": "object"}))
    return ToolCall(name=str(function.get("name", "")), arguments=arguments)


def logprob_of(text: str, rank: int = 0) -> float:
    """Return the log probability the fake model gives a token; alternatives (rank 1, 2, ...) are less likely."""
    return -((sum(text.encode("utf-8", "surrogatepass")) * 31 + 7) % 200 + 1) / 1000 - 2.0 * rank


def alternatives(text: str, count: int) -> list[str]:
    """Return the ``count`` most likely tokens at this place, the chosen one first."""
    start = sum(text.encode("utf-8", "surrogatepass"))
    others = (_WORDS[(start + step) % len(_WORDS)] for step in range(len(_WORDS)))
    return [text, *(word for word in others if word != text)][:count]


def embedding_of(text: str, dimensions: int, seed: int) -> list[float]:
    """Return a unit vector that depends on the text and the seed only."""
    dice = _Dice(seed, "embedding", text)
    values = [dice.roll(2001) / 1000 - 1 for _ in range(dimensions)]
    norm = sum(value * value for value in values) ** 0.5 or 1.0
    return [round(value / norm, 7) for value in values]
