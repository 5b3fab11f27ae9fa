"""Thresholds: limits of figures, from a TOML file with a table a scenario."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.harness.errors import UserError
from loadtests import figures, scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).parent / "thresholds.toml"
GENERATOR = "max_late_share"
TABLES = ("generator", "default", *scenarios.NAMES)


@dataclass(frozen=True)
class Threshold:
    """A limit of one figure."""

    name: str
    flow: str  # empty: all of them together
    figure: str
    at_most: bool
    limit: float

    def broken(self, value: float | None) -> str:
        """What to say when the value is beyond the limit, or missing; empty when it is within."""
        word = "at most" if self.at_most else "at least"
        if value is None:
            return f"{self.figure} was not measured, {word} {self.limit:g} is allowed"
        beyond = value > self.limit if self.at_most else value < self.limit
        return f"{self.figure} is {value:g}, {word} {self.limit:g} is allowed" if beyond else ""


@dataclass(frozen=True)
class Thresholds:
    """The limits of one scenario."""

    max_late_share: float
    limits: tuple[Threshold, ...]


def load(file: Path, scenario: str) -> Thresholds:
    """Read a file for a scenario; UserError names file, table, key and what would be right. All tables are checked."""
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{file}: the thresholds cannot be read ({problem}); give a readable TOML file") from problem
    except tomllib.TOMLDecodeError as problem:
        raise UserError(f"{file}: not TOML ({problem}); loadtests/thresholds.toml shows how it looks") from problem
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            raise UserError(f"{file}: no table [{name}] is known; there are {', '.join(TABLES)}")
    share = _number(file, "generator", GENERATOR, tables.get("generator", {}).get(GENERATOR, 0.5))
    if share <= 0:
        raise UserError(f"{file}: [generator] {GENERATOR} = {share:g} must be above 0")
    if unknown := sorted(set(tables.get("generator", {})) - {GENERATOR}):
        raise UserError(f"{file}: [generator] knows no {unknown[0]!r}, only {GENERATOR}")
    read = {name: _table(file, name, tables.get(name, {})) for name in TABLES[1:]}
    return Thresholds(share, tuple({**read["default"], **read[scenario]}.values()))


def _table(file: Path, name: str, table: Mapping[str, Any]) -> dict[str, Threshold]:
    found = {}
    for key, value in table.items():
        flow, _, rest = key.rpartition(".")
        figure, _, word = rest.rpartition("_")
        flows = [each.name for each in scenarios.load(name).flows] if name in scenarios.NAMES else []
        if flow and flow not in flows:
            raise UserError(f"{file}: [{name}] {key}: no flow {flow!r}; there are {', '.join(flows) or 'none here'}")
        if word not in {"max", "min"} or figure not in figures.NAMES:
            close = [known for known in figures.NAMES if known.startswith(rest.split("_")[0])] or list(figures.NAMES)
            raise UserError(
                f"{file}: [{name}] {key}: no such threshold; a threshold is a figure and _max or _min, "
                f"and the figures are {', '.join(close)}"
            )
        found[key] = Threshold(f"{name}.{key}", flow, figure, word == "max", _number(file, name, key, value))
    return found


def _number(file: Path, table: str, key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UserError(f"{file}: [{table}] {key} = {value!r} must be a number")
    return float(value)
