"""What a field case is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Expect = Literal["accepted", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What the worker must have received.

    Attributes:
        inside: the container at the worker, as steps from the top of the body (keys, and numbers of items).
        names: the last step; where the contract lets a value arrive under one of several names, all of them.
        value: the value.
        digits: whether numbers must arrive with the text they were sent with, and not only with the same value.
    """

    inside: tuple[str | int, ...]
    names: tuple[str | int, ...]
    value: Any
    digits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and what must become of it.

    In bodies `{model}` and `{prompt}` stand for a served model and for a prompt with the marker; `fill` puts them in.

    Attributes:
        name: unique and stable, the rule's id with the value in brackets: `chat.temperature.maximum[2.0]`.
        clause_id: the row that the case decides.
        description: one line for readers of a failure.
        path: where the request goes.
        body: the whole body, any JSON value.
        expect: accepted (200, and the worker got it) or refused (400, and no worker saw it).
        twin: for a refusal, the body that differs only in what is judged and must be accepted.
        arrival: for an acceptance, what the worker must have received; None where another clause says it.
    """

    name: str
    clause_id: str
    description: str
    path: str
    body: Any
    expect: Expect
    twin: dict[str, Any] | None = None
    arrival: Arrival | None = None
