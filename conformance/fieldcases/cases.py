"""From places and aspects to cases."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from conformance.fieldcases import values
from conformance.fieldcases.bodies import LEAVE, Bodies, Leave
from conformance.fieldcases.case import Arrival, Case
from conformance.fieldcases.samples import UNKNOWN_KEY, UNKNOWN_VALUE, Samples
from spec import openapi
from spec.fields import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spec.fields import Aspect, Field

LABEL_LENGTH = 40


def cases(prefix: str, document: dict[str, Any] | None = None) -> tuple[Case, ...]:
    """Every case of one request body, in the order of the document; names are unique.

    Args:
        prefix: `chat`, `completions` or `embeddings`.
        document: another OpenAPI document (mutants); the package's own when left out.
    """
    return _own(prefix) if document is None else tuple(_Cases(prefix, document).all())


@cache
def _own(prefix: str) -> tuple[Case, ...]:
    """The cases of the package's own document; made once."""
    return tuple(_Cases(prefix, openapi()).all())


class _Cases:
    """The cases of one request schema."""

    def __init__(self, prefix: str, document: dict[str, Any]) -> None:
        self.prefix = prefix
        self.samples = Samples(document)
        self.bodies = Bodies(prefix, self.samples)

    def all(self) -> Iterator[Case]:
        """Every case, place by place, aspect by aspect."""
        seen: set[str] = set()
        for place in walk(self.prefix, self.samples.document):
            for aspect in place.aspects:
                for case in self.of(place, aspect):
                    if case.name in seen:
                        raise ValueError(f"two cases are called {case.name}")
                    seen.add(case.name)
                    yield case

    def of(self, place: Field, aspect: Aspect) -> Iterator[Case]:
        """The cases of one aspect of one place."""
        if aspect == "extra":
            yield self._extra(place)
        elif aspect == "null":
            yield self._null(place)
        elif aspect == "required":
            yield self._refused(place, aspect, "absent", LEAVE, self._good(place))
        elif aspect == "optional":
            yield self._accepted(place, aspect, "absent", LEAVE, arrival=None)
        elif aspect == "enum":
            yield from self._enum(place)
        else:
            good = self._good(place)
            for label, value in values.accepted(place, aspect, self.samples):
                yield self._accepted(place, aspect, label, value, arrival=self._arrives(place, aspect, value))
            for label, value in values.refused(place, aspect, self.samples):
                yield self._refused(place, aspect, label, value, values.twin(place, aspect, self.samples, good))

    def _good(self, place: Field) -> Any:
        """A valid value for a place."""
        if not place.steps:
            return self.bodies.base()
        if place.tells:
            return place.schema["enum"][0]
        return copy.deepcopy(self.samples.example(place.schema))

    def _null(self, place: Field) -> Case:
        """Null is accepted or refused, as the document says."""
        if not place.nullable:
            return self._refused(place, "null", "null", None, self._good(place))
        return self._accepted(place, "null", "null", None, arrival=None)  # what the worker then gets is not said

    def _extra(self, place: Field) -> Case:
        """A valid object with one key more, which must arrive."""
        members = dict(self._good(place))
        body, at = self.bodies.around(place, {**members, UNKNOWN_KEY: UNKNOWN_VALUE})
        return Case(
            name=f"{place.rule_id('extra')}[{UNKNOWN_KEY}]",
            clause_id=place.clause_id("extra"),
            description=f"an unknown key in {_where(place)} reaches the worker as sent",
            path=self.bodies.path,
            body=body,
            expect="accepted",
            arrival=Arrival(inside=at, names=(UNKNOWN_KEY,), value=UNKNOWN_VALUE, digits=True),
        )

    def _enum(self, place: Field) -> Iterator[Case]:
        """Each member is accepted, and what is no member is refused."""
        if place.tells:
            yield from self._told(place)
            return
        members = values.enum_members(place.schema, self.samples.document)
        for member in members:
            arrival = self._arrives(place, "enum", member)
            yield self._accepted(place, "enum", member, member, arrival=arrival, member=member)
        for outsider in values.outsiders(members):
            yield self._refused(place, "enum", outsider, outsider, members[0])

    def _told(self, place: Field) -> Iterator[Case]:
        """As `_enum`, where the members tell alternatives apart: each comes with an example of its alternative."""
        for variant, member in zip(place.variants, place.schema["enum"], strict=False):
            whole = copy.deepcopy(self.samples.example(variant.schema))
            union = _union_of(place, variant.schema)
            body, at = self.bodies.around(union, whole)
            yield Case(
                name=f"{place.rule_id('enum')}[{member}]",
                clause_id=place.clause_id("enum", member),
                description=f"{_where(place)} may be {member}",
                path=self.bodies.path,
                body=body,
                expect="accepted",
                arrival=Arrival(inside=at, names=(place.steps[-1],), value=member),
            )
        for outsider in values.outsiders(place.schema["enum"]):
            yield self._refused(place, "enum", outsider, outsider, place.schema["enum"][0])

    def _arrives(self, place: Field, aspect: Aspect, value: Any) -> Any:
        """The value that the worker must find; None where another clause says what becomes of it."""
        if not place.steps or (place.schema.get("x-rewritten") and "x-arrives-as" not in place.schema):
            return None
        if place.schema.get("x-numbers-become-text") and aspect == "type" and not isinstance(value, str):
            return None
        return value

    def _accepted(
        self, place: Field, aspect: Aspect, label: str, value: Any, *, arrival: Any, member: str | None = None
    ) -> Case:
        """A case with a value that must be accepted."""
        body, at = self.bodies.around(place, value)
        arrives = None
        if arrival is not None and at:
            names = tuple(place.schema.get("x-arrives-as", (at[-1],)))
            arrives = Arrival(inside=at[:-1], names=names, value=arrival, digits=aspect == "forwarded")
        what = "left out" if isinstance(value, Leave) else _short(value)
        return Case(
            name=f"{place.rule_id(aspect)}[{label}]",
            clause_id=place.clause_id(aspect, member),
            description=f"{_where(place)} {what} is accepted",
            path=self.bodies.path,
            body=body,
            expect="accepted",
            arrival=arrives,
        )

    def _refused(self, place: Field, aspect: Aspect, label: str, value: Any, good: Any) -> Case:
        """A case with a value that must be refused, and its twin."""
        body, _ = self.bodies.around(place, value)
        twin, _ = self.bodies.around(place, good)
        what = "left out" if isinstance(value, Leave) else _short(value)
        return Case(
            name=f"{place.rule_id(aspect)}[{label}]",
            clause_id=place.clause_id(aspect),
            description=f"{_where(place)} {what} is refused",
            path=self.bodies.path,
            body=body,
            expect="refused",
            twin=twin,
        )


def _union_of(place: Field, variant: dict[str, Any]) -> Field:
    """The place of the union that `place` tells the alternatives of, as one alternative sees it."""
    return replace(place, path=place.path[:-1], steps=place.steps[:-1], chain=place.chain[:-1], schema=variant)


def _where(place: Field) -> str:
    """A place as descriptions name it."""
    return ".".join(place.path) or "the body"


def _short(value: Any) -> str:
    """A value as descriptions show it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LABEL_LENGTH else f"{text[: LABEL_LENGTH - 1]}…"
