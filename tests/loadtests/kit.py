"""What the load tests' tests share: records made by hand, and runs of our programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.harness.noise import Noise
from fake_workers.journal import Entry
from loadtests.findings import Findings
from loadtests.observation import Observation
from loadtests.scenario import Data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtests.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 110.0
UNHURRIED = "[generator]\nmax_late_share = 1000\n"
"""Thresholds of runs that judge clauses only, none of which depends on the generator being in time."""


def observed(number: int, flow: str, sent_at: float, ended_at: float, **fields: Any) -> Observation:
    """An answered request, unless the fields say otherwise."""
    made = Observation(
        f"igc-{number:016x}", flow, "kind", sent_at=sent_at, ended_at=ended_at, status=200, body_bytes=500
    )
    return replace(made, **fields)


def journaled(observation: Observation, received_at: float, completed_at: float | None, **fields: Any) -> Entry:
    """What a worker noted of it."""
    made = Entry(
        seq=1, worker="load", marker=observation.marker, method="POST", target="/v1/chat/completions", head=b"",
        body=b"", started_at=received_at, received_at=received_at, completed_at=completed_at, outcome="answered",
    )  # fmt: skip
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def data_of(pairs: Sequence[tuple[Observation, Entry | None]], **settings: Any) -> Data:
    """A record of observations and entries."""
    entries = {each.marker: [entry] for each, entry in pairs if entry is not None}
    return Data([each for each, _ in pairs], entries, settings, Noise(0.001))


def judged(scenario: Scenario, data: Data) -> dict[str, str]:
    """State of each clause that a scenario's judge has said something about."""
    findings = Findings()
    scenario.judge(data, findings)
    return {each.clause: each.state for each in findings.all()}


def at_a_terminal() -> None:
    """Before a program starts: let it take SIGINT as at a terminal, for a shell's background makes it ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ran(*words: str, env: dict[str, str] | None = None, within_s: float = WITHIN_S) -> subprocess.CompletedProcess[str]:
    """Run a module of ours from the root of the tree, to its end."""
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True,
        timeout=within_s, check=False,
    )  # fmt: skip
