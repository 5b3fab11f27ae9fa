"""What a run of mutants says: score, survivors, what is too wide, checks that kill nothing; as data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.mutants import named
from tests.mutants.named_run import declared
from tests.mutants.reasons import reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.mutants.judge import Check
    from tests.mutants.named_run import Row
    from tests.mutants.reasons import Reasons
    from tests.mutants.trial import Subject


@dataclass
class Outcome:
    """The verdicts of a run. `wrong` is what fails it."""

    report: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def of_named(rows: Sequence[Row], checks: Mapping[str, Check], outcome: Outcome, *, everything: bool) -> None:
    """Add the verdicts about named mutants. `everything`: all mutants ran, so checks that kill nothing can be told."""
    accepted = reasons()
    mutants = named.mutants()
    clauses = hand_written_clauses(checks)
    survived: dict[str, list[str]] = {}
    too_wide: dict[str, list[str]] = {}
    for row in rows:
        wanted = declared(mutants[row.name], clauses)
        if missing := sorted(wanted - set(row.killed)):
            survived[row.name] = missing
        if (extra := sorted(set(row.killed) - wanted)) and not accepted.why("broad", row.name):
            too_wide[row.name] = extra
        if row.problem:
            outcome.wrong.append(f"mutant {row.name} could not be tried: {row.problem[:200]}")
    for kind, found in (("survived", survived), ("too wide", too_wide)):
        for name, ids in found.items():
            why = accepted.why("named", name)
            outcome.lines.append(
                f"{kind}: {name}: {', '.join(ids[:6])}{' …' if len(ids) > 6 else ''} {why and f'({why})'}"
            )
            if not why:
                outcome.wrong.append(f"named mutant {name}: {kind}")
    exact = sum(row.name not in survived and row.name not in too_wide and not row.problem for row in rows)
    outcome.report["named"] = {
        "mutants": len(rows), "as_declared": exact, "survived": survived, "too_wide": too_wide,
        "unjudged": {row.name: row.unjudged for row in rows if row.unjudged},
        "kills": {row.name: row.failed for row in rows},
    }  # fmt: skip
    for nodeid in sorted({nodeid for row in rows for nodeid in row.false}):
        outcome.lines.append(f"fails without a mutant: {nodeid}")
        outcome.wrong.append(f"check {nodeid} fails without a mutant")
    killing = {nodeid for row in rows for nodeid in row.failed}
    if everything:
        _checks(killing, rows, checks, outcome, accepted)


def _checks(
    killing: set[str], rows: Sequence[Row], checks: Mapping[str, Check], outcome: Outcome, accepted: Reasons
) -> None:
    """Which checks and clauses no mutant can fail."""
    written = [check for check in checks.values() if not check.generated]
    killers = {checks[nodeid].written for nodeid in killing}
    idle = sorted({check.written for check in written} - killers)
    shapes = {clause for row in rows for clause in row.killed}
    broken = shapes | {clause for nodeid in killing for clause in checks[nodeid].clauses}
    left = sorted(hand_written_clauses(checks) - broken)
    idle_cases = sorted(check.nodeid for check in written if check.nodeid not in killing)
    outcome.report["checks"] = {
        "functions": len({check.written for check in written}), "cases": len(written), "kill_nothing": idle,
        "cases_that_kill_nothing": idle_cases,
    }  # fmt: skip
    outcome.report["clauses"] = {"hand_written": len(hand_written_clauses(checks)), "without_mutant": left}
    for each in idle:
        why = accepted.why("checks", each)
        outcome.lines.append(f"kills nothing: {each} {why and f'({why})'}")
        if not why:
            outcome.wrong.append(f"check {each} kills nothing")


def of_automatic(subjects: Sequence[Subject], hopeless: Mapping[str, str], outcome: Outcome) -> None:
    """Add the verdicts about automatic mutants; `hopeless` are those that could not be tried, and why."""
    accepted = reasons()
    survived = {subject.name: subject.problem or "every case passed" for subject in subjects if not subject.failed}
    survived |= dict(hopeless)
    explained = {name: why for name in survived if (why := accepted.why("automatic", name))}
    total = len(subjects) + len(hopeless)
    killed = total - len(survived)
    outcome.report["automatic"] = {
        "mutants": total, "killed": killed, "score": round(killed / total, 4) if total else 1.0,
        "survived": {name: {"seen": seen, "reason": explained.get(name, "")} for name, seen in survived.items()},
    }  # fmt: skip
    for name, seen in survived.items():
        if name not in explained:
            outcome.lines.append(f"survived: {name}: {seen}")
            outcome.wrong.append(f"automatic mutant {name} survived")


def hand_written_clauses(checks: Mapping[str, Check]) -> set[str]:
    """The clauses that a check written by hand judges."""
    return {clause for check in checks.values() if not check.generated for clause in check.clauses}


def summary(outcome: Outcome, took_s: float) -> Iterable[str]:
    """The last lines of a run."""
    yield from outcome.lines
    if found := outcome.report.get("named"):
        yield f"named: {found['as_declared']} of {found['mutants']} exactly as declared"
    if found := outcome.report.get("automatic"):
        yield f"automatic: {found['killed']} of {found['mutants']} killed ({100 * found['score']:.1f} %)"
    if found := outcome.report.get("checks"):
        idle, left = len(found["kill_nothing"]), outcome.report["clauses"]
        yield f"checks: {idle} of {found['functions']} functions kill nothing"
        covered = left["hand_written"] - len(left["without_mutant"])
        yield f"clauses: {covered} of {left['hand_written']} hand-written have a mutant"
    yield f"time: {took_s:.0f} s; {'fine' if not outcome.wrong else f'{len(outcome.wrong)} problem(s)'}"
