"""The page that maps sentences to clauses names clauses that exist."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import spec

PAGE = Path(__file__).resolve().parents[2] / "docs" / "admission-clauses.md"


def test_every_pattern_matches_a_clause() -> None:
    """Each clause pattern of the two tables that name clauses matches at least one row."""
    judged = PAGE.read_text(encoding="utf-8").partition("## What is not judged")[0]
    cells = [line.rsplit("|", 2)[1] for line in judged.splitlines() if line.startswith("| ")]
    patterns = {pattern for cell in cells for pattern in re.findall(r"`([a-z0-9_.*]+)`", cell)}
    assert len(patterns) > 50
    ids = list(spec.clauses())
    assert [each for each in sorted(patterns) if not fnmatch.filter(ids, each)] == []


def test_every_admission_row_is_on_the_page() -> None:
    """No row of the files about admission, credentials and retries is left out."""
    text = PAGE.read_text(encoding="utf-8").partition("## What is not judged")[0]
    patterns = re.findall(r"`([a-z0-9_.*]+)`", text)
    begin = ("admission.", "auth.", "rate_limiting.", "retries.")
    mine = [each for each in spec.clauses() if each.startswith(begin)]
    assert len(mine) > 200
    assert [each for each in mine if not any(fnmatch.fnmatchcase(each, pattern) for pattern in patterns)] == []
