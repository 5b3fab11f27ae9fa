"""What judges share: the invariants of every exchange, and questions about the worker's journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_workers.wire import event
from loadtests.invariants import BETWEEN, ENDED, EVERY_EXCHANGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fake_workers.journal import Entry
    from loadtests.findings import Findings
    from loadtests.observation import Observation
    from loadtests.scenario import Data

ONE_DISPATCH = "chat.response.one_dispatch"


def invariants(
    data: Data, findings: Findings, *, served: Sequence[str] = (), but: Callable[[Observation], bool] | None = None
) -> None:
    """Judge every exchange by itself.

    `served` names flows none of whose requests may be refused or cut; `but` says which exchanges are judged elsewhere.
    """
    findings.owe(*EVERY_EXCHANGE, ONE_DISPATCH, occasion="no stream came to its end")
    for each in data.observations:
        if but is not None and but(each):
            continue
        _exchange(each, findings)
        dispatches = len(data.entries.get(each.marker, []))
        if each.answered or dispatches > 1:
            findings.hold(ONE_DISPATCH, dispatches == 1, _about(each, f"{dispatches} dispatches"))
        if each.answered:
            continue
        if each.flow in served:
            seen = f"status {each.status}, {each.outcome} {each.problem} after {each.body_bytes} bytes"
            findings.hold(ENDED, each.outcome == "left", _about(each, seen))


def _exchange(each: Observation, findings: Findings) -> None:
    """Judge one exchange by its own invariants; of one that did not come to its end only what is broken counts."""
    broken: dict[str, str] = {}
    for clause, what in each.broken:
        broken.setdefault(clause, what)
    if each.answered:
        for clause in EVERY_EXCHANGE:
            if clause not in each.undecided:
                findings.hold(clause, clause not in broken, _about(each, broken.get(clause, "")))
    for clause, what in broken.items():
        if clause == BETWEEN or not each.answered:
            findings.hold(clause, False, _about(each, what))  # noqa: FBT003 - a truth is what it takes


def chunk(text: str, *, role: bool = False, finish: str | None = None) -> bytes:
    """One chunk of a chat stream as an event, for answers that are written out byte by byte."""
    delta = {**({"role": "assistant"} if role else {}), "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-load", "object": "chat.completion.chunk", "created": 1, "model": "conformance-load"}
    return event({**body, "choices": [choice]})


def _about(observation: Observation, what: str) -> str:
    return f"{observation.flow} {observation.marker}: {what}" if what else ""


def ended(entry: Entry) -> float | None:
    """When the worker was done with a request, in either way; None while it goes on."""
    return entry.completed_at if entry.completed_at is not None else entry.peer_closed_at


def running(entries: Iterable[Entry]) -> list[int]:
    """How many requests the workers had whenever one came to them, itself included."""
    changes: list[tuple[float, int]] = []
    for entry in entries:
        changes.append((entry.received_at, 1))
        if (end := ended(entry)) is not None:
            changes.append((end, -1))
    number, found = 0, []
    for _, change in sorted(changes):
        number += change
        if change > 0:
            found.append(number)
    return found
