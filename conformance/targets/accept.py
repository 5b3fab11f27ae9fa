"""`python -m conformance accept`: failures of a report become declared deviations, after somebody has looked at them.

Entries are appended to the target's file, one for each clause, with every fingerprint its failing checks showed; what
is in the file already stays as it is, comments included.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from conformance.harness.errors import UserError
from conformance.targets import deviations

if TYPE_CHECKING:
    import argparse

ACCEPTED_DAYS = 180


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--report", metavar="FILE", type=Path, required=True, help="report.json of the run")
    parser.add_argument(
        "--reason", metavar="TEXT", required=True, help="why the gateway does what it does, in one sentence"
    )
    parser.add_argument("--clauses", metavar="GLOB", action="append", default=[], help="only failures of these clauses")
    parser.add_argument("--fingerprint", metavar="GLOB", default="*", help="only failures that fail like this")
    parser.add_argument(
        "--expires", metavar="DATE", type=_date, help=f"until when (default: {ACCEPTED_DAYS} days from now)"
    )
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="deviations file (default: the one of the report's target)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the entries, write nothing")


def _date(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


def run(options: argparse.Namespace) -> int:
    """Append entries for the selected failures; returns the exit status."""
    report = _read(options.report)
    expires = options.expires or dt.datetime.now(tz=dt.UTC).date() + dt.timedelta(days=ACCEPTED_DAYS)
    target = report["target"]
    name = f"{target['name']}-{target['version']}.yaml" if target["version"] else f"{target['name']}.yaml"
    file: Path = options.file or deviations.FOLDER / name
    declared = deviations.load(file)  # a broken file is told before anything is added to it
    failures = [
        check
        for check in report["checks"]
        if check["verdict"] == "failed"
        and check["clauses"]
        and fnmatch.fnmatchcase(check["fingerprint"], options.fingerprint)
        and (not options.clauses or any(fnmatch.fnmatch(c, g) for c in check["clauses"] for g in options.clauses))
    ]
    if not failures:
        raise UserError(f"{options.report}: no failed check matches; nothing to accept")
    text = yaml.safe_dump(
        entries(failures, options.reason, str(target["version"] or target["name"]), expires),
        sort_keys=False,
        allow_unicode=True,
        width=110,
    )
    if options.dry_run:
        sys.stdout.write(text)
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text("utf-8") if file.exists() else ""
    file.write_text(before + ("\n" if before and not before.endswith("\n\n") else "") + text, "utf-8")
    sys.stdout.write(f"{file}: {text.count('- clause:')} entries for {len(failures)} failed checks\n")
    for subject in overtaken(declared, failures):
        sys.stdout.write(
            f"{file}: {subject} was declared before and failed otherwise; is the older entry still needed?\n"
        )
    return 0


def overtaken(declared: deviations.Deviations, failures: list[dict[str, Any]]) -> list[str]:
    """Subjects of older entries that speak of these failures and excuse none of them: perhaps needed no more."""
    return [
        entry.subject
        for entry in declared.entries
        if (spoken_of := [each for each in failures if entry.about(each["check"], each["clauses"])])
        and not any(entry.excuses(each["fingerprint"]) for each in spoken_of)
    ]


def entries(failures: list[dict[str, Any]], reason: str, seen: str, expires: dt.date) -> list[dict[str, Any]]:
    """One entry for each clause (the first one a check names), with the fingerprints of its failures."""
    found: dict[str, dict[str, Any]] = {}
    for check in failures:
        clause = check["clauses"][0]
        entry = found.setdefault(
            clause,
            {
                "clause": clause,
                "reason": reason,
                "fingerprint": [],
                "seen": seen,
                "expires": expires.replace(),  # a copy: YAML would write the same object as a reference
                "evidence": _evidence(check),
            },
        )
        if check["fingerprint"] not in entry["fingerprint"]:
            entry["fingerprint"].append(check["fingerprint"])
    return list(found.values())


def _evidence(check: dict[str, Any]) -> str:
    """What was seen, in a line or two."""
    said = check["message"].splitlines()[0] if check["message"] else ""
    if not check["exchanges"]:
        return said[:400]
    last = check["exchanges"][-1]
    body = last["response"].partition("\r\n\r\n")[2]
    return f"{last['method']} {last['target']} → {last['status']} {body[:150]!r}; {said[:250]}"


def _read(file: Path) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(file.read_text("utf-8"))
        _ = list(report["checks"]), report["target"]["name"], report["target"]["version"]
    except OSError as problem:
        raise UserError(f"{file}: cannot be read ({problem.strerror}); give the report.json of a run") from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"{file}: not a report of this suite ({problem!r}); give the report.json of a run") from problem
    return report
