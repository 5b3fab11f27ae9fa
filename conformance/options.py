"""Command-line options of a run, and what they mean together."""

from __future__ import annotations

import argparse
import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from conformance.harness.configurations import configurations
from conformance.harness.errors import UserError
from conformance.targets import deviations
from conformance.targets.adapter import Claims, Target, load
from conformance.targets.deviations import Deviations
from spec import SpecError, clauses, features

if TYPE_CHECKING:
    import pytest

REVISIONS = ("earlier", "1.12", "1.13")


@dataclass(frozen=True)
class Options:
    """What the user asked for, checked."""

    target: Target
    running: dict[str, str] = field(default_factory=dict)  # configuration → URL of a gateway that already runs
    clauses: list[str] = field(default_factory=list)
    report_dir: Path | None = None
    listing: bool = False
    api_key: str | None = None
    admin_key: str | None = None
    workers_at: list[tuple[str, int]] = field(default_factory=list)
    advertise: str | None = None
    deviations: Deviations = field(default_factory=lambda: Deviations(None))
    unproven: bool = False
    pace: float = 1.0

    @property
    def available(self) -> list[str] | None:
        """Configurations that running gateways were given for; None when the suite launches what it needs."""
        return list(self.running) if self.running else None


def add(parser: pytest.Parser) -> None:
    """Register the options with pytest."""
    group = parser.getgroup("conformance", "conformance of an inference gateway")
    group.addoption("--gateway", metavar="NAME[@VERSION]", help="launch this gateway and judge it (default: reference)")
    group.addoption(
        "--target",
        metavar="[CONFIGURATION=]URL",
        action="append",
        default=[],
        help="judge a gateway that already runs, in this configuration (default: default); may be repeated",
    )
    group.addoption("--api-key", metavar="KEY", help="with --target: key of its serving routes")
    group.addoption("--admin-key", metavar="KEY", help="with --target: key of its admin API (default: --api-key)")
    group.addoption(
        "--workers-at",
        metavar="HOST:PORT,...",
        help="with --target: fake workers listen there; the gateway routes to them already",
    )
    group.addoption(
        "--advertise", metavar="HOST", help="with --target: the host under which the gateway reaches this machine"
    )
    group.addoption("--features", metavar="NAME,...", help="with --target: features the gateway claims (default: core)")
    group.addoption(
        "--revision", choices=REVISIONS, help="with --target: revision of the contract it follows (default: the latest)"
    )
    group.addoption(
        "--clauses",
        metavar="GLOB",
        action="append",
        default=[],
        help="only checks of clauses whose id matches; may be repeated",
    )
    group.addoption(
        "--deviations",
        metavar="FILE",
        type=Path,
        help="declared deviations (default: the file of the launched gateway)",
    )
    group.addoption("--report-dir", metavar="DIR", type=Path, help="write report.json, junit.xml and report.html there")
    group.addoption(
        "--list",
        action="store_true",
        dest="conformance_list",
        help="list the planned checks with their clauses, run nothing",
    )
    # For trying the suite itself on peers that are no gateways: nothing is asked of the target before it is judged, and
    # nobody waits long for what will not come. Never for judging, hence not in the help.
    group.addoption("--unproven", action="store_true", help=argparse.SUPPRESS)
    group.addoption("--pace", type=float, default=1.0, help=argparse.SUPPRESS)


def read(config: pytest.Config) -> Options:
    """Check the options together; UserError names the one that is wrong and what to write instead."""
    option = config.option
    if option.gateway and option.target:
        raise UserError("--gateway launches a gateway, --target judges one that runs: give one of them")
    for name in ("api_key", "admin_key", "workers_at", "advertise", "features", "revision"):
        if getattr(option, name) and not option.target:
            raise UserError(f"--{name.replace('_', '-')} only means something together with --target URL")
    running = dict(_target(text) for text in option.target)
    if len(running) < len(option.target):
        raise UserError("--target: two gateways for one configuration; write --target CONFIGURATION=URL for the others")
    try:
        known = clauses()
    except SpecError as problem:
        raise UserError(f"the contract's data cannot be read: {problem}") from problem
    for glob in option.clauses:
        if not any(fnmatch.fnmatch(each, glob) for each in known):
            raise UserError(f"--clauses {glob}: no clause id matches; `python -m conformance clauses` lists them")
    target = running_target(option.features, option.revision) if running else load(option.gateway or "reference")
    return Options(
        target=target,
        running=running,
        clauses=option.clauses,
        report_dir=option.report_dir,
        listing=option.conformance_list,
        api_key=option.api_key,
        admin_key=option.admin_key or option.api_key,
        workers_at=addresses(option.workers_at),
        advertise=option.advertise,
        deviations=_deviations(option.deviations, target),
        unproven=option.unproven,
        pace=option.pace,
    )


def _deviations(given: Path | None, target: Target) -> Deviations:
    if given is not None:
        return deviations.load(given, must_exist=True)
    return deviations.load(deviations.file_for(target)) if target.adapter else Deviations(None)


def _target(text: str) -> tuple[str, str]:
    """`[CONFIGURATION=]URL` → configuration and URL."""
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        name, url = "default", text
    if name not in configurations():
        raise UserError(f"--target {text}: no configuration {name!r}; known are {', '.join(configurations())}")
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UserError(
            f"--target {text}: expected http://HOST:PORT (TLS is not spoken; put the gateway's plain port here)"
        )
    try:
        parts.port  # noqa: B018 - reading it is the check
    except ValueError as problem:
        raise UserError(f"--target {text}: {problem}") from None
    return name, url.rstrip("/")


def addresses(text: str | None) -> list[tuple[str, int]]:
    """The addresses of `--workers-at`; UserError for what is none."""
    found = []
    for part in filter(None, (text or "").split(",")):
        match = re.fullmatch(r"(.+):(\d{1,5})", part.strip())
        if not match or not 0 < int(match[2]) < 65536:
            raise UserError(f"--workers-at {text}: {part!r} is not HOST:PORT")
        found.append((match[1], int(match[2])))
    return found


def running_target(claimed: str | None, revision: str | None = None) -> Target:
    """A gateway that runs already, with what it claims; UserError for a feature there is not."""
    names = [name.strip() for name in (claimed or "core").split(",") if name.strip()]
    if unknown := [name for name in names if name not in features()]:
        raise UserError(f"--features: unknown {', '.join(unknown)}; known are {', '.join(features())}")
    return Target("target", None, Claims(revision=revision or REVISIONS[-1], features=sorted({"core", *names})))
