"""One run: bring up gateway and workers, let locust send, collect both sides' records, judge, report."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness import noise
from conformance.harness.environment import launch
from conformance.harness.errors import HarnessError
from conformance.harness.processes import Process
from conformance.targets import running as running_targets
from fake_workers.control import Control
from loadtests import figures
from loadtests.errors import GeneratorLate
from loadtests.findings import Findings
from loadtests.journal import Collector
from loadtests.observation import read_all
from loadtests.progress import Progress
from loadtests.scenario import Data
from loadtests.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.harness.environment import Environment, Running
    from loadtests.options import Options
    from loadtests.thresholds import Threshold

PACKAGE = Path(__file__).parent
GRACE_S = 60.0  # for start and for the requests under way at the end
POLL_S = 0.25
SHOW_EVERY_S = 1.0
SOUND = {0, 1, 3, 4}  # locust: fine, failures, late, idle; anything else is a generator that did not work


@dataclass
class Result:
    """What a run has shown."""

    options: Options
    data: Data
    findings: Findings
    figures: dict[str, float]
    by_flow: dict[str, dict[str, float]]
    broken_thresholds: list[tuple[Threshold, str]]
    lateness: tuple[float, float] | None
    took_s: float
    started_at: float = field(default_factory=time.time)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.findings.bad and not self.broken_thresholds


def run(options: Options, say: Callable[[str], None]) -> Result:
    """Do the run; HarnessError when nothing could be judged, GeneratorLate when the load was not as asked for."""
    began = time.monotonic()
    machine = noise.measure()
    with _folder() as logs, _up(options, logs, say) as environment, Watch() as watch:
        asyncio.run(_teach(options, environment))
        collector = Collector(environment.control_url)
        _generate(options, environment, logs, collector, say)
        observations = read_all(logs / "record")
        if not observations:
            raise HarnessError(f"the generator sent nothing in {options.duration_s} s at rate {options.rate:g}")
        late = figures.lateness(observations)
        _refuse_if_late(options, late)
        findings = Findings()
        collector.settle()
        if options.scenario.probe is not None:
            say("asking further questions ...")
            asyncio.run(options.scenario.probe(environment, options.configuration.settings, findings))
    data = Data(observations, collector.by_marker(), options.configuration.settings, machine, watch.worst_s)
    options.scenario.judge(data, findings)
    return _result(options, data, findings, late, time.monotonic() - began)


def _result(
    options: Options, data: Data, findings: Findings, late: tuple[float, float] | None, took_s: float
) -> Result:
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
    return Result(options, data, findings, overall, by_flow, broken, late, took_s)


def _refuse_if_late(options: Options, late: tuple[float, float] | None) -> None:
    share = options.thresholds.max_late_share
    if late is not None and late[0] > share * late[1]:
        raise GeneratorLate(
            f"99% of the requests were sent within {1000 * late[0]:.1f} ms of their time; allowed are {share:g} of the "
            f"mean {1000 * late[1]:.1f} ms between arrivals. Nothing is judged: lower --rate, or free the machine"
        )


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="loadtests-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _up(options: Options, logs: Path, say: Callable[[str], None]) -> Iterator[Environment]:
    """The gateway with its fake worker; a process that has ended by itself is a reason not to judge."""
    if options.url is not None:
        running_targets.preflight(options.suite)
        running = running_targets.attach(options.suite, options.configuration, options.url, logs)
    else:
        running = launch(options.target, options.configuration, logs)
    say(f"{options.target.label} ({options.configuration.name}) at {running.environment.gateway_url}")
    try:
        yield running.environment
        _still_alive(running)
    finally:
        running.stop()


def _still_alive(running: Running) -> None:
    for process in running.processes:
        if process.status is not None:
            raise HarnessError(f"a process ended during the run: {process.describe()}")


async def _teach(options: Options, environment: Environment) -> None:
    async with Control(environment.control_url) as control:
        for flow in options.scenario.flows:
            for kind in flow.kinds:
                await control.put_template(kind.digits, kind.script)


def _command(options: Options, environment: Environment, record: Path) -> list[str]:
    users = str(sum(flow.users for flow in options.scenario.flows))
    named = {
        "-f": PACKAGE / options.scenario.locust_file, "-u": users, "-r": users, "-t": f"{options.duration_s}s",
        "--host": environment.gateway_url, "--control": environment.control_url, "--record-dir": record,
        "--model": environment.workers[0].model, "--rate": options.rate, "--seed": options.seed,
        "--max-late-share": options.thresholds.max_late_share,
        **({"--loop": options.loop} if options.loop else {}),
        **({"--arrivals": options.arrivals} if options.arrivals else {}),
    }  # fmt: skip
    words = [str(word) for pair in named.items() for word in pair]
    return [sys.executable, "-m", "locust", "--headless", "--only-summary", "--loglevel", "WARNING", *words]


def _generate(
    options: Options, environment: Environment, logs: Path, collector: Collector, say: Callable[[str], None]
) -> None:
    """Run locust to its end, showing how it goes; HarnessError when it does not work."""
    record = logs / "record"
    key = {"LOADTESTS_KEY": environment.default_key} if environment.default_key else None
    progress = Progress(record)
    process = Process("generator", _command(options, environment, record), logs, env=key)
    try:
        began = shown = time.monotonic()
        while process.status is None:
            if time.monotonic() - began > options.duration_s + GRACE_S:
                raise HarnessError(f"the generator did not end in time: {process.describe()}")
            time.sleep(POLL_S)
            if time.monotonic() - shown >= SHOW_EVERY_S:
                shown = time.monotonic()
                collector.fetch()
                after_s = min(shown - began, options.duration_s)
                say(f"{options.scenario.name} {after_s:.0f}/{options.duration_s} s: {progress.line()}")
        if process.status not in SOUND:
            raise HarnessError(f"the generator did not work: {process.describe()}")
    finally:
        process.stop()
