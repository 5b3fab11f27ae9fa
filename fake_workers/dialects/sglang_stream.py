"""SGLang's streams, chunk for chunk. Source: SGLang 0.5.23 chat and completion serving, chunks serialised."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import sglang_shapes as shapes
from fake_workers.dialects.base import DONE, data_event
from fake_workers.dialects.streaming import completion_steps, interleaved, steps_in, tokens_per_prompt
from fake_workers.engine.outcome import Event, count_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.engine.outcome import Call, Choice, Outcome


class ChatStream:
    """Words one chat stream: each choice has its own id and role chunk, finish chunks come together at the end."""

    def __init__(self, call: Call, outcome: Outcome, *, chat_id: str, model: str) -> None:
        """Keep what every chunk repeats; the first choice keeps the request's id."""
        self._call = call
        self._outcome = outcome
        self._created = int(time.time())
        self._model = model
        self._ids = [chat_id, *(uuid.uuid4().hex for _ in outcome.choices[1:])]
        self._last_id = chat_id
        self._parses_tools = call.tool_mode != "none"

    def events(self) -> Iterator[Event]:
        """Yield all events in order; choices interleave step by step."""
        choices = self._outcome.choices
        yield from interleaved(self._choice(choice) for choice in choices)
        last = steps_in(self._outcome)
        for choice in choices:
            finish = {
                "index": choice.index,
                "delta": {"reasoning_content": None},
                "logprobs": None,
                "finish_reason": choice.finish_reason,
                "matched_stop": shapes.matched_stop(choice, stream=True),
            }
            yield Event(data_event(self._chunk(self._last_id, [finish])), last, len(choice.pieces))
        if self._call.include_usage:
            final = self._chunk(self._last_id, [])
            final["usage"] = shapes.usage(self._outcome)
            yield Event(data_event(final), last)
        yield Event(DONE, last)

    def _chunk(self, chunk_id: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": chunk_id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }

    def _delta(
        self,
        choice: Choice,
        delta: dict[str, Any],
        step: int,
        *,
        usage_key: bool = False,
        tokens: list[str] | None = None,
    ) -> Event:
        self._last_id = self._ids[choice.index]
        piece = {
            "index": choice.index,
            "delta": delta,
            "logprobs": shapes.chat_logprobs(tokens, self._call.logprobs) if tokens else None,
            "finish_reason": None,
            "matched_stop": None,
        }
        chunk = self._chunk(self._last_id, [piece])
        if self._call.continuous_usage and step:
            chunk["usage"] = shapes.running_usage(self._outcome.prompt_tokens, step)
        elif usage_key:
            chunk["usage"] = None
        return Event(data_event(chunk), step)

    def _choice(self, choice: Choice) -> Iterator[Event]:
        yield self._delta(choice, {"reasoning_content": None, "role": "assistant", "content": ""}, 0)
        step = 0
        for piece in choice.reasoning:
            step += 1
            yield self._delta(choice, {"reasoning_content": piece}, step)
        for number, piece in enumerate(choice.pieces):
            step += 1
            if self._parses_tools:
                delta: dict[str, Any] = {"role": None, "content": piece, "reasoning_content": None}
            else:
                delta = {"reasoning_content": None, "content": piece}
            event = self._delta(choice, delta, step, usage_key=self._parses_tools, tokens=[piece])
            event.piece = number
            yield event
        for number, call in enumerate(choice.tool_calls):
            step += 1
            yield self._tool(choice, number, shapes.tool_id(call), call.name, "", step)
            step += count_call(call) - 1
            if call.arguments:
                yield self._tool(choice, number, None, None, call.arguments, step)

    def _tool(  # noqa: PLR0917 - private, each argument is one key of the chunk
        self, choice: Choice, number: int, tool_id: str | None, name: str | None, arguments: str, step: int
    ) -> Event:
        function = {"name": name, "arguments": arguments}
        call = {"id": tool_id, "index": number, "type": "function", "function": function}
        delta = {"role": None, "content": None, "reasoning_content": None, "tool_calls": [call]}
        return self._delta(choice, delta, step, usage_key=True)


def completion_events(call: Call, outcome: Outcome, *, completion_id: str, model: str) -> Iterator[Event]:
    """Yield the events of a completion stream; the finish rides on the last text chunk, ``usage`` is null on each."""
    head = {"id": completion_id, "object": "text_completion", "created": int(time.time()), "model": model}
    for step, choice, text, echoed, last in completion_steps(call, outcome):
        piece = {
            "index": choice.index,
            "text": echoed + text,
            "logprobs": shapes.completion_logprobs([text], call.logprobs) if text else None,
            "finish_reason": choice.finish_reason if last else None,
            "matched_stop": shapes.matched_stop(choice, stream=True) if last else None,
        }
        usage = None
        if call.continuous_usage:
            usage = shapes.running_usage(tokens_per_prompt(call, outcome), step + 1)
        yield Event(data_event({**head, "choices": [piece], "usage": usage}), step + 1, step)
    if call.include_usage:
        final = {**head, "choices": [], "usage": shapes.usage(outcome, with_nulls=False)}
        yield Event(data_event(final), steps_in(outcome))
    yield Event(DONE, steps_in(outcome))
