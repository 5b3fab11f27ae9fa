"""The commands of `python -m conformance`.

List clauses with their checks, accept failures as declared deviations, hold an environment open.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.differ import run as differ
from conformance.harness.errors import HarnessError, UserError
from conformance.targets import accept
from spec import SpecError, clauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spec import Clause

OK, INCOMPLETE, BAD_INPUT = 0, 1, 2
CHECKS = Path(__file__).parent / "checks"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m conformance", description="Around a run of `pytest conformance`.", allow_abbrev=False
    )
    commands = top.add_subparsers(dest="command", required=True)
    listing = commands.add_parser(
        "clauses", help="list clauses with their checks; exit 1 if one has neither check nor reason"
    )
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.add_argument("--section", metavar="GLOB", default="*", help="only clauses of sections that match")
    listing.add_argument("--clauses", metavar="GLOB", default="*", help="only clauses whose id matches")
    accepting = commands.add_parser("accept", help="declare the failures of a report as deviations of its target")
    accept.add_options(accepting)
    holding = commands.add_parser("up", help="bring up a gateway with its fake workers and keep it until Ctrl-C")
    holding.add_argument("--gateway", metavar="NAME[@VERSION]", default="reference")
    holding.add_argument("--configuration", default="default")
    differing = commands.add_parser(
        "differ", help="send generated requests to two gateways and tell where they disagree"
    )
    differ.add_options(differing)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "clauses":
            return list_clauses(options.section, options.clauses, as_json=options.json)
        if options.command == "accept":
            return accept.run(options)
        if options.command == "differ":
            return differ.run(options)
        return hold(options.gateway, options.configuration)
    except (UserError, SpecError, HarnessError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return OK


def say(line: str) -> None:
    """Print a line of a command's answer."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def collect() -> tuple[dict[str, list[str]], list[str]]:
    """Checks by clause id, and what could not be collected. Nothing is started."""
    import pytest  # noqa: PLC0415 - only this command collects, and pytest takes a moment to import

    class Collector:
        """Remembers items."""

        def __init__(self) -> None:
            self.checks: dict[str, list[str]] = {}
            self.problems: list[str] = []

        def pytest_collection_finish(self, session: pytest.Session) -> None:
            """Sort the plan by clause, also what does not apply to this or that gateway."""
            from conformance.harness.passive import NODE, SHAPES  # noqa: PLC0415 - as above
            from conformance.harness.run import RUN  # noqa: PLC0415 - as above

            for shape in SHAPES:
                self.checks[shape.clause] = [NODE + shape.clause]
            for planned in session.config.stash[RUN].planned.values():
                for each in planned.clauses:
                    self.checks.setdefault(each, []).append(planned.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            """Remember broken modules."""
            if report.failed:
                self.problems.append(f"{report.nodeid}: {str(report.longrepr).strip().splitlines()[-1]}")

    collector = Collector()
    # Neither assertions nor other plugins matter for a list; without them it takes a fraction of the time.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ("conformance.plugin", "pytest_asyncio.plugin", "pytest_timeout", "no:cacheprovider")
    words = ["--collect-only", "-q", "--assert=plain", *(word for each in plugins for word in ("-p", each))]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*words, str(CHECKS.parent)], plugins=[collector])
    return collector.checks, collector.problems


def list_clauses(section: str, ids: str, *, as_json: bool) -> int:
    """Print every clause with the number of its checks, or the reason why it has none."""
    checks, problems = collect()
    rows = [row for row in clauses().values() if fnmatch.fnmatch(row.section, section) and fnmatch.fnmatch(row.id, ids)]
    if not rows:
        raise UserError(f"no clause of a section that matches {section!r} with an id that matches {ids!r}")
    missing = [row for row in rows if row.checkable and not checks.get(row.id)]
    unknown = sorted(set(checks) - set(clauses()))
    if as_json:
        say(json.dumps([_plain(row, checks.get(row.id, [])) for row in rows], indent=1, ensure_ascii=False))
    else:
        _print(rows, checks)
        checked = sum(bool(checks.get(row.id)) for row in rows)
        reasons = sum(not row.checkable and not checks.get(row.id) for row in rows)
        say(
            f"{len(rows)} clauses = {checked} with checks + {reasons} with a reason + {len(missing)} with neither; "
            f"{sum(len(checks.get(row.id, [])) for row in rows)} checks"
        )
    for line in [
        *(f"neither check nor reason: {row.id} ({row.source})" for row in missing),
        *problems,
        *(f"a check names an unknown clause: {each} ({checks[each][0]})" for each in unknown),
    ]:
        sys.stderr.write(f"{line}\n")
    return INCOMPLETE if missing or problems or unknown else OK


def _print(rows: Sequence[Clause], checks: dict[str, list[str]]) -> None:
    shown = ""
    for row in rows:
        if row.section != shown:
            shown = row.section
            say(f"\n{shown}")
        number = len(checks.get(row.id, []))
        why = (
            f"untestable: {row.untestable}" if row.untestable else f"awaits: {row.awaits}" if row.awaits else "NO CHECK"
        )
        state = f"{number} check{'s' if number != 1 else ''}" if number else why
        say(f"  {row.id}  [{row.level}, {row.feature}]  {state}\n      {row.text}")


def _plain(row: Clause, found: list[str]) -> dict[str, Any]:
    keys = (
        "id",
        "text",
        "section",
        "level",
        "feature",
        "since",
        "until",
        "configuration",
        "keyless",
        "untestable",
        "awaits",
        "reading",
    )
    return {**{key: getattr(row, key) for key in keys}, "workers": list(row.workers), "checks": found}


def hold(gateway: str, configuration: str) -> int:
    """Bring up one environment, print its addresses, and wait for Ctrl-C."""
    import tempfile  # noqa: PLC0415 - only here
    import threading  # noqa: PLC0415 - only here

    from conformance.harness import configurations  # noqa: PLC0415 - only here
    from conformance.harness.environment import launch  # noqa: PLC0415 - only here
    from conformance.targets.adapter import load  # noqa: PLC0415 - only here

    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        running = launch(load(gateway), configurations.configuration(configuration), Path(folder))
        try:
            say(json.dumps(running.environment.to_plain(), indent=1))
            threading.Event().wait()
        finally:
            running.stop()
    return OK
