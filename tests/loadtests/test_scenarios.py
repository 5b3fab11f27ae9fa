"""Each scenario before the reference gateway, as short as can be: a right gateway passes, nothing is left open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loadtests import scenarios
from tests.loadtests.kit import UNHURRIED, ran

if TYPE_CHECKING:
    from pathlib import Path

SHORT = {  # scenario: seconds, rate
    "admission": (3, 12),
    "preemption": (7, 3),  # the crowd comes after 3.5 s, and then bulk work has to wait
    "keepalive": (2, 3),
    "steady": (2, 10),
    "disconnect-storm": (3, 12),
    "slow-readers": (3, 4),
}


@pytest.mark.parametrize("scenario", scenarios.NAMES)
def test_a_right_gateway_passes(scenario: str, tmp_path: Path) -> None:
    """A right gateway passes each scenario, and every clause that the scenario owes has had its occasion.

    No figure is limited, and a late generator does not matter: no judge depends on it.
    """
    duration_s, rate = SHORT[scenario]
    limits = tmp_path / "limits.toml"
    limits.write_text(UNHURRIED, "utf-8")
    words = [scenario, "--duration", duration_s, "--rate", rate, "--thresholds", limits, "--report-dir", tmp_path]
    ended = ran("loadtests", *map(str, words))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert {each["state"] for each in summary["clauses"]} == {"passed"}
    assert all(each["checked"] for each in summary["clauses"])
    assert all(flow["requests"] for flow in summary["flows"].values())
