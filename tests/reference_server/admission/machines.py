"""What the state machines of admission share: counted steps, tickets by what became of them, virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from reference_server.admission.tickets import Ticket, Verdict

if TYPE_CHECKING:
    from reference_server.admission.tickets import Core

STEPS_WANTED = 10_000
EXAMPLES, STEPS_EACH = 300, 50
REFUSALS = {Verdict.FULL, Verdict.DISABLED, Verdict.HASTY, Verdict.LATE}


class AdmissionMachine(RuleBasedStateMachine):
    """Keeps, from the verdicts alone, who waits and who is inside; a machine adds what must be true of them.

    Times are multiples of an eighth of a second, so that sums of them are exact.
    """

    steps: ClassVar[int] = 0
    core: Core

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.tickets: list[Ticket] = []  # in the order of arrival, as far as they are not over
        self.waiting: list[Ticket] = []
        self.inside: list[Ticket] = []
        self.leaving: list[Ticket] = []  # preempted, still inside
        self.outcomes: dict[Ticket, Verdict | str] = {}

    def step(self) -> None:
        """Count a step; every rule begins with it."""
        type(self).steps += 1

    def take_in(self) -> list[tuple[Ticket, Verdict]]:
        """The verdicts since the last time, entered into the lists; each must be possible where its ticket is."""
        verdicts = self.core.take()
        for ticket, verdict in verdicts:
            if verdict is Verdict.ADMITTED:
                assert ticket in self.waiting, "let in without having come, or twice"
                self.before_admission(ticket)
                self.waiting.remove(ticket)
                self.inside.append(ticket)
            elif verdict is Verdict.PREEMPTED:
                assert ticket in self.inside, "preempted without being inside, or twice"
                self.before_preemption(ticket)
                self.inside.remove(ticket)
                self.leaving.append(ticket)
                self.end(ticket, verdict)
            else:
                assert ticket in self.waiting, "sent away without having come, or twice"
                self.before_refusal(ticket, verdict)
                self.waiting.remove(ticket)
                self.tickets.remove(ticket)
                self.end(ticket, verdict)
        return verdicts

    def end(self, ticket: Ticket, outcome: Verdict | str) -> None:
        """A ticket's one outcome."""
        assert ticket not in self.outcomes, "two outcomes for one request"
        self.outcomes[ticket] = outcome

    def came(self, ticket: Ticket) -> None:
        """A ticket has arrived; its verdict, if there is one, is not taken yet."""
        self.tickets.append(ticket)
        self.waiting.append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """A request ends, wherever it is."""
        self.tickets.remove(ticket)
        if ticket in self.waiting:
            self.waiting.remove(ticket)
            self.end(ticket, "gone")
        elif ticket in self.inside:
            self.inside.remove(ticket)
            self.end(ticket, "served")
        else:
            self.leaving.remove(ticket)
        self.core.leave(ticket, self.now)

    def before_admission(self, ticket: Ticket) -> None:
        """What must be true of the lists when a ticket is let in."""

    def before_preemption(self, ticket: Ticket) -> None:
        """What must be true of the lists when a ticket is preempted."""

    def before_refusal(self, ticket: Ticket, verdict: Verdict) -> None:
        """What must be true of the lists when a ticket is sent away."""


def run(machine: type[AdmissionMachine]) -> None:
    """Run a machine for as many steps as are wanted at least, and say how many there were."""
    machine.steps = 0
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS_EACH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
    print(f"{machine.__name__}: {machine.steps} steps")  # noqa: T201 - shown by -rP, so that a run can be checked
    assert machine.steps >= STEPS_WANTED
