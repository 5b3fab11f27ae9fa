"""What is accepted, each with its reason (`reasons.yaml`): survivors, checks that kill nothing, and broad mutants."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REASONS = Path(__file__).parent / "reasons.yaml"


@dataclass
class Reasons:
    """What is accepted for now: globs with reasons, by kind (`automatic`, `named`, `checks`, `broad`)."""

    rows: Mapping[str, Sequence[Mapping[str, str]]]

    def why(self, kind: str, name: str) -> str:
        """The reason why something is accepted; empty when there is none."""
        return next((row["reason"] for row in self.rows.get(kind, ()) if fnmatch.fnmatchcase(name, row["match"])), "")


@cache
def reasons() -> Reasons:
    """The reasons file.

    Raises:
        ValueError: it has another form.
    """
    rows = yaml.safe_load(REASONS.read_text("utf-8"))
    kinds = {"automatic", "named", "checks", "broad"}
    if set(rows) != kinds or not all({"match", "reason"} == set(row) for kind in kinds for row in rows[kind]):
        raise ValueError(f"{REASONS}: expected the keys {', '.join(sorted(kinds))}, each a list of match and reason")
    return Reasons(rows)
