"""For one aspect of one place: which values must be accepted, which refused, each with a short label."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from conformance.fieldcases.samples import FAR, STEP, Samples, json_type
from spec.document import resolve
from spec.fields import JSON_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec.fields import Aspect, Field

Labelled = tuple[str, Any]
UPPER: dict[str, str] = {"maximum": "maximum", "exclusive_maximum": "exclusiveMaximum"}
LOWER: dict[str, str] = {"minimum": "minimum", "exclusive_minimum": "exclusiveMinimum"}
SIZES: dict[str, str] = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "max_items": "maxItems",
}


def accepted(place: Field, aspect: Aspect, samples: Samples) -> Iterator[Labelled]:
    """Values that must be accepted for the sake of an aspect."""
    schema = place.schema
    if aspect == "type":
        yield from _right_types(place, samples)
    elif aspect == "forwarded":
        for example in samples.examples(schema):
            if not (schema.get("x-numbers-become-text") and json_type(example) != "string"):
                yield _labelled(example)
    elif aspect in UPPER or aspect in LOWER:
        yield from (_labelled(value) for value in _inside(place, aspect) if samples.allows(schema, value))
    elif aspect == "excludes":
        value = schema["not"]["const"]
        yield from (_labelled(near) for near in (value - 1, value + 1) if samples.allows(schema, near))
    elif aspect in SIZES:
        yield _sized(place, aspect, schema[SIZES[aspect]], samples)


def refused(place: Field, aspect: Aspect, samples: Samples) -> Iterator[Labelled]:
    """Values that must be refused for the sake of an aspect."""
    schema = place.schema
    if aspect == "type":
        yield from _wrong_types(place, samples)
    elif aspect in {"item_type", "value_type"}:
        yield from _wrong_inside(place, aspect, samples)
    elif aspect in UPPER or aspect in LOWER:
        yield from (_labelled(value) for value in _outside(place, aspect))
    elif aspect == "excludes":
        yield _labelled(schema["not"]["const"])
    elif aspect in SIZES:
        size = schema[SIZES[aspect]]
        beyond = [size - 1] if aspect.startswith("min") else [size + 1, size + FAR]
        yield from (_sized(place, aspect, each, samples) for each in beyond)


def twin(place: Field, aspect: Aspect, samples: Samples, good: Any) -> Any:
    """The valid value that a refused one is held against: of the same form, where the form matters."""
    if aspect in {"min_items", "max_items"}:
        return _items(place, max(place.schema.get("minItems", 1), 1), samples)
    if aspect == "item_type":
        return samples.of_type(place.schema, "array")
    if aspect == "min_length":
        return "x" * place.schema["minLength"]
    return good


def enum_members(schema: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """The members of an enum, wherever in a union it stands; null is no member here."""
    branches = [schema, *(resolve(document, branch) for branch in schema.get("oneOf") or schema.get("anyOf") or ())]
    return [member for branch in branches for member in branch.get("enum", ()) if member is not None]


def outsiders(members: list[str]) -> list[str]:
    """Strings that are no members: one of nobody's, one in capitals, one with a blank, the empty one."""
    near = (members[0].upper(), f"{members[0]} ", "")
    return ["nonsense", *(value for value in near if value not in members)]


def _right_types(place: Field, samples: Samples) -> Iterator[Labelled]:
    """A value of each JSON type that is allowed."""
    if not place.steps:
        return  # every other case sends an object
    wanted = place.schema.get("x-samples-of", [name for name in JSON_TYPES if name in place.types])
    names = [*wanted, *(["integer"] if "number" in wanted else [])]
    for name in names:
        value = samples.of_type(place.schema, name)
        if value is not None:
            yield name, value


def _wrong_types(place: Field, samples: Samples) -> Iterator[Labelled]:
    """A value of each JSON type that is not."""
    if not place.steps:
        yield from (("array", []), ("string", "text"), ("integer", 1), ("boolean", True), ("null", None))
        return
    example = samples.example(place.schema)
    yield from samples.wrong(place.types, example)


def _wrong_inside(place: Field, aspect: Aspect, samples: Samples) -> Iterator[Labelled]:
    """A valid array or map with one member of a wrong type at the end."""
    inner = resolve(samples.document, place.schema["items" if aspect == "item_type" else "additionalProperties"])
    types = frozenset({inner["type"]}) if isinstance(inner.get("type"), str) else frozenset({"object"})
    good = samples.item(place.schema) if aspect == "item_type" else next(iter(samples.example(place.schema).values()))
    for name, value in (*samples.wrong(types, good), ("null", None)):
        if aspect == "item_type":
            yield name, [*samples.of_type(place.schema, "array"), value]
        else:
            yield name, {**samples.example(place.schema), "7": value}


def _sized(place: Field, aspect: Aspect, size: int, samples: Samples) -> Labelled:
    """A string or an array of a given length."""
    if aspect.endswith("length"):
        return f"{size} characters", "x" * size
    return f"{size} items", _items(place, size, samples)


def _items(place: Field, count: int, samples: Samples) -> list[Any]:
    """An array of so many different valid items; the first carries the prompt where the example does."""
    base = samples.of_type(place.schema, "array") or []
    plenty = [*base, *(_numbered(samples.item(place.schema), number) for number in range(count))]
    return plenty[:count]


def _numbered(item: Any, number: int) -> Any:
    """A different item for each number, where items are texts."""
    return f"{item}{number}" if isinstance(item, str) else item


def _inside(place: Field, aspect: Aspect) -> list[Any]:
    """The bound itself, unless it is exclusive, and the nearest value inside."""
    bound, sign, step = _bound(place, aspect)
    return [bound + sign * step] if aspect.startswith("exclusive") else [bound, bound + sign * step]


def _outside(place: Field, aspect: Aspect) -> list[Any]:
    """The nearest value outside and one far out, and an exclusive bound itself."""
    bound, sign, step = _bound(place, aspect)
    beyond = [bound - sign * step, bound - sign * FAR]
    return [bound, *beyond] if aspect.startswith("exclusive") else beyond


def _bound(place: Field, aspect: Aspect) -> tuple[Any, int, Any]:
    """A bound, the direction that leads inside, and the smallest step of the field's type."""
    bound = place.schema[(UPPER | LOWER)[aspect]]
    sign = -1 if aspect in UPPER else 1
    return (float(bound), sign, STEP) if "number" in place.types else (bound, sign, 1)


def _labelled(value: Any) -> Labelled:
    """A value with its label."""
    return _label(value), value


def _label(value: Any) -> str:
    """A value as it stands in the brackets of a name."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 40 else f"{text[:39]}…"
