"""The scenarios: plans and judges. None of these modules imports locust, so that judging needs no gevent."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from conformance.harness.errors import UserError

if TYPE_CHECKING:
    from loadtests.scenario import Scenario

NAMES = ("admission", "preemption", "keepalive", "steady", "disconnect-storm", "slow-readers")


def load(name: str) -> Scenario:
    """The scenario of a name; UserError names those there are."""
    if name not in NAMES:
        raise UserError(f"no scenario {name!r}; there are {', '.join(NAMES)}")
    module = importlib.import_module(f"loadtests.scenarios.{name.replace('-', '_')}")
    scenario: Scenario = module.SCENARIO
    return scenario
