"""State machines that are run long enough to be worth something, and say how long that was."""

from __future__ import annotations

import math
from typing import ClassVar

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

LEAST_STEPS = 10_000
STEPS_A_RUN = 50
_MARGIN = 1.4


class CountingMachine(RuleBasedStateMachine):
    """A state machine that counts its steps, over all its runs."""

    steps: ClassVar[int] = 0

    @invariant()
    def counts(self) -> None:
        """Hypothesis looks at the invariants once before the first step and then after each."""
        type(self).steps += 1


def run_at_length(machine: type[CountingMachine], least_steps: int = LEAST_STEPS) -> None:
    """Run a machine until it has made so many steps; fails at the first invariant that does not hold.

    Runs are of different lengths, and Hypothesis makes others when other modules are imported; hence the margin.
    """
    machine.steps = 0
    runs = math.ceil(least_steps * _MARGIN / STEPS_A_RUN)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=runs, stateful_step_count=STEPS_A_RUN, deadline=None)
    )
    steps = machine.steps - runs  # the look before the first step is none
    assert steps >= least_steps, f"{steps} steps in {runs} runs"
