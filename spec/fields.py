"""The constraints of request fields, read from the OpenAPI document.

A request schema names its clause prefix (`x-clause-prefix`). `walk` goes through its properties, those of nested
objects and the items of arrays, and yields one `Field` for each place that a constraint can sit at. Every constraint
is an *aspect*; `<prefix>.<path>.<aspect>` is the id of its clause.

How a place is named: a property by its own name, the items of an array by `item`, an alternative of a union of objects
by `x-clause-segment`; where the items of an array are such a union, by the alternative's name alone
(`chat.messages.user.content`). What tells the alternatives apart belongs to the union (`chat.messages.role`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from spec.document import openapi, resolve
from spec.loading import HERE, SpecError, label, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Aspect = Literal[
    "type", "required", "optional", "null", "minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "excludes",
    "min_length", "max_length", "min_items", "max_items", "enum", "item_type", "value_type", "forwarded", "extra",
]  # fmt: skip

_KEYWORDS: dict[str, Aspect] = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "not": "excludes",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_items",
    "maxItems": "max_items",
    "enum": "enum",
}
"""Schema keywords that are an aspect of their own (`not` only in the form `not: {const: value}`)."""

JSON_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")


@dataclass(frozen=True, slots=True)
class Variant:
    """One alternative of a union of objects: its name in clause ids and its schema."""

    segment: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One place in a request body and what the contract says about it.

    `path` is the place in clause ids, `steps` the place in a body (keys, and 0 for an item of an array).
    `chain` are the schemas of the containers passed on the way, outermost (the request) first, one per step.
    `schema` has its reference followed and null taken out of its types; `nullable` says whether null was among them.
    `types` are the JSON types allowed besides null. `variants` are the alternatives of a union of objects; `tells` is
    set on the property whose value chooses among them.
    """

    prefix: str
    path: tuple[str, ...]
    steps: tuple[str | int, ...]
    schema: dict[str, Any]
    chain: tuple[dict[str, Any], ...]
    required: bool
    nullable: bool
    types: frozenset[str]
    aspects: tuple[Aspect, ...] = ()
    variants: tuple[Variant, ...] = field(default=())
    tells: bool = False

    def rule_id(self, aspect: Aspect) -> str:
        """The id that the naming rule gives the clause about one aspect of this place."""
        return ".".join((self.prefix, *self.path, aspect))

    def clause_id(self, aspect: Aspect, member: str | None = None) -> str:
        """The id of the row that says it: by the naming rule, or a hand-written row (`field_clauses.yaml`).

        Args:
            aspect: one of this place's aspects.
            member: with the aspect `enum`, the member whose acceptance is meant.
        """
        rule = self.rule_id(aspect)
        elsewhere = said_elsewhere()
        return elsewhere.get(f"{rule}[{member}]") or elsewhere.get(rule) or rule


def walk(prefix: str, document: dict[str, Any] | None = None) -> Iterator[Field]:
    """Every place in a request body that has constraints, in the order of the document.

    Args:
        prefix: the clause prefix of the request schema: `chat`, `completions` or `embeddings`.
        document: another OpenAPI document (mutants); the package's own when left out.

    Raises:
        SpecError: no request schema has this prefix, or a schema uses a form that is not understood.
    """
    document = openapi() if document is None else document
    yield from _Walker(prefix, document).request(request_schema(prefix, document))


def prefixes(document: dict[str, Any] | None = None) -> tuple[str, ...]:
    """The clause prefixes of all request schemas, in the order of the document."""
    document = openapi() if document is None else document
    schemas = document["components"]["schemas"].values()
    return tuple(schema["x-clause-prefix"] for schema in schemas if "x-clause-prefix" in schema)


def request_schema(prefix: str, document: dict[str, Any]) -> dict[str, Any]:
    """The request schema with a clause prefix.

    Raises:
        SpecError: there is none.
    """
    for schema in document["components"]["schemas"].values():
        if schema.get("x-clause-prefix") == prefix:
            return dict(schema)
    known = ", ".join(prefixes(document)) or "none"
    raise SpecError("spec/openapi.yaml", f"no schema has x-clause-prefix {prefix!r}", f"Known prefixes: {known}")


