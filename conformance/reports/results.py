"""All results of a run, kept in the controlling process: one for every planned check, whatever happens on the way."""

from __future__ import annotations

import fnmatch
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.harness import passive
from conformance.harness.planning import Planned
from conformance.harness.verdicts import VERDICTS, Verdict, excuse
from spec import clauses

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from conformance.harness.run import Run
    from conformance.targets.deviations import Entry

# The verdict of a clause is the first of these that one of its checks has.
WORST_FIRST: tuple[Verdict, ...] = (
    "failed",
    "stale",
    "harness error",
    "unreached",
    "deviating",
    "passed",
    "not applicable",
)
FAILING: tuple[Verdict, ...] = ("failed", "stale")
UNDECIDED: tuple[Verdict, ...] = ("harness error", "unreached")


@dataclass
class Result:
    """One check's verdict and what led to it. Times: epoch seconds and seconds."""

    planned: Planned
    verdict: Verdict
    message: str = ""
    fingerprint: str = ""
    note: str = ""
    deviation: str = ""
    started_at: float | None = None
    duration_s: float = 0.0
    evidence: dict[str, Any] = field(default_factory=dict)


class Results:
    """Takes pytest's reports as they come, and says in the end what became of every planned check."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.by_node: dict[str, Result] = {}
        self.broken: dict[str, Result] = {}  # modules that could not be collected
        self.ended_at = 0.0
        self._shapes: dict[str, Counter[str]] = {}
        self._calls: dict[str, pytest.TestReport] = {}
        self._finished = False

    def collection(self, report: pytest.CollectReport) -> None:
        """A module that cannot be collected is a harness error of its own."""
        if report.failed and "conformance" in report.nodeid:
            planned = Planned(report.nodeid, [], "(collection)", "", "")
            text = self.run.redactor.text(str(report.longrepr))
            self.broken[report.nodeid] = Result(planned, "harness error", message=text[-2000:])

    def record(self, report: pytest.TestReport) -> None:
        """Take the report of a phase."""
        found: dict[str, Any] = getattr(report, "conformance", {})
        planned = self.run.planned.get(report.nodeid)
        if planned is None:
            return
        result = self.by_node.get(report.nodeid)
        verdict: Verdict | None = found.get("verdict")
        if verdict is None and report.failed:
            # Not ours: xdist reports the crash of a worker this way.
            verdict, found = "harness error", {"message": str(report.longrepr)[:2000]}
        if result is None and verdict is not None:
            started = getattr(report, "start", None)
            result = self.by_node[report.nodeid] = Result(planned, verdict, started_at=started)
            result.message, result.fingerprint = found.get("message", ""), found.get("fingerprint", "")
            result.note, result.deviation = found.get("note", ""), found.get("deviation", "")
        elif (
            result is not None and verdict in {"failed", "harness error"} and result.verdict in {"passed", "deviating"}
        ):
            # The end of a check can still disprove what its body did not see.
            result.verdict, result.message = verdict, found.get("message", "")
            result.fingerprint, result.note = found.get("fingerprint", ""), found.get("note", "")
        if result is not None:
            result.duration_s += report.duration
        if report.failed or found.get("verdict") == "deviating":
            self._calls.setdefault(report.nodeid, report)
        if report.when == "teardown" and result is not None:
            self._attach(report, result, found)

    def _attach(self, report: pytest.TestReport, result: Result, found: dict[str, Any]) -> None:
        """Evidence arrives with the teardown; pytest prints the sections of the phase that failed at the very end."""
        from conformance.reports.evidence import as_text  # noqa: PLC0415 - evidence needs the harness, which needs us

        result.evidence = found.get("evidence", {})
        for each, problem in result.evidence.get("shapes", []):
            self._shapes.setdefault(each, Counter())[problem] += 1
        failed = self._calls.pop(report.nodeid, None)
        if failed is not None and result.evidence:
            failed.sections.append(("evidence", as_text(result.evidence)))

    def finish(self) -> None:
        """Decide what could not be decided before the end: unreached and stale."""
        if self._finished:
            return
        self._finished = True
        self.ended_at = time.time()
        for nodeid, planned in self.run.planned.items():
            if planned.not_applicable:
                self.by_node[nodeid] = Result(planned, "not applicable", message=planned.not_applicable)
            elif nodeid not in self.by_node:
                self.by_node[nodeid] = Result(planned, "unreached", message="the run ended before this check")
        self._judge_shapes()
        if self.run.whole_clauses:
            for entry in self.run.deviations.entries:
                self._stale(entry)

    def _judge_shapes(self) -> None:
        """One verdict for every shape that some answer of the run had (see conformance/harness/passive.py)."""
        globs = self.run.options.clauses
        for each, seen in self._shapes.items():
            if globs and not any(fnmatch.fnmatch(each, glob) for glob in globs):
                continue
            row = clauses()[each]
            planned = Planned(passive.NODE + each, [each], row.section, row.configuration, "")
            self.run.planned[planned.nodeid] = planned
            result = self.by_node[planned.nodeid] = Result(planned, "passed", started_at=self.run.started_at)
            problems = Counter({problem: number for problem, number in seen.items() if problem})
            if problems:
                worst, number = problems.most_common(1)[0]
                result.message = f"{problems.total()} of {seen.total()} answers do not fit; {number} times: {worst}"
                result.fingerprint = f"shape | {_where(worst)}"
                result.verdict, result.note, result.deviation = excuse(self.run.deviations, planned, result.fingerprint)

    def _stale(self, entry: Entry) -> None:
        """An entry that excuses nothing any more fails the run, so that it is removed.

        Either everything it speaks of passes, or what fails is excused by another entry, which has taken its place.
        """
        spoken_of = [each for each in self.by_node.values() if entry.about(each.planned.nodeid, each.planned.clauses)]
        spoken_of = [each for each in spoken_of if each.verdict != "not applicable"]
        if not {each.verdict for each in spoken_of} <= {"passed", "deviating", "stale"}:
            return  # something else is wrong, which comes first
        if any(each.verdict != "passed" and entry.excuses(each.fingerprint) for each in spoken_of):
            return
        file = self.run.deviations.file
        for each in spoken_of:
            found = "passes" if each.verdict == "passed" else "fails otherwise, as another entry says"
            each.verdict, each.deviation = "stale", entry.subject
            each.message = (
                f"{found}, but a deviation is declared for {entry.subject} (seen {entry.seen}: {entry.reason}): "
                f"remove it from {file}"
            )

    # What was found

    def all(self) -> list[Result]:
        """Every result, checks in plan order, then modules that could not be collected."""
        order = [nodeid for nodeid in self.run.planned if nodeid in self.by_node]
        return [self.by_node[nodeid] for nodeid in order] + list(self.broken.values())

    def counts(self, results: Iterable[Result] | None = None) -> dict[Verdict, int]:
        """How many of each verdict; their sum is what was planned."""
        found = Counter(result.verdict for result in (self.all() if results is None else results))
        return {verdict: found[verdict] for verdict in VERDICTS}

    def sections(self) -> dict[str, list[Result]]:
        """Results by section of the contract, in order of appearance in the clause files."""
        found: dict[str, list[Result]] = {}
        order = list(dict.fromkeys(row.section for row in clauses().values()))
        for result in sorted(self.all(), key=lambda each: _position(order, each.planned.section)):
            found.setdefault(result.planned.section, []).append(result)
        return found

    def clauses(self) -> dict[str, Verdict]:
        """The verdict of every clause that has a check in the plan: the worst of its checks."""
        found: dict[str, set[Verdict]] = {}
        for result in self.all():
            for each in result.planned.clauses:
                found.setdefault(each, set()).add(result.verdict)
        return {each: next(v for v in WORST_FIRST if v in verdicts) for each, verdicts in found.items()}

    def exit_status(self, pytest_status: int) -> int:
        """The run's exit status; pytest's own where it says more (interrupted, usage error, ...)."""
        counts = self.counts()
        if pytest_status not in {0, 1, 5}:
            return pytest_status
        if any(counts[verdict] for verdict in FAILING):
            return 1
        if any(counts[verdict] for verdict in UNDECIDED):
            return EXIT_UNDECIDED
        return 0 if self.by_node else pytest_status


EXIT_UNDECIDED = 6


def _where(problem: str) -> str:
    """A schema problem without the values that change from answer to answer."""
    return re.sub(r"\d+", "N", problem.partition(":")[0])[:160]


def _position(order: list[str], section: str) -> int:
    return order.index(section) if section in order else len(order)
