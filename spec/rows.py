"""Clause rows: one normative sentence each, read from `spec/clauses/*.yaml`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from jsonschema import Draft202012Validator

from spec.features import features
from spec.loading import HERE, SpecError, label, read_text, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Level = Literal["must", "should", "may"]
Revision = Literal["earlier", "1.12", "1.13"]
REVISIONS: tuple[Revision, ...] = ("earlier", "1.12", "1.13")
"""Revisions of the contract, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One normative sentence of the contract, with the attributes of its row.

    `source` is the name of the file that holds the row (`chat_fields.yaml`); everything else is the row itself,
    its defaults filled in.
    """

    id: str
    text: str
    section: str
    level: Level
    feature: str
    since: Revision
    source: str
    until: Revision | None = None
    workers: tuple[str, ...] = ("http", "grpc")
    configuration: str = "default"
    keyless: bool = False
    untestable: str | None = None
    awaits: str | None = None
    reading: str | None = None

    @property
    def checkable(self) -> bool:
        """Whether a check is owed: the row names no reason why there is none."""
        return self.untestable is None and self.awaits is None

    def applies(self, revision: Revision) -> bool:
        """Whether the sentence belongs to a revision of the contract (`since` included, `until` excluded)."""
        at = REVISIONS.index(revision)
        return REVISIONS.index(self.since) <= at and (self.until is None or at < REVISIONS.index(self.until))


def clauses(directory: Path | None = None) -> Mapping[str, Clause]:
    """Every clause by its id, in the order of the files' names and of the rows in them; read once.

    Args:
        directory: another directory of row files (tests); the package's own when left out.

    Raises:
        SpecError: a row breaks `clause.schema.json`, names an unknown feature, or repeats an id.
    """
    return _read((directory or HERE / "clauses").resolve())


@cache
def _read(directory: Path) -> Mapping[str, Clause]:
    """The rows of a directory; read once."""
    rows: dict[str, Clause] = {}
    for path in sorted(directory.glob("*.yaml")):
        for clause in _rows(path):
            if clause.id in rows:
                raise SpecError(
                    f"{label(path)}, row {clause.id!r}",
                    f"the id is already used in {rows[clause.id].source}",
                    "Give one of the two rows an id of its own, or drop the double",
                )
            rows[clause.id] = clause
    if not rows:
        raise SpecError(label(directory), "holds no clause rows", "Restore the files from version control")
    return MappingProxyType(rows)


@cache
def _validator() -> Draft202012Validator:
    """The schema of row files, ready for use."""
    return Draft202012Validator(json.loads(read_text(HERE / "clause.schema.json")))


def _rows(path: Path) -> list[Clause]:
    """The rows of one file, checked."""
    data = read_yaml(path)
    problem = next(
        iter(sorted(_validator().iter_errors(data), key=lambda error: list(map(str, error.absolute_path)))), None
    )
    if problem is not None:
        where, field = _place(path, data, list(problem.absolute_path))
        remedy = problem.schema.get("description", "") if isinstance(problem.schema, dict) else ""
        raise SpecError(where, f"{field}{problem.message[:300]}", remedy or "spec/clause.schema.json describes a row")
    return [_clause(path, row) for row in data]


def _place(path: Path, data: Any, at: list[Any]) -> tuple[str, str]:
    """Where a problem sits, as a reader looks for it: the row's id rather than its number, and the key in it."""
    if not at:
        return label(path), ""
    row = data[at[0]]
    name = repr(row["id"]) if isinstance(row, dict) and isinstance(row.get("id"), str) else f"number {at[0] + 1}"
    return f"{label(path)}, row {name}", f"{'.'.join(map(str, at[1:]))}: " if at[1:] else ""


def _clause(path: Path, row: dict[str, Any]) -> Clause:
    """One row as a clause, its feature checked."""
    if row["feature"] not in features():
        raise SpecError(
            f"{label(path)}, row {row['id']!r}",
            f"unknown feature {row['feature']!r}",
            f"Use one of {', '.join(features())}, or add the new one to spec/features.yaml",
        )
    if "workers" in row:
        row = row | {"workers": tuple(row["workers"])}
    return Clause(source=path.name, **row)
