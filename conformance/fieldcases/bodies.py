"""Whole bodies round one place: everything else in them is valid, whatever sits at the place."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from spec.document import resolve
from spec.fields import request_schema

if TYPE_CHECKING:
    from conformance.fieldcases.samples import Samples
    from spec.fields import Field

PROMPT, MODEL = "{prompt}", "{model}"


class Leave:
    """Stands for no value at all: the place is left out of its container."""


LEAVE = Leave()


class Bodies:
    """Bodies of one request schema."""

    def __init__(self, prefix: str, samples: Samples) -> None:
        self.schema = request_schema(prefix, samples.document)
        self.path: str = self.schema["x-path"]
        self._samples = samples

    def base(self) -> dict[str, Any]:
        """The smallest valid body."""
        return dict(copy.deepcopy(self._samples.example(self.schema)))

    def around(self, place: Field, value: Any) -> tuple[Any, tuple[str | int, ...]]:
        """A body with `value` at a place, and where that is in it (`LEAVE`: where it would be).

        Args:
            place: a place of this request; the request itself when its path is empty.
            value: any JSON value, or `LEAVE`.
        """
        if not place.steps:
            return value, ()
        steps: list[str | int] = []
        inner: Any = value
        for depth in range(len(place.steps) - 1, -1, -1):
            step, container = place.steps[depth], place.chain[depth]
            if isinstance(step, int):
                below = place.chain[depth + 1] if depth + 1 < len(place.chain) else place.schema
                before = self._before(container, below)
                inner, step = [*before, inner], len(before)
            elif depth == 0:
                inner = self._top(step, inner)
            else:
                members = dict(copy.deepcopy(self._samples.example(container)))
                inner = _placed(members, step, inner)
            steps.insert(0, step)
        return inner, tuple(steps)

    def _top(self, name: str, value: Any) -> dict[str, Any]:
        """The base body with one field, and with the fields that this one must not come without."""
        companions = resolve(self._samples.document, self.schema["properties"][name]).get("x-with", {})
        return _placed(self.base() | copy.deepcopy(companions), name, value)

    def _before(self, array: dict[str, Any], item: dict[str, Any]) -> list[Any]:
        """What stands in an array before the item of interest."""
        if "x-before" in item:
            return list(copy.deepcopy(item["x-before"]))
        if "properties" in item or "oneOf" in item:
            return []
        return [copy.deepcopy(self._samples.item(array))]  # a good neighbour, so that it alone is judged


def _placed(members: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """An object with one member set, or left out."""
    if isinstance(value, Leave):
        members.pop(name, None)
        return members
    return {**members, name: value}


def fill(value: Any, *, model: str, prompt: str) -> Any:
    """`value` with the placeholders of model and prompt replaced in every text."""
    if isinstance(value, str):
        return value.replace(PROMPT, prompt).replace(MODEL, model)
    if isinstance(value, list):
        return [fill(item, model=model, prompt=prompt) for item in value]
    if isinstance(value, dict):
        return {name: fill(member, model=model, prompt=prompt) for name, member in value.items()}
    return value
