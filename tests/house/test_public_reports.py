"""The table of public reports is true: everything it names exists."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spec import clauses

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "public-reports.md"
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+\Z")
NAMED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One report: where it is, what happened, what covers it, what is left for later."""

    report: str
    symptom: str
    covered: tuple[str, ...]
    later: str


@cache
def rows() -> tuple[Row, ...]:
    """The rows of the table."""
    found = []
    for line in TABLE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == 4 and "#" in cells[0]:
            found.append(Row(cells[0], cells[1], tuple(NAMED.findall(cells[2])), cells[3]))
    return tuple(found)


def test_every_report_has_one_row() -> None:
    """All 73 reports are in the table, each with a repository, a number and a symptom."""
    assert len(rows()) == 73
    assert len({row.report for row in rows()}) == 73
    assert [row.report for row in rows() if not REPORT.match(row.report) or len(row.symptom) < 20] == []


def test_every_report_is_covered_or_belongs_to_a_later_issue() -> None:
    """A row that names neither clause nor test says which issue it waits for."""
    waiting = re.compile(r"(admission|gRPC|realtime|audio) issue|load tests")
    assert [row.report for row in rows() if not row.covered and not waiting.search(row.later)] == []


def test_every_clause_named_exists() -> None:
    """Clause ids in the table are rows of the contract."""
    named = {each for row in rows() for each in row.covered if "/" not in each}
    assert named - clauses().keys() == set()
    assert len(named) > 100


def test_every_clause_named_is_judged() -> None:
    """A clause in the table has a check, or it waits for something and the row says so too."""
    listed = subprocess.run(
        [sys.executable, "-m", "conformance", "clauses", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    judged = {clause["id"]: clause["checks"] for clause in json.loads(listed.stdout)}
    idle = [
        f"{row.report}: {each}"
        for row in rows()
        for each in row.covered
        if "/" not in each and not judged[each] and not (clauses()[each].awaits and row.later)
    ]
    assert idle == []


def test_every_test_named_exists() -> None:
    """Paths in the table lead to test functions."""
    lost = []
    for row in rows():
        for each in row.covered:
            if "/" in each:
                path, _, name = each.partition("::")
                if name not in _functions(path):
                    lost.append(each)
    assert lost == []


@cache
def _functions(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
