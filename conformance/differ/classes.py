"""Classes of disagreement: a name, the smallest case, the clauses about its places, and whether it is known."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from conformance.differ.requests import JSON_TYPE, ROUTES, Request, kind_of, ordinary_body
from conformance.harness.errors import UserError
from spec import clauses
from spec.fields import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.differ.compare import Difference, Observed

FOLDER = Path(__file__).parent / "known"


class Known(BaseModel):
    """A class that has been looked at: the clause that decides it, or why none does.

    `match` is a glob over names of classes, `favours` says whom the decision favours.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    clause: str = ""
    silent: str = ""
    favours: str = ""
    reason: str

    @model_validator(mode="after")
    def _decided(self) -> Known:
        if bool(self.clause) == bool(self.silent):
            raise ValueError("give either clause (the one that decides) or silent (why none does)")
        if self.clause and self.clause not in clauses():
            raise ValueError(f"no clause {self.clause!r} in spec/clauses/")
        return self


def load(file: Path) -> list[Known]:
    """Read a file of known classes.

    Raises:
        UserError: it is missing or broken.
    """
    try:
        rows = yaml.safe_load(file.read_text("utf-8")) or []
        return [Known(**row) for row in rows]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError, TypeError) as problem:
        raise UserError(f"{file}: no list of known classes: {problem}; docs/differ.md says how to write one") from None


@dataclass
class Class:
    """One class of disagreement, with its smallest case."""

    name: str
    difference: Difference
    request: Request
    left: Observed
    right: Observed
    clauses: list[str]
    count: int = 0
    known: Known | None = None
    seen_at: list[int] = field(default_factory=list)  # numbers of the first requests that showed it


def name_of(request: Request, difference: Difference) -> str:
    """The name of a class: route, what differs, and what is left of the request besides the ordinary one.

    A difference in what the worker got is named by its own place, because whatever caused it is there.
    """
    if difference.place:
        return f"{request.kind} {difference}"
    rest = ", ".join(places(request))
    return f"{request.kind} {difference}{f' [{rest}]' if rest else ''}"


def places(request: Request) -> list[str]:
    """What a request has that the ordinary one has not, or lacks: places in its body, headers, twist, answer."""
    ordinary = dict(_leaves(ordinary_body(request.kind)))
    own = dict(_leaves(request.body))
    found = [f"{place}={kind_of(value)}" for place, value in own.items() if ordinary.get(place) != value]
    found += [f"no {place}" for place in ordinary if place not in own and not any(_inside(place, each) for each in own)]
    found += [f"header {name}: {value}" for name, value in request.headers if (name, value) != JSON_TYPE]
    if JSON_TYPE[0] not in dict(request.headers):
        found.append("no header content-type")
    if request.twist:
        found.append(f"bytes: {request.twist}")
    if request.answer != "plain":
        found.append(f"answer: {request.answer}")
    return found


def _inside(place: str, outer: str) -> bool:
    return place.startswith((f"{outer}.", f"{outer}["))


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value without members of its own, by its place; items of an array share one."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, f"{place}[]")
    elif place:
        yield place, value


@cache
def _clauses_by_place() -> dict[str, dict[str, list[str]]]:
    """Field clauses by route and place, items written `[]`."""
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in ROUTES}
    for kind, by_place in found.items():
        for place in walk(kind):
            text = "".join("[]" if isinstance(step, int) else f".{step}" for step in place.steps).lstrip(".")
            ids = (place.clause_id(aspect) for aspect in place.aspects)
            by_place.setdefault(text, []).extend(each for each in ids if each in clauses())
    return found


def tags(request: Request, difference: Difference) -> list[str]:
    """Clauses about the places of a class: candidates for the one that decides."""
    by_place = _clauses_by_place()[request.kind]
    wanted = [difference.place] if difference.place else [each.partition("=")[0] for each in places(request)]
    found: list[str] = []
    for place in wanted:
        bare = place.removeprefix("no ")
        while bare and bare not in by_place:
            bare = bare.rpartition(".")[0]
        found += [each for each in by_place.get(bare, ()) if each not in found]
    return found[:12]


def decide(name: str, known: list[Known]) -> Known | None:
    """The first known class whose glob matches; brackets in names stand for themselves."""
    return next((each for each in known if fnmatch.fnmatchcase(name, each.match.replace("[", "[[]"))), None)
