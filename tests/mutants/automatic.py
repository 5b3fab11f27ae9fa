"""The automatic mutants: the OpenAPI document with one constraint of a request field broken.

A gateway whose request models were made from such a document differs from the contract in that constraint alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

import spec
from spec.fields import prefixes, request_schema, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = dict[str, Any]
Change = tuple[str, Schema]
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_BOUNDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)
_LOWER_IS_LAX = {"minimum", "exclusiveMinimum", "minLength", "minItems"}
_SWAPPED = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum", "exclusiveMinimum": "minimum",
            "exclusiveMaximum": "maximum"}  # fmt: skip


@dataclass(frozen=True)
class Automatic:
    """One broken constraint: `schema` and `path` say where in the document, `what` how, `change` what to lay over it.

    `change` maps keywords to values, None taking a keyword out; with `presence` the field's being required is toggled.
    """

    prefix: str
    schema: str
    path: tuple[str | int, ...]
    what: str
    change: Schema
    presence: str = ""

    @property
    def name(self) -> str:
        """Unique, stable: `chat:StreamOptions.include_usage:null refused`."""
        place = ".".join(str(step) for step in self.path if step != "properties")
        return f"{self.prefix}:{self.schema}{'.' if place else ''}{place}:{self.what}"

    @property
    def field(self) -> str:
        """The property of the schema that the constraint is about; empty for the schema itself."""
        return str(self.path[1]) if self.path[:1] == ("properties",) else ""

    @property
    def stricter(self) -> bool:
        """Whether the broken document refuses something more, which generated models cannot always do."""
        return self.what.endswith(" refused")

    def document(self) -> dict[str, Any]:
        """A copy of the document with the constraint broken, and no request schema but this mutant's."""
        whole = spec.openapi()
        kept = {
            name: schema
            for name, schema in whole["components"]["schemas"].items()
            if schema.get("x-clause-prefix", self.prefix) == self.prefix
        }
        target = kept[self.schema] = copy.deepcopy(kept[self.schema])
        if self.presence:
            target["required"] = sorted(set(target.get("required", ())) ^ {self.presence})
        for step in self.path:
            target = target[step]
        for key, value in self.change.items():
            target.pop(key, None)
            if value is not None:
                target[key] = value
        return {**whole, "components": {**whole["components"], "schemas": kept}}

    def validator(self) -> Draft202012Validator:
        """Judges bodies as the broken document does."""
        document = self.document()
        name = endpoint_schema(self.prefix, document)
        return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


@cache
def mutants() -> Mapping[str, Automatic]:
    """Every automatic mutant by name, in the order of the document."""
    return {each.name: each for prefix in prefixes() for each in _of(prefix)}


def _of(prefix: str) -> Iterator[Automatic]:
    """The mutants of one request body and of the schemas it refers to."""
    schemas = spec.openapi()["components"]["schemas"]
    top = next(name for name, schema in schemas.items() if schema.get("x-clause-prefix") == prefix)
    queue, seen = [top], {top}
    spoken_of = [container["properties"] for p in walk(prefix) for container in p.chain if "properties" in container]
    while queue:
        name = queue.pop(0)
        if "properties" in schemas[name] and schemas[name]["properties"] not in spoken_of:
            continue  # no clause is about anything in it
        yield from _in_schema(prefix, name, schemas[name])
        for reference in _references(schemas[name]):
            if reference not in seen:
                seen.add(reference)
                queue.append(reference)


def _references(node: Any) -> Iterator[str]:
    """Names of the schemas that a schema refers to."""
    if isinstance(node, dict):
        if node.get("x-clauses") is False:
            return
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rsplit("/", 1)[-1]
        for key, value in node.items():
            if not key.startswith("x-"):
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _in_schema(prefix: str, name: str, schema: Schema) -> Iterator[Automatic]:
    """The mutants of one schema of the document: its own constraints (a schema of values), and its properties'."""
    if "properties" not in schema:
        for path, node in _nodes(schema, ()):
            for what, change in _changes(node):
                yield Automatic(prefix, name, path, what, change)
        return
    for what, change in _unknown_keys(schema):
        yield Automatic(prefix, name, (), what, change)
    required = schema.get("required", ())
    for key, own in schema["properties"].items():
        if own.get("x-clauses") is False or "const" in own:
            continue
        silent = own.get("x-silent", ())
        if not {"required", "optional"} & set(silent):
            presence = "optional" if key in required else "required"
            yield Automatic(prefix, name, ("properties", key), presence, {}, presence=key)
        for path, node in _nodes(own, ("properties", key)):
            for what, change in _changes(node):
                yield Automatic(prefix, name, path, what, change)


