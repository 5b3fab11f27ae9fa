"""What the engines' streams have in common: the order in which choices speak, and a completion step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fake_workers.engine.outcome import Call, Choice, Event, Outcome


def interleaved(streams: Iterable[Iterator[Event]]) -> Iterator[Event]:
    """Yield one event of each stream in turn until all have ended."""
    open_streams = list(streams)
    while open_streams:
        for stream in list(open_streams):
            event = next(stream, None)
            if event is None:
                open_streams.remove(stream)
            else:
                yield event


class CompletionStep(NamedTuple):
    """What one choice of a completion says at one step.

    ``text`` is the generated piece, empty only for a choice that says nothing at all; ``echoed`` the prompt in front
    of the first piece, if the request asks for it.
    """

    step: int
    choice: Choice
    text: str
    echoed: str
    last: bool


def completion_steps(call: Call, outcome: Outcome) -> Iterator[CompletionStep]:
    """Yield step by step what each choice says; one without text has a single, empty step."""
    for step in range(steps_in(outcome) or 1):
        for choice in outcome.choices:
            if step < max(len(choice.pieces), 1):
                text = choice.pieces[step] if choice.pieces else ""
                echoed = call.prompts[choice.index // call.n] if call.echo and step == 0 else ""
                yield CompletionStep(step, choice, text, echoed, step >= len(choice.pieces) - 1)


def tokens_per_prompt(call: Call, outcome: Outcome) -> int:
    """Return the prompt tokens that a running usage counts for one choice."""
    return outcome.prompt_tokens // max(len(call.prompts), 1)


def steps_in(outcome: Outcome) -> int:
    """Return the number of tokens of the longest choice: the step that closing events belong to."""
    return max((choice.tokens for choice in outcome.choices), default=0)
