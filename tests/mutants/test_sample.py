"""A sample of `make mutation` in every run of the tests, and the sayings of the mutants about themselves."""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from spec import clauses, openapi
from tests.mutants import automatic, judge, named, named_run, verdicts
from tests.mutants.reasons import reasons
from tests.support import running

if TYPE_CHECKING:
    from pathlib import Path

BOUND_S = 240


def _run(*words: str, report: Path) -> tuple[int, dict[str, Any], str]:
    """Run the command; exit status, report, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", "run", *words, "--json", str(report)],
        capture_output=True, text=True, check=False, timeout=BOUND_S,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert report.exists(), said
    return done.returncode, json.loads(report.read_text("utf-8")), said


@pytest.mark.timeout(BOUND_S + 20)
def test_a_sample_of_named_mutants_is_noticed(tmp_path: Path) -> None:
    """Each mutant of the sample breaks what it is said to break, and nothing else of that."""
    status, report, said = _run("--kind", "named", "--sample", report=tmp_path / "report.json")
    assert status == 0, said
    assert report["named"]["mutants"] >= 20


@pytest.mark.timeout(BOUND_S + 20)
def test_a_sample_of_automatic_mutants_is_noticed(tmp_path: Path) -> None:
    """Each broken constraint of the sample is noticed by a check of that field."""
    status, report, said = _run("--kind", "automatic", "--sample", report=tmp_path / "report.json")
    assert status == 0, said
    assert report["automatic"]["mutants"] >= 15


def test_every_place_exists() -> None:
    """Each function that a mutant replaces is there: without one of them no mutant could be tried."""
    hive = subprocess.run(
        [sys.executable, "-m", "tests.mutants.hive"],
        input="", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert hive.returncode == 0, hive.stderr[-600:]


def test_a_mutant_runs_as_a_program() -> None:
    """A mutant takes the reference server's flags and prints its ready line."""
    with running(
        [
            sys.executable,
            "-m",
            "tests.mutants.serve",
            "lists_aliases",
            "launch",
            "--port",
            "0",
            "--prometheus-port",
            "0",
        ]
    ) as ready:
        assert ready["ready"]
        assert ready["url"].startswith("http://127.0.0.1:")


def test_an_unknown_mutant_is_told() -> None:
    """A name that no mutant has ends with status 2 and says how to find the names."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.serve", "is_perfect"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert "python -m tests.mutants list" in done.stderr


def test_every_pattern_of_a_mutant_means_a_clause() -> None:
    """What a mutant says to break are clauses."""
    known = list(clauses())
    lost = [
        (mutant.name, glob)
        for mutant in named.mutants().values()
        for glob in mutant.breaks
        if not fnmatch.filter(known, glob)
    ]
    assert lost == []


def test_the_matrix_is_about_what_the_mutants_say() -> None:
    """Every pattern of a mutant is met by a clause that it was seen to break, and the matrix knows no other mutants."""
    rows = named_run.matrix()
    mutants = named.mutants()
    assert set(rows) == set(mutants)
    unmet = [
        (name, glob)
        for name, mutant in mutants.items()
        for glob in mutant.breaks
        if not fnmatch.filter(rows[name], glob)
    ]
    assert unmet == []


def test_every_written_clause_has_a_mutant() -> None:
    """Each clause that a check written by hand judges is broken by a named mutant, by what the matrix says."""
    broken = {clause for row in named_run.matrix().values() for clause in row}
    assert verdicts.hand_written_clauses(judge.collect()) - broken == set()


def test_automatic_mutants_have_names_of_their_own() -> None:
    """There are hundreds, each under one name, and each changes the document."""
    found = automatic.mutants()
    assert len(found) > 500
    some = next(iter(found.values()))
    assert some.document()["components"]["schemas"] != openapi()["components"]["schemas"]


def test_every_accepted_exception_has_its_reason() -> None:
    """The file of reasons has the right form, and says something each time."""
    rows = reasons().rows
    assert all(len(row["reason"]) > 20 for kind in rows.values() for row in kind)


def test_every_broad_mutant_is_one() -> None:
    """What is called broad is a named mutant, and its row in the matrix holds what it is about and nothing else."""
    known = named.mutants()
    for row in reasons().rows["broad"]:
        broken = set(named_run.matrix()[row["match"]])
        assert broken == named_run.said(known[row["match"]], broken)