def rule_ids(document: dict[str, Any] | None = None) -> tuple[str, ...]:
    """The ids that the naming rule gives all field clauses of all request schemas, in the order of the document."""
    document = openapi() if document is None else document
    return tuple(
        place.rule_id(aspect)
        for prefix in prefixes(document)
        for place in walk(prefix, document)
        for aspect in place.aspects
    )


@cache
def said_elsewhere() -> Mapping[str, str]:
    """Ids by the naming rule (with an enum member in brackets where one is meant) and the rows that say it instead.

    Raises:
        SpecError: `field_clauses.yaml` is no mapping of ids.
    """
    path = HERE / "field_clauses.yaml"
    data = read_yaml(path)
    if not isinstance(data, dict) or not all(isinstance(item, str) for pair in data.items() for item in pair):
        raise SpecError(label(path), "is not a mapping of ids to ids", "Write `id by the rule: id of the row` lines")
    return MappingProxyType(data)


def without_null(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A schema without its null alternative, and whether it had one (or says nothing of types at all)."""
    types = schema.get("type")
    if isinstance(types, list) and "null" in types:
        left = [name for name in types if name != "null"]
        return {**schema, "type": left[0] if len(left) == 1 else left}, True
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if branches and {"type": "null"} in branches:
            rest = [branch for branch in branches if branch != {"type": "null"}]
            outer = {key: value for key, value in schema.items() if key != keyword}
            return ({**rest[0], **outer} if len(rest) == 1 else {**outer, keyword: rest}), True
    return schema, False


class _Walker:
    """One walk over one request schema."""

    def __init__(self, prefix: str, document: dict[str, Any]) -> None:
        self.prefix = prefix
        self.document = document

    def request(self, schema: dict[str, Any]) -> Iterator[Field]:
        """The request itself, then everything inside it."""
        top = Field(self.prefix, (), (), schema, (), required=True, nullable=False, types=frozenset({"object"}))
        yield _with(top, ("type", *_extra(schema)))
        yield from self._properties(top, schema)

    def _properties(self, parent: Field, schema: dict[str, Any]) -> Iterator[Field]:
        """Every property of an object that has clauses."""
        required = schema.get("required", ())
        for name, raw in schema.get("properties", {}).items():
            if raw.get("x-clauses") is False:
                continue
            yield from self._place(parent, schema, name, name, raw, required=name in required)

    def _place(
        self,
        parent: Field,
        container: dict[str, Any],
        segment: str,
        step: str | int,
        raw: dict[str, Any],
        *,
        required: bool,
    ) -> Iterator[Field]:
        """One property or item: the place itself, then what is inside it."""
        resolved = resolve(self.document, raw)
        if "const" in resolved:
            return  # the property a union's alternatives are told apart by; the union itself lists its values
        schema, nullable = without_null(resolved)
        schema = resolve(self.document, schema)
        variants = self._variants(schema)
        place = Field(
            self.prefix,
            (*parent.path, segment),
            (*parent.steps, step),
            schema,
            (*parent.chain, container),
            required=required,
            nullable=nullable,
            types=self.types(schema),
            variants=variants,
        )
        is_item = isinstance(step, int)
        aspects = self._aspects(place, is_item=is_item)
        if aspects:
            yield _with(place, aspects)
        yield from self._inside(place, schema, is_item=is_item)

    def _inside(self, place: Field, schema: dict[str, Any], *, is_item: bool) -> Iterator[Field]:
        """What is inside a place: alternatives, properties, items."""
        if place.variants:
            yield from self._union(place, schema, drop_segment=is_item)
        elif "object" in place.types:
            yield from self._properties(place, schema)
        if "array" in place.types and isinstance(schema.get("items"), dict):
            yield from self._place(place, schema, "item", 0, schema["items"], required=False)

    def _union(self, place: Field, schema: dict[str, Any], *, drop_segment: bool) -> Iterator[Field]:
        """The telling property of a union of objects, then each alternative under its own name."""
        path = place.path[:-1] if drop_segment else place.path
        teller = schema.get("x-told-apart-by")
        if teller:
            values = [_told(self.document, variant.schema, teller) for variant in place.variants]
            values = [value for value in values if value is not None]
            told = Field(
                self.prefix,
                (*path, teller),
                (*place.steps, teller),
                {"type": "string", "enum": values},
                (*place.chain, place.variants[0].schema),
                required=True,
                nullable=False,
                types=frozenset({"string"}),
                variants=place.variants,
                tells=True,
            )
            yield _with(told, ("type", "required", "enum"))
        for variant in place.variants:
            inner = Field(
                self.prefix, (*path, variant.segment), place.steps, variant.schema, place.chain,
                required=False, nullable=False, types=frozenset({"object"}),
            )  # fmt: skip
            extra = _extra(variant.schema)
            if extra:
                yield _with(inner, extra)
            yield from self._properties(inner, variant.schema)

    def _variants(self, schema: dict[str, Any]) -> tuple[Variant, ...]:
        """The alternatives of a union of objects; none where it is no such union."""
        branches = schema.get("oneOf") or schema.get("anyOf") or ()
        resolved = [resolve(self.document, branch) for branch in branches]
        return tuple(Variant(branch["x-clause-segment"], branch) for branch in resolved if "x-clause-segment" in branch)

    def types(self, schema: dict[str, Any]) -> frozenset[str]:
        """The JSON types a schema allows besides null; all of them where it says nothing."""
        branches = schema.get("oneOf") or schema.get("anyOf")
        if "type" in schema:
            names = schema["type"]
            return frozenset([names] if isinstance(names, str) else names) - {"null"}
        if branches:
            return frozenset().union(*(self.types(resolve(self.document, branch)) for branch in branches))
        if "enum" in schema:
            return frozenset({"string"})
        return frozenset(JSON_TYPES) - {"null"}

    def _aspects(self, place: Field, *, is_item: bool) -> tuple[Aspect, ...]:
        """The constraints of a place that the contract speaks of."""
        schema = place.schema
        skipped = set(schema.get("x-silent", ()))
        own: list[Aspect] = [aspect for keyword, aspect in _KEYWORDS.items() if self._has(schema, keyword)]
        if "array" in place.types and "items" in schema:
            own.append("item_type")
        if isinstance(schema.get("additionalProperties"), dict):
            own.append("value_type")
        if not is_item:
            typed: list[Aspect] = ["type"] if place.types != frozenset(JSON_TYPES) - {"null"} else []
            own = [*typed, "required" if place.required else "optional", "null", *own]
            if not schema.get("x-rewritten") and "properties" not in schema:  # an object arrives key by key
                own.append("forwarded")
        if "object" in place.types and not place.variants:
            own.extend(_extra(schema))
        return tuple(aspect for aspect in own if aspect not in skipped)

    def _has(self, schema: dict[str, Any], keyword: str) -> bool:
        """Whether a schema has a constraint; an enum may stand in an alternative."""
        if keyword == "enum":
            return any("enum" in branch for branch in self._plain(schema))
        return keyword in schema

    def _plain(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The schema itself and the alternatives of its union."""
        yield schema
        for branch in schema.get("oneOf") or schema.get("anyOf") or ():
            yield resolve(self.document, branch)


def _told(document: dict[str, Any], schema: dict[str, Any], teller: str) -> str | None:
    """The value that tells an alternative of a union from the others."""
    found = resolve(document, schema.get("properties", {}).get(teller, {})).get("const")
    return found if isinstance(found, str) else None


def _extra(schema: dict[str, Any]) -> tuple[Aspect, ...]:
    """The aspect of unknown keys, for objects whose unknown keys the document says are kept."""
    silent = "extra" in schema.get("x-silent", ())
    return ("extra",) if schema.get("additionalProperties") is True and not silent else ()


def _with(place: Field, aspects: tuple[Aspect, ...]) -> Field:
    """A place with its aspects filled in."""
    return replace(place, aspects=aspects)
