"""JSON as a judge of fidelity needs it: numbers keep their text, and two values are compared member by member."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from conformance.harness.errors import Disproved


@dataclass(frozen=True, slots=True)
class Number:
    """A JSON number by its text, such as `1.0`, `1e3` or a hundred digits."""

    text: str

    @property
    def value(self) -> Decimal:
        """What the text says, exactly."""
        return Decimal(self.text)

    def __repr__(self) -> str:
        return self.text


def parse(raw: bytes) -> Any:
    """JSON with every number as a :class:`Number`.

    Raises:
        Disproved: the bytes are not JSON, or an object in them repeats a member.
    """
    try:
        return json.loads(
            raw, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant, object_pairs_hook=_unique
        )
    except ValueError as problem:
        raise Disproved(
            "worker got no JSON", f"the worker received a body that is not JSON ({problem}): {raw[:300]!r}"
        ) from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise Disproved("worker got a member twice", f"the worker received an object that repeats {', '.join(twice)}")
    return members


def differences(sent: Any, got: Any, *, digits: bool = True, additions: bool = False, at: str = "") -> list[str]:
    """What of `sent` did not arrive as sent, one line a difference, each with its place.

    Args:
        sent: the value as the client sent it, parsed by :func:`parse`.
        got: the value as the worker received it, parsed by :func:`parse`.
        digits: compare numbers by their text (`1.0` is not `1`); otherwise by their exact value.
        additions: let objects hold members that were not sent.
        at: the place of the two values, for the messages.
    """
    here = at or "the value"
    if isinstance(sent, Number) and isinstance(got, Number):
        same = sent.text == got.text if digits else sent.value == got.value
        return [] if same else [f"{here}: sent {sent}, arrived as {got}"]
    if isinstance(sent, dict) and isinstance(got, dict):
        return _members(sent, got, digits=digits, additions=additions, at=at)
    if isinstance(sent, list) and isinstance(got, list):
        if len(sent) != len(got):
            return [f"{here}: sent {len(sent)} items, arrived as {len(got)}"]
        pairs = enumerate(zip(sent, got, strict=True))
        return [
            line
            for i, (one, other) in pairs
            for line in differences(one, other, digits=digits, additions=additions, at=f"{at}[{i}]")
        ]
    if type(sent) is type(got) and sent == got:
        return []
    return [f"{here}: sent {_short(sent)}, arrived as {_short(got)}"]


def _members(sent: dict[str, Any], got: dict[str, Any], *, digits: bool, additions: bool, at: str) -> list[str]:
    lines = []
    for name, value in sent.items():
        place = f"{at}.{name}" if at else name
        if name in got:
            lines += differences(value, got[name], digits=digits, additions=additions, at=place)
        else:
            lines.append(f"{place}: sent {_short(value)}, did not arrive")
    if not additions:
        lines += [
            f"{f'{at}.' if at else ''}{name}: not sent, arrived as {_short(got[name])}"
            for name in got
            if name not in sent
        ]
    return lines


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


def kept_order(sent: Any, got: Any) -> bool:
    """Whether the members that both objects hold stand in the same order, at every level."""
    if isinstance(sent, dict) and isinstance(got, dict):
        both = [name for name in sent if name in got]
        return both == [name for name in got if name in sent] and all(
            kept_order(sent[name], got[name]) for name in both
        )
    if isinstance(sent, list) and isinstance(got, list):
        return all(kept_order(one, other) for one, other in zip(sent, got, strict=False))
    return True
