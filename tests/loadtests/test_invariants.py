"""What must hold on every exchange: a right stream breaks nothing, each wrong one the clause it is wrong about."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from conformance.harness.sse import SseParser
from loadtests import invariants
from loadtests.traffic import reply

KIND = reply("00aa", "kind", tokens=3, every_s=0.0)
MARKER = "igc-00aa00000000beef"
OTHER = "igc-00aa00000000dead"


def event(**members: Any) -> bytes:
    """One chunk."""
    return f"data: {json.dumps({'id': 'c', **members})}\n\n".encode()


def delta(finish: str | None = None, **parts: Any) -> bytes:
    """One chunk of choice 0."""
    return event(choices=[{"index": 0, "delta": parts, "finish_reason": finish}])


ROLE = delta(role="assistant", content="")
TEXT = [delta(content=MARKER), delta(content=f" so-{MARKER}"), delta(content=f" it-{MARKER}")]
FINISH = delta(finish="stop", content="")
USAGE = event(choices=[], usage={"prompt_tokens": KIND.prompt_tokens, "completion_tokens": 3})
DONE = b"data: [DONE]\n\n"
RIGHT = [ROLE, *TEXT, FINISH, USAGE, DONE]


def broken(*pieces: bytes, finished: bool = True, content_type: str = "text/event-stream") -> list[str]:
    """Clauses that a stream breaks."""
    parser = SseParser()
    for piece in pieces:
        parser.feed(piece, 0.0)
    found = [
        *invariants.of_comments(parser.comments, parser.events),
        *invariants.of_stream(
            parser.events,
            [invariants.parsed(each.data) for each in parser.events],
            KIND,
            MARKER,
            finished=finished,
            content_type=content_type,
            unfinished=parser.unfinished,
        ),
    ]
    return sorted({clause for clause, _ in found})


def test_a_right_stream_breaks_nothing() -> None:
    """The stream of an engine, pings between its events included, is in order."""
    assert broken(*RIGHT) == []
    assert broken(ROLE, b": ping\n\n", *TEXT, FINISH, b": ping\n\n", USAGE, DONE, b": ping\n\n") == []


def test_a_part_of_a_right_stream_breaks_nothing() -> None:
    """A client that leaves early owes the stream no end."""
    for end in range(len(RIGHT)):
        assert broken(*RIGHT[:end], finished=False) == []


@pytest.mark.parametrize(
    ("pieces", "clause"),
    [
        ([ROLE, ROLE, *TEXT, FINISH, USAGE, DONE], invariants.ROLE),
        ([*TEXT, FINISH, USAGE, DONE], invariants.ROLE),
        ([ROLE, *TEXT, FINISH, FINISH, USAGE, DONE], invariants.FINISH),
        ([ROLE, *TEXT, USAGE, DONE], invariants.FINISH),
        ([ROLE, *TEXT[:2], FINISH, TEXT[2], USAGE, DONE], invariants.FINISH_LAST),
        ([ROLE, *TEXT, FINISH.replace(b'"id": "c"', b'"id": "d"'), USAGE, DONE], invariants.SAME_ID),
        ([ROLE, *TEXT[:2], delta(content=f" it-{OTHER}"), FINISH, USAGE, DONE], invariants.OWN),
        ([ROLE, *TEXT, FINISH, DONE], invariants.USAGE),
        ([ROLE, *TEXT, FINISH, USAGE, USAGE, DONE], invariants.USAGE),
        ([ROLE, *TEXT, FINISH, USAGE.replace(b": 3}", b": 4}"), DONE], invariants.USAGE),
        ([ROLE, *TEXT, FINISH, USAGE], invariants.DONE_LAST),
        ([ROLE, *TEXT, FINISH, DONE, USAGE], invariants.DONE_LAST),
        ([ROLE, *TEXT, FINISH, USAGE, DONE, DONE], invariants.DONE_ONCE),
        ([ROLE, TEXT[0], TEXT[2], FINISH, USAGE, DONE], invariants.CONTENT),
        ([ROLE, delta(content=OTHER), *TEXT[1:], FINISH, USAGE, DONE], invariants.OWN),
        ([ROLE, TEXT[0][:20] + TEXT[1] + TEXT[0][20:], *TEXT[1:], FINISH, USAGE, DONE], invariants.FRAMING),
        ([ROLE, TEXT[0][:-1], *TEXT[1:], FINISH, USAGE, DONE], invariants.FRAMING),
        ([*RIGHT, b"data: half"], invariants.FRAMING),
        ([ROLE, *TEXT, b'data: {"error": {"message": "no"}}\n\n', DONE], invariants.ENDED),
        ([ROLE, TEXT[0][:20] + b": ping\n\n" + TEXT[0][20:], *TEXT[1:], FINISH, USAGE, DONE], invariants.BETWEEN),
        ([ROLE, TEXT[0][:-1] + b": ping\n\n", *TEXT[1:], FINISH, USAGE, DONE], invariants.BETWEEN),
    ],
)
def test_each_wrong_stream_breaks_its_clause(pieces: list[bytes], clause: str) -> None:
    """A stream that is wrong in one way breaks the clause it is wrong about."""
    assert clause in broken(*pieces)


def test_another_content_type_is_noticed() -> None:
    """A stream must be declared as one."""
    assert broken(*RIGHT, content_type="text/plain") == [invariants.CONTENT_TYPE]


def test_without_our_worker_only_the_form_is_judged() -> None:
    """Behind a real engine neither text nor usage is known."""
    parser = SseParser()
    for piece in [ROLE, delta(content="whatever"), FINISH, DONE]:
        parser.feed(piece, 0.0)
    found = invariants.of_stream(
        parser.events, [invariants.parsed(each.data) for each in parser.events], None, MARKER,
        finished=True, content_type="text/event-stream", unfinished=b"",
    )  # fmt: skip
    assert found == []
    assert set(invariants.undecided(None)) == {invariants.CONTENT, invariants.OWN, invariants.USAGE}


def test_what_a_kind_leaves_open_is_undecided() -> None:
    """Whose text and usage are known decides everything; a kind without one of them says nothing about it."""
    assert invariants.undecided(KIND) == []
    assert invariants.undecided(replace(KIND, completion_tokens=None)) == [invariants.USAGE]
    assert invariants.undecided(replace(KIND, text=None)) == [invariants.CONTENT, invariants.OWN]


ODD_CHOICE = {"delta": [1], "index": {}}
VALUES: list[Any] = [None, True, 0, -1.5, "x", [], [None], [1, "x"], {}, {"delta": 1}, [ODD_CHOICE], [[{}]]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_odd_json_is_broken_and_no_reason_to_fall_over(value: Any) -> None:
    """Whatever JSON a gateway sends where an object belongs, the client has an opinion and no exception."""
    usage = {"prompt_tokens": value, "completion_tokens": value}
    odd = [event(choices=value), event(choices=[{"index": value, "delta": value, "finish_reason": value}])]
    odd += [event(choices=[{"delta": {"content": value, "role": value}}]), event(choices=[], usage=value)]
    odd += [event(choices=value, usage=usage, id=value), f"data: {json.dumps(value)}\n\n".encode()]
    for each in odd:
        assert broken(each)
        parser = SseParser()
        parser.feed(each, 0.0)
        assert [invariants.brings_text(invariants.parsed(each.data)) for each in parser.events] in ([True], [False])


def test_tokens_are_events_that_bring_text() -> None:
    """Role, finish, usage and end are no tokens, whatever blanks the engine puts into its JSON."""
    parser = SseParser()
    parser.feed(b"".join([*RIGHT, delta(reasoning_content="hm"), delta(content="")]), 0.0)
    found = [invariants.brings_text(invariants.parsed(each.data)) for each in parser.events]
    assert found == [False, True, True, True, False, False, False, True, False]
