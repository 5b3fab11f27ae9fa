"""Bulk work fills every slot while urgent requests arrive, and at times a crowd of them stays.

Urgent requests cut bulk ones that have sent nothing yet, never others; and bulk work is not starved by the crowd.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import ended, invariants
from loadtests.traffic import Flow, reply

if TYPE_CHECKING:
    from loadtests.findings import Findings
    from loadtests.observation import Observation

PREEMPTED = "rate_limiting.scheduler_preempted"
CODE = "scheduler_preempted"
OK, STATUS, RETRY_AFTER = 200, 503, "1"
BEFORE = f"{PREEMPTED}.before_first_token"
CANCELLED = f"{PREEMPTED}.worker_cancelled"
ON = "response_headers.preempted.on_preemption"
NOT_OTHERWISE = "response_headers.preempted.not_otherwise"
STARVED = "admission.scheduler.starvation_bounded"
CANCELLED_S = 1.0
LONGEST_S = 0.7  # of any request of the scenario at the worker

# The first says nothing for a while, so it may be preempted; the second begins at once and may not.
SILENT = reply("6a01", "silent", tokens=4, silent_s=0.5, every_s=0.03)
BEGUN = reply("6a02", "begun", tokens=12, every_s=0.05)
QUICK = reply("6a03", "quick", tokens=4, first_s=0.05, every_s=0.03)

BULK = Flow(
    "bulk",
    (SILENT, BEGUN),
    loop="closed",
    users=4,
    headers=(("x-smg-priority", "bulk"),),
    tolerates=(503,),
    think_s=0.02,
)
URGENT = Flow("urgent", (QUICK,), headers=(("x-smg-priority", "interactive"),))
CROWD = Flow(
    "crowd",
    (QUICK,),
    loop="closed",
    users=6,
    headers=(("x-smg-priority", "interactive"),),
    burst_s=4.5,
    lull_s=3.5,
)


def judge(data: Data, findings: Findings) -> None:
    """Preemption happens, is told in full, and never after the first byte; every bulk request is let in in time."""
    invariants(data, findings, served=[BULK.name, URGENT.name, CROWD.name], but=_preempted)
    findings.owe(
        f"{PREEMPTED}.status", f"{PREEMPTED}.retry_after", f"{PREEMPTED}.header", ON, CANCELLED,
        occasion="nothing was preempted",
    )  # fmt: skip
    findings.owe(BEFORE, occasion="no urgent request came while a bulk answer was on its way")
    findings.owe(STARVED, occasion="no bulk request had to wait for half of its starvation threshold")
    urgent = sorted(each.sent_at for each in data.observations if each.flow != BULK.name)
    for each in data.observations:
        preempted = _preempted(each)
        if preempted:
            _told(each, findings)
            _cancelled(each, data, findings)
        else:
            seen = f"{each.marker}: status {each.status} with X-SMG-Preempted {each.preempted}"
            findings.hold(NOT_OTHERWISE, each.preempted is None, seen)
        if each.flow == BULK.name and each.first_byte_at is not None and each.status != STATUS:
            if not _wanted(each, urgent):
                continue
            seen = f"{each.flow} {each.marker}: {each.outcome} {each.problem} after {each.body_bytes} bytes of body"
            findings.hold(BEFORE, each.outcome == "complete" and not _error_inside(each), seen)
    _starvation(data, findings)


def _preempted(each: Observation) -> bool:
    """Whether the scheduler cut it: the answer says so, or a bulk request got no answer, or an empty one.

    No worker of this scenario gives an empty answer or hangs up, so nothing else can be the cause.
    """
    hung_up = each.outcome == "cut" and each.status is None
    emptied = each.outcome == "complete" and each.status == OK and not each.body_bytes
    untold = each.flow == BULK.name and (hung_up or emptied)
    return each.error_body == CODE or each.preempted is not None or untold


def _told(each: Observation, findings: Findings) -> None:
    said = (
        f"{each.flow} {each.marker}: status {each.status}, {each.outcome} {each.problem}, code {each.error_body}, "
        f"Retry-After {each.retry_after}, X-SMG-Preempted {each.preempted}"
    )
    findings.hold(f"{PREEMPTED}.status", each.status == STATUS and each.error_body == CODE, said)
    findings.hold(f"{PREEMPTED}.retry_after", each.retry_after == RETRY_AFTER, said)
    findings.hold(f"{PREEMPTED}.header", each.preempted == "true", said)
    findings.hold(ON, each.preempted == "true", said)


def _cancelled(each: Observation, data: Data, findings: Findings) -> None:
    """The worker is done with it soon: nobody waits for its answer any more."""
    entry = data.entry(each)
    if entry is None:
        return
    gone = ended(entry)
    late_s = None if gone is None else gone - each.ended_at
    said = "never" if late_s is None else f"{late_s:.2f} s after the client's answer"
    in_time = late_s is not None and late_s <= CANCELLED_S + data.margin_s
    findings.hold(CANCELLED, in_time and entry.completed_at is None, f"{each.marker}: cut at the worker {said}")


def _wanted(each: Observation, urgent: list[float]) -> bool:
    """Whether somebody of a higher class came while the answer was on its way."""
    assert each.first_byte_at is not None  # noqa: S101 - asked of answers that have begun
    return bisect.bisect_right(urgent, each.ended_at) > bisect.bisect_left(urgent, each.first_byte_at)


def _error_inside(each: Observation) -> bool:
    return any("an error event" in what for _, what in each.broken)


def _starvation(data: Data, findings: Findings) -> None:
    threshold_s = float(data.settings["priority_classes"]["classes"]["bulk"]["starvation_threshold_secs"])
    bound_s = 2 * threshold_s + LONGEST_S + data.margin_s
    for each in data.flow(BULK.name):
        entry = data.entry(each)
        waited_s = (entry.received_at if entry is not None else each.ended_at) - each.sent_at
        if waited_s < threshold_s / 2:
            continue
        seen = f"{each.marker} waited {waited_s:.2f} s, {bound_s:.2f} s is its bound"
        findings.hold(STARVED, waited_s <= bound_s, seen)


SCENARIO = Scenario(
    name="preemption",
    about="urgent requests among bulk ones: who is cut, how it is told, and that bulk work gets its turn",
    configuration="load-priority",
    flows=(BULK, URGENT, CROWD),
    judge=judge,
    duration_s=16.0,
    rate=3.0,
)