def _nodes(schema: Schema, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    """A schema and those written inside it: items, values of a map, alternatives."""
    yield path, schema
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], (*path, key))
    for key in ("oneOf", "anyOf"):
        for index, branch in enumerate(schema.get(key, ())):
            yield from _nodes(branch, (*path, key, index))


def _changes(schema: Schema) -> Iterator[Change]:
    """Every way of breaking one constraint of a schema."""
    yield from _bounds(schema)
    yield from _types(schema)
    yield from _members(schema)
    if "items" in schema and "item_type" not in schema.get("x-silent", ()):
        yield "any item", {"items": {}}
    if isinstance(schema.get("additionalProperties"), dict):
        yield "any value", {"additionalProperties": True}
    if schema.get("default") is not None:
        yield "another default", {"default": _other(schema["default"])}


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, (int, float)) else f"{value}x" if isinstance(value, str) else value


def _bounds(schema: Schema) -> Iterator[Change]:
    """Each bound lost, moved a step to either side, and its own value let in or shut out."""
    step = 0.1 if "number" in (schema.get("type") or ()) else 1
    for keyword in _BOUNDS:
        if keyword not in schema:
            continue
        bound = schema[keyword]
        yield f"{keyword} lost", {keyword: None}
        if bound > 0 or ("Length" not in keyword and "Items" not in keyword):
            yield f"{keyword} lower", {keyword: round(bound - step, 6)}
        yield f"{keyword} higher", {keyword: round(bound + step, 6)}
        if keyword in _SWAPPED:
            yield f"{keyword} swapped", {keyword: None, _SWAPPED[keyword]: bound}
    if "not" in schema:
        yield "exclusion lost", {"not": None}


def _types(schema: Schema) -> Iterator[Change]:
    """One type more, for each type; null toggled; one type less where there are several."""
    given = schema.get("type")
    silent = set(schema.get("x-silent", ()))
    if given is None or "type" in silent:
        return
    names = [given] if isinstance(given, str) else list(given)
    for name in _TYPES:
        if name not in names and not (name == "integer" and "number" in names):
            yield f"{name} allowed too", {"type": [*names, name], "enum": None}
    if "null" not in silent:
        if "null" in names:
            yield "null refused", {"type": [name for name in names if name != "null"]}
        else:
            yield (
                "null allowed",
                {"type": [*names, "null"], **({"enum": [*schema["enum"], None]} if "enum" in schema else {})},
            )
    rest = [name for name in names if name != "null"]
    if len(rest) > 1 and "x-samples-of" not in schema:
        for name in rest:
            yield f"{name} refused", {"type": [each for each in names if each != name]}


def _members(schema: Schema) -> Iterator[Change]:
    """An enum with any string, with one member more, and with each member missing."""
    enum = schema.get("enum")
    if not enum:
        return
    yield "any string", {"enum": None}
    yield "a member more", {"enum": [*enum, "nonsense"]}
    for member in enum:
        if member is not None and len(enum) > 1:
            yield f"{member} refused", {"enum": [other for other in enum if other != member]}


def _unknown_keys(schema: Schema) -> Iterator[Change]:
    """Unknown keys refused, where the contract speaks of them."""
    if schema.get("additionalProperties") is True and "extra" not in schema.get("x-silent", ()):
        yield "unknown keys refused", {"additionalProperties": False}


def endpoint_schema(prefix: str, document: dict[str, Any]) -> str:
    """The name of a prefix's request schema."""
    wanted = request_schema(prefix, document)
    schemas: dict[str, Any] = document["components"]["schemas"]
    return next(name for name, each in schemas.items() if each == wanted)
