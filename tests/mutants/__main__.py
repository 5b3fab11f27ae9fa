"""`python -m tests.mutants run | coverage | list`: the suite on trial (`docs/mutation.md`)."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness.errors import HarnessError
from tests.mutants import automatic, automatic_run, judge, named, named_run, trial, verdicts
from tests.mutants.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.trial import Subject

MODELS = Path("reports") / ".mutant-models"
AUTOMATIC_AT_ONCE = 12
SAMPLE_EVERY_NAMED, SAMPLE_EVERY_AUTOMATIC = 29, 53


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m tests.mutants", description="Try the suite with wrong gateways.")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="try mutants; exit 1 when one survives or a check kills nothing")
    run.add_argument("--names", metavar="GLOB", action="append", default=[], help="only mutants whose name matches")
    run.add_argument("--kind", choices=("named", "automatic", "both"), default="both")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, each with gateways of its own")
    run.add_argument("--sample", action="store_true", help="a fixed, spread sample of all mutants")
    scope = run.add_mutually_exclusive_group()
    scope.add_argument("--declared", dest="scope", action="store_const", const="declared", help="declared clauses only")
    scope.add_argument("--near", dest="scope", action="store_const", const="near", help="and what is near them")
    scope.add_argument("--all-checks", dest="scope", action="store_const", const="all", help="every written check")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    run.add_argument("--accept", action="store_true", help="write what the named mutants broke into matrix.json")
    run.set_defaults(scope="declared")
    commands.add_parser("coverage", help="which written clauses no mutant is said to break, as JSON")
    commands.add_parser("list", help="the named mutants with their vices")
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; exit status 1 for a failed trial, 2 for bad input."""
    options = parser().parse_args(words)
    try:
        if options.command == "list":
            for each in named.mutants().values():
                sys.stdout.write(f"{each.name}: {each.about}\n")
            return 0
        if options.command == "coverage":
            return coverage()
        return run(options)
    except (HarnessError, ValueError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 2


def coverage() -> int:
    """Print which clauses have a mutant and which have none; exit status 1 when some have none."""
    checks = judge.collect()
    clauses = verdicts.hand_written_clauses(checks)
    covered = {each for mutant in named.mutants().values() for each in named_run.declared(mutant, clauses)}
    left = sorted(clauses - covered)
    found = {"clauses": len(clauses), "with_mutant": len(clauses) - len(left), "without_mutant": left}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return int(bool(left))


def run(options: argparse.Namespace) -> int:
    """Try the mutants that were asked for."""
    began = time.monotonic()
    outcome = Outcome()

    def wanted(name: str) -> bool:
        return not options.names or any(fnmatch.fnmatchcase(name, glob) for glob in options.names)

    names = [name for name in named.mutants() if wanted(name)] if options.kind != "automatic" else []
    broken = [each for name, each in automatic.mutants().items() if wanted(name)] if options.kind != "named" else []
    if options.sample:
        names, broken = names[::SAMPLE_EVERY_NAMED], broken[::SAMPLE_EVERY_AUTOMATIC]
    if not names and not broken:
        raise ValueError(f"no mutant matches {options.names}; `python -m tests.mutants list` names them")
    if names:
        rows = named_run.run(names, options.scope, options.jobs, loud=True)
        if options.accept:
            named_run.accept(rows)
        verdicts.of_named(rows, judge.collect(), outcome, everything=len(names) == len(named.mutants()))
    if broken:
        subjects, hopeless = _automatic(broken, max(options.jobs, 2))
        verdicts.of_automatic(subjects, hopeless, outcome)
    took_s = time.monotonic() - began
    for line in verdicts.summary(outcome, took_s):
        sys.stdout.write(f"{line}\n")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        outcome.report |= {"seconds": round(took_s, 1), "problems": outcome.wrong}
        options.json.write_text(json.dumps(outcome.report, indent=1) + "\n", encoding="utf-8")
    return int(bool(outcome.wrong))


def _automatic(broken: Sequence[automatic.Automatic], processes: int) -> tuple[list[Subject], dict[str, str]]:
    """Try automatic mutants; returns the subjects, and those that could not be tried with the reason."""
    checks = {check.nodeid: check for check in judge.collect().values() if check.generated}
    prepared = automatic_run.prepare_all(broken, MODELS, min(processes, os.cpu_count() or 1))
    subjects, hopeless = [], {}
    for mutant, (file, found, why) in zip(broken, prepared, strict=True):
        if file is None:
            hopeless[mutant.name] = why
        else:
            subjects.append(automatic_run.subject(mutant, file, found, checks))
    asyncio.run(trial.run(subjects, loud=True, at_once=AUTOMATIC_AT_ONCE))
    return subjects, hopeless


if __name__ == "__main__":
    sys.exit(main())
