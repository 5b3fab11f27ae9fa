"""The command line of `python -m loadtests`, checked."""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness.configurations import Configuration, configurations
from conformance.harness.errors import UserError
from conformance.options import Options as SuiteOptions
from conformance.options import addresses, running_target
from conformance.targets import deviations
from conformance.targets.adapter import Target, load
from loadtests import scenarios, thresholds
from loadtests.arrivals import PATTERNS, Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.targets.deviations import Deviations
    from loadtests.scenario import Scenario
    from loadtests.thresholds import Thresholds

HERE = Path(__file__).parent
CONFIGURATIONS = HERE / "configurations.yaml"
DEVIATIONS = HERE / "deviations"
LONGEST_S = 24 * 3600
MOST_RATE = 100_000
MOST_USERS = 10_000


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    scenario: Scenario
    configuration: Configuration
    suite: SuiteOptions  # how the gateway is launched or reached, in the suite's words
    duration_s: int
    rate: float
    seed: str
    users: int
    loop: str | None
    arrivals: Pattern | None
    report_dir: Path | None
    thresholds: Thresholds
    deviations: Deviations

    @property
    def target(self) -> Target:
        """The gateway on trial."""
        return self.suite.target

    @property
    def url(self) -> str | None:
        """Where it runs already; None when it is launched."""
        return self.suite.running.get(self.configuration.name)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m loadtests",
        description="Judge a gateway under load. Exit status: 0 passed, 1 failed, 2 bad usage, 3 the generator was "
        "late and nothing was judged, 4 nothing could be judged.",
        allow_abbrev=False,
    )
    top.add_argument("scenario", nargs="?", help=", ".join(scenarios.NAMES))
    top.add_argument("--gateway", metavar="NAME[@VERSION]", help="launch this gateway (default: reference)")
    top.add_argument("--target", metavar="URL", help="judge a gateway that runs already, set as the configuration says")
    top.add_argument("--api-key", metavar="KEY", help="with --target: key of its serving routes")
    top.add_argument("--admin-key", metavar="KEY", help="with --target: key of its admin API (default: --api-key)")
    top.add_argument("--workers-at", metavar="HOST:PORT", help="with --target: it routes to there already")
    top.add_argument("--features", metavar="NAME,...", help="with --target: features it claims (default: core)")
    top.add_argument(
        "--duration", type=float, metavar="S", help="seconds of load, whole ones (default: the scenario's)"
    )
    top.add_argument("--rate", type=float, metavar="N", help="arrivals per second (default: the scenario's)")
    top.add_argument("--seed", default="0", help="of arrivals and choices (default: 0)")
    top.add_argument("--users", type=int, metavar="N", help="locust users in all (default: as the scenario has them)")
    top.add_argument("--loop", choices=["open", "closed"], help="of all flows (default: as the scenario has it)")
    top.add_argument("--arrivals", choices=PATTERNS, help="of open loops (default: as the scenario has it)")
    top.add_argument(
        "--report-dir", type=Path, metavar="DIR", help="write requests.jsonl, summary.json, junit.xml, report.html"
    )
    top.add_argument(
        "--thresholds", type=Path, metavar="FILE", help="limits of figures (default: loadtests/thresholds.toml)"
    )
    top.add_argument("--list", action="store_true", help="list the scenarios and run nothing")
    top.add_argument("--figures", action="store_true", help="list the figures thresholds may limit and run nothing")
    return top


def read(given: argparse.Namespace) -> Options:
    """Check the options together; UserError names the one that is wrong and what to write instead."""
    if not given.scenario:
        raise UserError(f"which scenario? One of {', '.join(scenarios.NAMES)}")
    scenario = scenarios.load(given.scenario)
    if given.gateway and given.target:
        raise UserError("--gateway launches a gateway, --target judges one that runs: give one of them")
    for name in ("api_key", "admin_key", "workers_at", "features"):
        if getattr(given, name) and not given.target:
            raise UserError(f"--{name.replace('_', '-')} only means something together with --target URL")
    configuration = configurations(CONFIGURATIONS)[scenario.configuration]
    target = running_target(given.features) if given.target else load(given.gateway or "reference")
    if lacking := target.lacks(configuration.settings):
        raise UserError(
            f"{scenario.name}: {target.label} cannot be given {', '.join(lacking)}, which the scenario needs"
        )
    return Options(
        scenario=scenario,
        configuration=configuration,
        suite=_suite(given, target, configuration.name),
        duration_s=math.ceil(_number("--duration", given.duration, scenario.duration_s, LONGEST_S)),
        rate=_number("--rate", given.rate, scenario.rate, MOST_RATE),
        seed=given.seed,
        users=_users(given.users, scenario),
        loop=given.loop,
        arrivals=given.arrivals,
        report_dir=_folder(given.report_dir),
        thresholds=thresholds.load(given.thresholds or thresholds.FILE, scenario.name),
        deviations=deviations.load(DEVIATIONS / deviations.file_for(target).name),
    )


def _suite(given: argparse.Namespace, target: Target, configuration: str) -> SuiteOptions:
    running = {}
    if given.target:
        if not given.target.startswith("http://"):
            raise UserError(f"--target {given.target}: expected http://HOST:PORT of a gateway")
        running[configuration] = given.target.rstrip("/")
    return SuiteOptions(
        target=target,
        running=running,
        api_key=given.api_key,
        admin_key=given.admin_key or given.api_key,
        workers_at=addresses(given.workers_at),
    )


def _number(option: str, given: float | None, default: float, most: float) -> float:
    value = default if given is None else given
    if not (0 < value <= most):
        raise UserError(f"{option} {value:g}: must be a number above 0, at most {most:g}")
    return value


def _users(given: int | None, scenario: Scenario) -> int:
    fewest = len(scenario.flows)
    if given is not None and not fewest <= given <= MOST_USERS:
        raise UserError(
            f"--users {given}: must be from {fewest}, one for each flow of {scenario.name}, to {MOST_USERS}"
        )
    return given or sum(flow.users for flow in scenario.flows)


def _folder(given: Path | None) -> Path | None:
    """The folder for reports, made now: it is no use to learn after a run that it cannot be written."""
    if given is not None:
        try:
            given.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=given).close()
        except OSError as problem:
            raise UserError(f"--report-dir {given}: cannot be written ({problem.strerror})") from problem
    return given


def words(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse; argparse itself ends a run with status 2 for what is no option."""
    return parser().parse_args(arguments)
