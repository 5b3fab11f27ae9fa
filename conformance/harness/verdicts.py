"""From a pytest outcome to a verdict, with the evidence for it.

A check asserts: *failed*. Looking into an answer that has another shape than the check expects (KeyError, TypeError,
...) is a failure too: the answer was wrong. Everything else (HarnessError, a skip, a crash of the check) is a
*harness error*: it says nothing about the gateway. A failure that the target declares is *deviating*.

Runs where the check runs; what it finds travels to the controlling process as `report.conformance`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import ValidationError

from conformance.harness import passive
from conformance.harness.errors import Unavailable
from conformance.harness.run import PLANNED, RUN
from conformance.reports import evidence
from conformance.reports.fingerprint import fingerprint
from spec import clauses

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.planning import Planned
    from conformance.harness.worker import Worker
    from conformance.targets.deviations import Deviations

Verdict = Literal["passed", "failed", "deviating", "stale", "not applicable", "unreached", "harness error"]
VERDICTS: tuple[Verdict, ...] = (
    "passed",
    "failed",
    "deviating",
    "stale",
    "not applicable",
    "unreached",
    "harness error",
)
WRONG_ANSWER = (AssertionError, LookupError, TypeError, ValueError, AttributeError)


@dataclass
class Handles:
    """What a check holds, and the evidence gathered from it."""

    gateway: Gateway
    worker: Worker
    evidence: dict[str, Any] = field(default_factory=dict)


HANDLES = pytest.StashKey[Handles]()
FAILED = pytest.StashKey[bool]()


async def gather(item: pytest.Item, handles: Handles) -> None:
    """Collect both sides' view of a check, before the workers forget its markers."""
    full = item.stash.get(FAILED, False)
    if full:
        for script in handles.worker.scripts:
            if script.put:
                await script.look()
    redact = item.config.stash[RUN].redactor
    handles.evidence = {
        "exchanges": [
            evidence.of_exchange(each, handles.gateway.base_url, redact, full=full)
            for each in handles.gateway.exchanges
        ],
        "dispatches": [
            evidence.of_entry(entry, redact, full=full) for each in handles.worker.scripts for entry in each.entries
        ],
        "scripts": [evidence.of_script(each, redact) for each in handles.worker.scripts] if full else [],
        "shapes": passive.look(handles.gateway.exchanges, handles.worker.scripts),
    }


def judge(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> pytest.TestReport:
    """Give a report its verdict; only checks are touched."""
    planned = item.stash.get(PLANNED, None)
    if planned is None:
        return report
    found: dict[str, Any] = {}
    if isinstance(call.excinfo and call.excinfo.value, pytest.skip.Exception):
        report.outcome = "failed"
        report.longrepr = (
            f"HarnessError: the check skipped itself at run time ({call.excinfo and call.excinfo.value}); "
            "what does not apply is decided before the run, by the clause rows and the target's claims"
        )
        found = {"verdict": "harness error", "message": str(report.longrepr)}
    elif report.failed and call.excinfo is not None:
        found = _failure(item, call.excinfo, report, planned)
    elif report.when == "call":
        found = {"verdict": "passed"}
    if report.failed or "fingerprint" in found:
        item.stash[FAILED] = True
    if report.failed and report.longrepr and (shown := run_redacted(item, str(report.longrepr))) is not None:
        report.longrepr = shown
    if report.when == "teardown" and HANDLES in item.stash:
        found["evidence"] = item.stash[HANDLES].evidence
    report.conformance = found  # type: ignore[attr-defined]  # xdist carries attributes of reports along
    return report


def run_redacted(item: pytest.Item, text: str) -> str | None:
    """The text without secrets; None when it has none."""
    clean = item.config.stash[RUN].redactor.text(text)
    return clean if clean != text else None


def _failure(
    item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, planned: Planned
) -> dict[str, Any]:
    """Failed, deviating or harness error."""
    problem = excinfo.value
    run = item.config.stash[RUN]
    message = run.redactor.text(f"{type(problem).__name__}: {problem}"[:4000])
    judged = report.when == "call" or (report.when == "teardown" and isinstance(problem, AssertionError))
    if isinstance(problem, Unavailable):
        # Told once for all checks when it happened, and once in the summary.
        report.longrepr = message
        return {"verdict": "harness error", "message": message, "quiet": True}
    if not judged or not isinstance(problem, WRONG_ANSWER) or isinstance(problem, ValidationError):
        return {"verdict": "harness error", "message": message}
    last = item.stash[HANDLES].gateway.exchanges[-1:] if HANDLES in item.stash else []
    mark = run.redactor.text(fingerprint(excinfo, last[0] if last else None))
    verdict, note, subject = excuse(run.deviations, planned, mark)
    if verdict == "deviating":
        # What pytest does for an expected failure: reported, and no failure of the run.
        report.outcome = "skipped"
        report.wasxfail = note
    report.sections.append(("how it fails", "\n".join(filter(None, [f"fingerprint: {mark}", note]))))
    report.sections += [(f"clause {each}", clauses()[each].text) for each in planned.clauses if each in clauses()]
    return {"verdict": verdict, "message": message, "fingerprint": mark, "note": note, "deviation": subject}


def excuse(deviations: Deviations, planned: Planned, mark: str) -> tuple[Verdict, str, str]:
    """Verdict, note and declared subject of a failure with this fingerprint."""
    entries = deviations.about(planned.nodeid, planned.clauses)
    matching = [entry for entry in entries if entry.excuses(mark)]
    current = [entry for entry in matching if not entry.expired]
    if current:
        return "deviating", current[0].reason, current[0].subject
    if matching:
        return "failed", f"its declared deviation expired on {matching[0].expires}: {matching[0].reason}", ""
    if entries:
        declared = "; ".join(each for entry in entries for each in entry.fingerprint)
        return "failed", f"a deviation is declared, but it fails differently than declared ({declared})", ""
    return "failed", "", ""
