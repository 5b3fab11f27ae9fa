"""vLLM's streams, chunk for chunk. Source: vLLM 0.33 chat and completion serving, chunks serialised."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import vllm_shapes as shapes
from fake_workers.dialects.base import DONE, data_event
from fake_workers.dialects.streaming import completion_steps, interleaved, steps_in, tokens_per_prompt
from fake_workers.engine.outcome import Event, count_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.engine.outcome import Call, Choice, Outcome


class ChatStream:
    """Words one chat stream: role chunks for all choices, pieces, a finish chunk per choice, usage, [DONE]."""

    def __init__(
        self, call: Call, outcome: Outcome, *, chat_id: str, model: str, system_fingerprint: str, thinks: bool
    ) -> None:
        """Keep what every chunk repeats."""
        self._call = call
        self._outcome = outcome
        self._fingerprint = system_fingerprint
        self._thinks = thinks
        self._head = {"id": chat_id, "object": "chat.completion.chunk", "created": int(time.time()), "model": model}
        self._continuous = call.include_usage and call.continuous_usage
        self._done_tokens = [0] * len(outcome.choices)

    def events(self) -> Iterator[Event]:
        """Yield all events in order; choices interleave step by step."""
        for choice in self._outcome.choices:
            delta = {"role": "assistant", "content": ""}
            piece = {"index": choice.index, "delta": delta, "logprobs": None, "finish_reason": None}
            yield self._event([piece], {"prompt_token_ids": None, "prompt_text": None}, choice, 0)
        yield from interleaved(self._choice(choice) for choice in self._outcome.choices)
        last = steps_in(self._outcome)
        if self._call.include_usage:
            final = {
                **self._head,
                "choices": [],
                "usage": shapes.usage(self._outcome, with_nulls=False, reasoning_parser=self._thinks),
                "system_fingerprint": self._fingerprint,
            }
            yield Event(data_event(final), last)
        yield Event(DONE, last)

    def _event(self, choices: list[dict[str, Any]], tail: dict[str, Any], choice: Choice, step: int) -> Event:
        chunk: dict[str, Any] = {**self._head, "choices": choices}
        if self._continuous:
            chunk["usage"] = shapes.running_usage(self._outcome.prompt_tokens, self._done_tokens[choice.index])
        chunk.update(tail)
        return Event(data_event(chunk), step)

    def _choice(self, choice: Choice) -> Iterator[Event]:
        step = 0
        for piece in choice.reasoning:
            step += 1
            yield self._delta(choice, {"reasoning": piece}, step)
        ends_on_text = choice.finish_reason == "length" and bool(choice.pieces)
        for number, piece in enumerate(choice.pieces):
            step += 1
            last = ends_on_text and number == len(choice.pieces) - 1
            event = (
                self._finish(choice, piece, step) if last else self._delta(choice, {"content": piece}, step, [piece])
            )
            event.piece = number
            yield event
        for number, call in enumerate(choice.tool_calls):
            step += 1
            yield self._delta(choice, self._tool_start(number, call.name, shapes.tool_id(call)), step)
            step += count_call(call) - 1
            if call.arguments:
                yield self._delta(choice, self._tool_arguments(number, call.arguments), step)
        if not ends_on_text:
            event = self._finish(choice, "", step)
            event.piece = len(choice.pieces)
            yield event

    @staticmethod
    def _tool_start(number: int, name: str, tool_id: str) -> dict[str, Any]:
        return {"tool_calls": [{"id": tool_id, "type": "function", "index": number, "function": {"name": name}}]}

    @staticmethod
    def _tool_arguments(number: int, arguments: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": number, "function": {"arguments": arguments}}]}

    def _delta(self, choice: Choice, delta: dict[str, Any], step: int, tokens: list[str] | None = None) -> Event:
        self._done_tokens[choice.index] = step
        piece = {
            "index": choice.index,
            "delta": delta,
            "logprobs": shapes.chat_logprobs(tokens, self._call.logprobs) if tokens else None,
            "finish_reason": None,
            "token_ids": None,
        }
        return self._event([piece], {"kv_transfer_params": None}, choice, step)

    def _finish(self, choice: Choice, text: str, step: int) -> Event:
        self._done_tokens[choice.index] = step
        piece = {
            "index": choice.index,
            "delta": {"content": text},
            "logprobs": shapes.chat_logprobs([text], self._call.logprobs) if text else None,
            "finish_reason": shapes.finish_reason(self._call, choice),
            "stop_reason": choice.matched,
            "token_ids": None,
            "weight_versions": None,
        }
        tail: dict[str, Any] = {} if self._call.include_usage else {"system_fingerprint": self._fingerprint}
        return self._event([piece], {**tail, "kv_transfer_params": None}, choice, step)


def completion_events(
    call: Call, outcome: Outcome, *, completion_id: str, model: str, system_fingerprint: str
) -> Iterator[Event]:
    """Yield the events of a completion stream; the finish rides on the last text chunk."""
    head = {"id": completion_id, "object": "text_completion", "created": int(time.time()), "model": model}
    offsets = [0] * len(outcome.choices)
    for step, choice, text, echoed, last in completion_steps(call, outcome):
        piece = {
            "index": choice.index,
            "text": echoed + text,
            "logprobs": shapes.completion_logprobs([text], call.logprobs, offsets[choice.index]) if text else None,
            "finish_reason": choice.finish_reason if last else None,
            "stop_reason": choice.matched if last else None,
            "prompt_token_ids": None,
            "token_ids": None,
            "weight_versions": None,
        }
        offsets[choice.index] += len(echoed + text)
        chunk: dict[str, Any] = {**head, "choices": [piece]}
        if call.include_usage and call.continuous_usage:
            chunk["usage"] = shapes.running_usage(tokens_per_prompt(call, outcome), step + 1 if choice.pieces else 0)
        if last and not call.include_usage:
            chunk["system_fingerprint"] = system_fingerprint
        chunk["kv_transfer_params"] = None
        yield Event(data_event(chunk), step + 1, step)
    if call.include_usage:
        usage = shapes.usage(outcome, with_nulls=False, reasoning_parser=False)
        final = {**head, "choices": [], "usage": usage, "system_fingerprint": system_fingerprint}
        yield Event(data_event(final), steps_in(outcome))
    yield Event(DONE, steps_in(outcome))
