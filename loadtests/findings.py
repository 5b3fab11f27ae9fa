"""What a run has shown about clauses.

A clause that was owed and never observed is a failure of its own: nothing passes for want of an occasion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from spec import clauses

State = Literal["passed", "failed", "unshown", "deviating"]
MOST_EVIDENCE = 5
_VARYING = re.compile(r"igc-[0-9a-f]{16}|\d+\.\d+")


def _masked(found: re.Match[str]) -> str:
    return "MARKER" if found.group().startswith("igc-") else "N"


@dataclass
class Finding:
    """What is known of one clause.

    `evidence` are the first failures in full, `shapes` every way in which it failed: markers and measured numbers are
    left out of them. `excuse` is why that was declared.
    """

    clause: str
    text: str
    checked: int = 0
    failed: int = 0
    owed: str = ""
    evidence: list[str] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)
    excuse: str = ""

    @property
    def state(self) -> State:
        """The verdict."""
        if self.failed or (self.owed and not self.checked):
            return "deviating" if self.excuse else "failed" if self.failed else "unshown"
        return "passed"

    @property
    def why(self) -> str:
        """What was seen first, or not seen."""
        return self.evidence[0] if self.failed and self.evidence else f"not shown: {self.owed}"

    @property
    def fingerprints(self) -> set[str]:
        """How it fails, for declared deviations: each of these must have been declared."""
        return self.shapes or {self.why}


class Findings:
    """Findings by clause; a judge says `hold(clause, truth, what was seen)` for each observation that decides one."""

    def __init__(self) -> None:
        self.by_clause: dict[str, Finding] = {}

    def _of(self, clause: str) -> Finding:
        if clause not in self.by_clause:
            self.by_clause[clause] = Finding(clause, clauses()[clause].text)
        return self.by_clause[clause]

    def owe(self, *ids: str, occasion: str = "no exchange was observed that decides it") -> None:
        """Demand that these clauses are decided at least once; `occasion` says what was missing if not."""
        for clause in ids:
            self._of(clause).owed = occasion

    def hold(self, clause: str, truth: object, seen: str = "") -> bool:
        """Count an observation for or against a clause; returns the truth."""
        finding = self._of(clause)
        finding.checked += 1
        if not truth:
            finding.failed += 1
            finding.shapes.add(_VARYING.sub(_masked, seen))
            if len(finding.evidence) < MOST_EVIDENCE:
                finding.evidence.append(seen)
        return bool(truth)

    def all(self) -> list[Finding]:
        """All findings, in the order of their clauses' names."""
        return [self.by_clause[name] for name in sorted(self.by_clause)]

    @property
    def bad(self) -> list[Finding]:
        """What makes the run fail."""
        return [each for each in self.all() if each.state in {"failed", "unshown"}]
