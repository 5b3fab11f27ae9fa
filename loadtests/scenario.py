"""What a scenario is: what it sends, to which configuration, and how its record is judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from conformance.harness.environment import Environment
    from conformance.harness.noise import Noise
    from fake_workers.journal import Entry
    from loadtests.findings import Findings
    from loadtests.observation import Observation
    from loadtests.traffic import Flow


@dataclass
class Data:
    """Everything a run left behind, for the judges.

    Attributes:
        observations: what clients saw, in the order of sending.
        entries: what workers saw, by marker, in the order of arrival.
        settings: of the configuration the gateway ran in.
        noise: how late this machine was before the run.
        added_s: the worst that it added to a short sleep during the run, in seconds.
    """

    observations: list[Observation]
    entries: dict[str, list[Entry]]
    settings: dict[str, Any]
    noise: Noise
    added_s: float = 0.0

    @cached_property
    def margin_s(self) -> float:
        """What this machine may add to a limit: as measured before, or twice what it added to a sending or a sleep."""
        late_s = (each.dispatch_delay_s or 0.0 for each in self.observations)
        return max(self.noise.margin_s, 2 * max(late_s, default=0.0), 2 * self.added_s)

    def flow(self, name: str) -> list[Observation]:
        """The observations of one flow."""
        return [each for each in self.observations if each.flow == name]

    def entry(self, observation: Observation) -> Entry | None:
        """What the worker saw of a request; None when it never saw it."""
        found = self.entries.get(observation.marker)
        return found[0] if found else None


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        name: as on the command line; the locust file has underscores.
        about: one line.
        configuration: name in loadtests/configurations.yaml.
        flows: what is sent.
        judge: says what the record proves.
        probe: asks the gateway further questions when the load is over.
        duration_s, rate: unless the command line says otherwise.
    """

    name: str
    about: str
    configuration: str
    flows: tuple[Flow, ...]
    judge: Callable[[Data, Findings], None]
    probe: Callable[[Environment, dict[str, Any], Findings], Coroutine[Any, Any, None]] | None = None
    duration_s: float = 10.0
    rate: float = 10.0

    @property
    def locust_file(self) -> str:
        """Name of the locust file in this package."""
        return self.name.replace("-", "_") + ".py"
