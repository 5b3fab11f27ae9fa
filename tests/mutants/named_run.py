"""The named mutants on trial: which checks each is tried with, and how the matrix compares with what was declared."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import multiprocessing
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.mutants import judge, named, trial
from tests.mutants.reasons import reasons
from tests.mutants.trial import Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutants.judge import Check
    from tests.mutants.vice import Mutant

MATRIX = Path(__file__).parent / "matrix.json"
Scope = Literal["declared", "near", "all"]
SAMPLE_EVERY = 40  # beyond its surroundings, a mutant is tried with one check in so many, always the same ones


@dataclass
class Row:
    """What one mutant did: checks that failed, clauses they judge, and what could not be judged."""

    name: str
    ran: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    unjudged: dict[str, str] = field(default_factory=dict)
    false: list[str] = field(default_factory=list)  # failed, but fail without any vice as well
    problem: str = ""


@cache
def matrix() -> Mapping[str, list[str]]:
    """The reviewed matrix: mutant → every clause it breaks."""
    found: dict[str, list[str]] = json.loads(MATRIX.read_text("utf-8")) if MATRIX.exists() else {}
    return found


def declared(mutant: Mutant, clauses: Iterable[str]) -> set[str]:
    """Every clause that a mutant is known to break: by the matrix, or, while it is not in there, its own patterns."""
    rows = matrix().get(mutant.name)
    return said(mutant, clauses) if rows is None else set(rows)


def said(mutant: Mutant, clauses: Iterable[str]) -> set[str]:
    """Every clause that a mutant's own patterns name."""
    return {each for each in clauses if any(fnmatch.fnmatch(each, glob) for glob in mutant.breaks)}


def chosen(mutant: Mutant, checks: Mapping[str, Check], scope: Scope) -> list[Check]:
    """The hand-written checks that a mutant is tried with."""
    written = [check for check in checks.values() if not check.generated]
    if scope == "all":
        return written
    clauses = {each for check in written for each in check.clauses}
    wanted = declared(mutant, clauses) | said(mutant, clauses)
    own = [check for check in written if wanted & set(check.clauses)]
    if scope == "declared":
        return own
    modules = {check.nodeid.partition("::")[0] for check in own}
    # The declared checks, one case of every other function of their modules, and a thin sample of everything else.
    seen = {check.written for check in own}
    near = []
    for check in written:
        if check in own or (check.nodeid.partition("::")[0] in modules and check.written not in seen):
            near.append(check)
            seen.add(check.written)
        elif zlib.crc32(check.nodeid.encode()) % SAMPLE_EVERY == 0:
            near.append(check)
    return near


def run(names: Sequence[str], scope: Scope, jobs: int, *, loud: bool = False) -> list[Row]:
    """Try mutants, in `jobs` processes with a hive each."""
    if jobs <= 1:
        return _shard(names, scope, loud=loud)
    pieces = [names[index::jobs] for index in range(jobs)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_shard, piece, scope, loud=loud) for piece in pieces if piece]
        return [row for future in futures for row in future.result()]


def _shard(names: Sequence[str], scope: Scope, *, loud: bool) -> list[Row]:
    """Try mutants in this process; a check that also fails without any mutant counts for none."""
    checks = judge.collect()
    mutants = named.mutants()
    subjects = [
        Subject(name, {"named": name}, chosen(mutants[name], checks, scope), alone=mutants[name].alone)
        for name in names
    ]
    asyncio.run(trial.run(subjects, loud=loud))
    false = asyncio.run(trial.confirm(subjects, loud=loud))
    return [_row(subject, false) for subject in subjects]


def _row(subject: Subject, false: set[str]) -> Row:
    failed = [check for check in subject.failed if check.nodeid not in false]
    shapes = {clause for verdict in subject.verdicts.values() for clause in verdict.shapes}
    killed = sorted(shapes | {clause for check in failed for clause in check.clauses})
    return Row(
        subject.name,
        sorted(subject.verdicts),
        sorted(check.nodeid for check in failed),
        killed,
        subject.unjudged,
        sorted(check.nodeid for check in subject.failed if check.nodeid in false),
        subject.problem,
    )


def accept(rows: Iterable[Row]) -> None:
    """Write what was seen into the matrix; what it says of mutants that were not run stays, of unknown ones goes.

    Of a broad mutant only the clauses it is about are written down: what else it breaks is nearly everything.
    """
    known = named.mutants()
    merged = {name: list(clauses) for name, clauses in matrix().items() if name in known}
    for row in rows:
        if not row.problem:
            broad = reasons().why("broad", row.name)
            merged[row.name] = sorted(said(known[row.name], row.killed)) if broad else row.killed
    lines = [f"{json.dumps(name)}: {json.dumps(merged[name])}" for name in sorted(merged)]
    MATRIX.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    matrix.cache_clear()
