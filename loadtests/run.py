"""One run: bring up gateway and workers, let locust send, collect both sides' records, judge."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from conformance.harness import noise
from conformance.harness.environment import launch
from conformance.harness.errors import HarnessError
from conformance.targets import running as running_targets
from loadtests import figures
from loadtests.errors import GeneratorLate
from loadtests.findings import Findings
from loadtests.journal import Collector
from loadtests.load import generate, still_there
from loadtests.observation import read_all
from loadtests.progress import Progress
from loadtests.scenario import Data
from loadtests.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.harness.environment import Running
    from loadtests.options import Options
    from loadtests.thresholds import Threshold


@dataclass
class Result:
    """What a run has shown.

    `unjudged` says why nothing was judged: then there are figures of what was seen, and no findings; `under_way` are
    the requests of which no end was seen.
    """

    options: Options
    data: Data
    findings: Findings
    figures: dict[str, float]
    by_flow: dict[str, dict[str, float]]
    broken_thresholds: list[tuple[Threshold, str]]
    lateness: tuple[float, float] | None
    took_s: float
    unjudged: str = ""
    under_way: int = 0
    started_at: float = field(default_factory=time.time)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return self.verdict == "passed"

    @property
    def verdict(self) -> str:
        """The verdict in a word or two."""
        if self.unjudged:
            return "not judged"
        return "failed" if self.findings.bad or self.broken_thresholds else "passed"

    @property
    def limits(self) -> tuple[Threshold, ...]:
        """The thresholds that were judged."""
        return () if self.unjudged else self.options.thresholds.limits


class Run:
    """`with Run(options, say) as run: run.judged()`; its records live as long as the context."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._began = time.monotonic()
        self._logs = Path(tempfile.mkdtemp(prefix="loadtests-"))
        self._record = self._logs / "record"
        self._machine = noise.measure()
        self._collector: Collector | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        shutil.rmtree(self._logs, ignore_errors=True)

    def judged(self) -> Result:
        """Do it all; HarnessError when nothing could be judged, GeneratorLate when the load was not as asked for."""
        options, findings = self._options, Findings()
        settings = options.configuration.settings
        with _up(options, self._logs, self._say) as running, Watch() as watch:
            self._collector = collector = Collector(running.environment.control_url)
            generate(options, running, self._record, collector, self._say)
            observations = read_all(self._record)
            if not observations:
                raise HarnessError(f"the generator sent nothing in {options.duration_s} s at rate {options.rate:g}")
            _refuse_if_late(options, figures.lateness(observations))
            collector.settle()
            if options.scenario.probe is not None:
                self._say("asking further questions ...")
                asyncio.run(options.scenario.probe(running.environment, settings, findings))
        data = Data(observations, collector.by_marker(), settings, self._machine, watch.worst_s)
        options.scenario.judge(data, findings)
        return _result(options, data, findings, time.monotonic() - self._began)

    def unjudged(self, why: str) -> Result | None:
        """What was seen until the run ended early, without a verdict; None when nothing was sent."""
        observations = read_all(self._record)
        if not observations:
            return None
        entries = self._collector.by_marker() if self._collector is not None else {}
        data = Data(observations, entries, self._options.configuration.settings, self._machine)
        result = _result(self._options, data, Findings(), time.monotonic() - self._began)
        progress = Progress(self._record)
        progress.look()
        result.unjudged, result.broken_thresholds, result.under_way = why, [], progress.under_way
        return result


def _result(options: Options, data: Data, findings: Findings, took_s: float) -> Result:
    for finding in findings.bad:
        about = options.deviations.about(f"loadtests/{options.scenario.name}", [finding.clause])
        declared = [entry for entry in about if not entry.expired]
        if all(any(entry.excuses(each) for entry in declared) for each in finding.fingerprints):
            finding.excuse = declared[0].reason
    overall = figures.summary(data.observations, data)
    names = [flow.name for flow in options.scenario.flows]
    by_flow = {name: figures.summary(data.flow(name), data) for name in names}
    by_flow_and_all = {**by_flow, "": overall}
    values = [(each, by_flow_and_all[each.flow].get(each.figure)) for each in options.thresholds.limits]
    broken = [(each, said) for each, value in values if (said := each.broken(value))]
    return Result(options, data, findings, overall, by_flow, broken, figures.lateness(data.observations), took_s)


def _refuse_if_late(options: Options, late: tuple[float, float] | None) -> None:
    share = options.thresholds.max_late_share
    if late is not None and late[0] > share * late[1]:
        raise GeneratorLate(
            f"99% of the requests were sent within {1000 * late[0]:.1f} ms of their time; allowed are {share:g} of the "
            f"mean {1000 * late[1]:.1f} ms between arrivals. Nothing is judged: lower --rate, or free the machine"
        )


@contextlib.contextmanager
def _up(options: Options, logs: Path, say: Callable[[str], None]) -> Iterator[Running]:
    """The gateway with its fake worker; a process that has ended by itself is a reason not to judge."""
    if options.url is not None:
        running_targets.preflight(options.suite)
        running = running_targets.attach(options.suite, options.configuration, options.url, logs)
    else:
        running = launch(options.target, options.configuration, logs)
    say(f"{options.target.label} ({options.configuration.name}) at {running.environment.gateway_url}")
    try:
        yield running
        still_there(options, running)
    finally:
        running.stop()
