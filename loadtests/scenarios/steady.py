"""Steady load: answers of several lengths, in an open loop. Every exchange must be right, and cost little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import invariants
from loadtests.traffic import Flow, reply

if TYPE_CHECKING:
    from loadtests.findings import Findings

SHORT = reply("1a01", "short", tokens=4, first_s=0.02, every_s=0.01)
MEDIUM = reply("1a02", "medium", tokens=12, first_s=0.04, every_s=0.02)
LONG = reply("1a03", "long", tokens=30, first_s=0.06, every_s=0.02)

STEADY = Flow("steady", (SHORT, MEDIUM, LONG))


def judge(data: Data, findings: Findings) -> None:
    """Every request is answered in full, from one dispatch, with its own text."""
    invariants(data, findings, served=[STEADY.name])


SCENARIO = Scenario(
    name="steady",
    about="answers of several lengths arrive evenly or at random; each must be right",
    configuration="load",
    flows=(STEADY,),
    judge=judge,
)
