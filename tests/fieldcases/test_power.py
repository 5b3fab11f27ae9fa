"""Could the field checks notice? Each constraint of the document is broken in turn, and a case must disagree.

A gateway that follows the broken document answers each case as that document says. If it would pass every case, the
constraint is not tested at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

import spec
from conformance.fieldcases import cases
from spec.models import request_document

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = {"chat": "ChatCompletionRequest", "completions": "CompletionRequest", "embeddings": "EmbeddingRequest"}
REQUESTS = {name: prefix for prefix, name in SCHEMA.items()}
Mutation = tuple[str, dict[str, Any]]


def _bounds(schema: dict[str, Any]) -> Iterator[Mutation]:
    """Each bound lost, and moved a little to either side."""
    step = 0.1 if "number" in schema.get("type", ()) else 1
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "minLength", "minItems", "maxItems"):
        if keyword in schema:
            yield f"{keyword} lost", {keyword: None}
            if keyword not in {"minLength", "minItems"}:
                yield f"{keyword} lower", {keyword: schema[keyword] - step}
            yield f"{keyword} higher", {keyword: schema[keyword] + step}
    if "exclusiveMinimum" in schema:
        yield "bound included", {"exclusiveMinimum": None, "minimum": schema["exclusiveMinimum"]}
    if "maximum" in schema:
        yield "bound excluded", {"maximum": None, "exclusiveMaximum": schema["maximum"]}
    if "not" in schema:
        yield "exclusion lost", {"not": None}


def _types(schema: dict[str, Any]) -> Iterator[Mutation]:
    """One type more, for each type, and one type less."""
    given = schema.get("type")
    if given is None or "type" in schema.get("x-silent", ()):
        return
    names = [given] if isinstance(given, str) else list(given)
    for name in ("string", "integer", "number", "boolean", "array", "object"):
        if name not in names and not (name == "integer" and "number" in names):
            yield f"{name} allowed too", {"type": [*names, name], "enum": None}
    if not {"null"} & set(schema.get("x-silent", ())):
        yield ("null refused", {"type": [n for n in names if n != "null"], "enum": None}) if "null" in names else (
            "null allowed", {"type": [*names, "null"], "enum": None}
        )  # fmt: skip
    if len([name for name in names if name != "null"]) > 1 and "x-samples-of" not in schema:
        for name in names:
            yield f"{name} refused", {"type": [n for n in names if n != name]}


def _members(schema: dict[str, Any]) -> Iterator[Mutation]:
    """An enum with a member less, with one more, and with none."""
    enum = schema.get("enum")
    if enum:
        yield "any string", {"enum": None}
        yield "a member more", {"enum": [*enum, "nonsense"]}
        for member in enum:
            if member is not None:
                yield f"{member} refused", {"enum": [other for other in enum if other != member]}


def _inside(schema: dict[str, Any]) -> Iterator[Mutation]:
    """Items and values of any type; unknown keys refused."""
    if "items" in schema and "item_type" not in schema.get("x-silent", ()):
        yield "any item", {"items": {}}
    if isinstance(schema.get("additionalProperties"), dict):
        yield "any value", {"additionalProperties": True}
    if schema.get("additionalProperties") is True and "extra" not in schema.get("x-silent", ()):
        yield "unknown keys refused", {"additionalProperties": False}


def _properties() -> Iterator[tuple[str, str]]:
    """Every property of every request schema about which there are clauses."""
    for name, bare in request_document()["components"]["schemas"].items():
        if name in {"RootMessage", "ToolReference"}:
            continue  # refused by profile rules, or not described by the contract
        for property_name in bare.get("properties", {}):
            own = spec.openapi()["components"]["schemas"][name]["properties"][property_name]
            if own.get("x-clauses") is not False and "const" not in own:
                yield name, property_name


def _broken(name: str, property_name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The document with one constraint of a property broken, in every way there is."""
    document = spec.openapi()
    schema = document["components"]["schemas"][name]
    own = schema["properties"][property_name]
    required = set(schema.get("required", ()))
    presence = "optional" if property_name in required else "required"
    yield presence, _with(document, name, {**schema, "required": sorted(required ^ {property_name})})
    for what, change in (*_bounds(own), *_types(own), *_members(own), *_inside(own)):
        changed = {key: value for key, value in {**own, **change}.items() if value is not None}
        yield what, _with(document, name, {**schema, "properties": {**schema["properties"], property_name: changed}})


def _with(document: dict[str, Any], name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A document with one schema replaced."""
    components = document["components"]
    return {**document, "components": {**components, "schemas": {**components["schemas"], name: schema}}}


def _noticed(document: dict[str, Any], prefix: str, place: re.Pattern[str]) -> bool:
    """Whether a gateway that follows this document would be told apart by a case."""
    schema = {"$ref": f"#/components/schemas/{SCHEMA[prefix]}", "components": document["components"]}
    gateway = Draft202012Validator(schema)
    return any(
        gateway.is_valid(case.body) != (case.expect == "accepted") for case in cases(prefix) if place.search(case.name)
    )


@pytest.mark.parametrize(("name", "property_name"), list(_properties()))
def test_a_broken_constraint_would_be_noticed(name: str, property_name: str) -> None:
    """Some case expects another answer than a gateway that follows the broken document gives."""
    prefixes = [REQUESTS[name]] if name in REQUESTS else ["chat"]
    place = re.compile(rf"\.{property_name}\.")
    missed = [
        what
        for what, document in _broken(name, property_name)
        if not any(_noticed(document, prefix, place) for prefix in prefixes)
    ]
    assert missed == []
