"""From a pytest outcome to a verdict, with the evidence for it.

A check asserts: *failed*. Looking into an answer that has another shape than the check expects (KeyError, TypeError,
...) is a failure too: the answer was wrong. Everything else (HarnessError, a skip, a crash of the check) is a
*harness error*: it says nothing about the gateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest

from conformance.harness.run import PLANNED

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

Verdict = Literal["passed", "failed", "deviating", "stale", "not applicable", "unreached", "harness error"]
WRONG_ANSWER = (AssertionError, LookupError, TypeError, ValueError, AttributeError)


@dataclass
class Handles:
    """What a check holds, for evidence."""

    gateway: Gateway
    worker: Worker
    evidence: dict[str, Any] = field(default_factory=dict)


HANDLES = pytest.StashKey[Handles]()
VERDICT = pytest.StashKey[str]()


async def gather(item: pytest.Item, handles: Handles) -> None:
    """Collect both sides' view of a check that failed, before its markers are forgotten."""


def judge(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> pytest.TestReport:
    """Give a report its verdict; only checks are touched."""
    if PLANNED not in item.stash:
        return report
    verdict: Verdict | None = None
    problem = call.excinfo.value if call.excinfo else None
    if isinstance(problem, pytest.skip.Exception):
        report.outcome = "failed"
        report.longrepr = (
            f"HarnessError: the check skipped itself at run time ({problem}); "
            "what does not apply is decided before the run, by the clause rows and the target's claims"
        )
        verdict = "harness error"
    elif report.failed:
        judged = report.when == "call" or (report.when == "teardown" and isinstance(problem, AssertionError))
        verdict = "failed" if judged and isinstance(problem, WRONG_ANSWER) else "harness error"
    elif report.when == "call":
        verdict = "passed"
    report.conformance = {"verdict": verdict}  # type: ignore[attr-defined]  # travels with the report under xdist
    return report
