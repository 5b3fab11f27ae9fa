"""The summary on the terminal: by section of the contract, and the sum that must come out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from conformance.harness import passive
from conformance.harness.verdicts import VERDICTS

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from conformance.harness.run import Run
    from conformance.reports.results import Result, Results

SHORT = {"not applicable": "n/a", "harness error": "harness"}
MARKS = {"passed": ".", "failed": "F", "deviating": "d", "stale": "s", "harness error": "E"}


def write(results: Results, terminal: TerminalReporter) -> None:
    """Print the summary."""
    run = results.run
    terminal.section(f"conformance of {run.options.target.label}", "=")
    sections = results.sections()
    width = max([len(name) for name in sections] + [7]) + 2
    columns = [SHORT.get(verdict, verdict) for verdict in VERDICTS]
    terminal.write_line("section".ljust(width) + "".join(f"{name:>11}" for name in ["planned", *columns]))
    for name, found in sections.items():
        counts = results.counts(found)
        numbers = [len(found), *counts.values()]
        bad = counts["failed"] or counts["stale"] or counts["harness error"] or counts["unreached"]
        line = name.ljust(width) + "".join(f"{number or '·':>11}" for number in numbers)
        terminal.write_line(line, red=bool(bad))
    _reasons(results, terminal)
    for story in run.casualties():
        terminal.write_line(f"ended during the run: {story}", red=True)
    counts = results.counts()
    terminal.write_line(
        f"planned {sum(counts.values())} = " + " + ".join(f"{number} {verdict}" for verdict, number in counts.items()),
        bold=True,
    )
    if passing := sum(result.planned.nodeid.startswith(passive.NODE) for result in results.all()):
        terminal.write_line(f"{passing} of these in passing: shapes of answers to other checks, not counted by pytest")
    held = Counter(results.clauses().values())
    terminal.write_line(
        f"clauses judged {sum(held.values())}: "
        + ", ".join(f"{held[verdict]} {verdict}" for verdict in VERDICTS if held[verdict])
    )


def _reasons(results: Results, terminal: TerminalReporter) -> None:
    """Causes of what was not judged, and of what is stale; each once."""
    for verdict in ("not applicable", "harness error", "unreached", "stale"):
        causes = Counter(_cause(result) for result in results.all() if result.verdict == verdict)
        for cause, number in causes.most_common(12):
            terminal.write_line(f"{verdict} ({number}): {cause}")
        if len(causes) > 12:
            terminal.write_line(f"{verdict}: {len(causes) - 12} more causes, all in report.json")


def _cause(result: Result) -> str:
    lines = [line for line in result.message.splitlines() if line.strip()] or ["no message"]
    # A module that cannot be imported says why in its last line.
    return (lines[-1] if result.planned.section == "(collection)" else lines[0])[:300]


def listing(run: Run, terminal: TerminalReporter) -> None:
    """Print the plan: each check with its clauses and configuration, and why it would not be run."""
    for planned in run.planned.values():
        fate = planned.not_applicable or planned.problem
        state = "not applicable: " if planned.not_applicable else "broken: " if planned.problem else ""
        terminal.write_line(
            f"{planned.nodeid}\n    {', '.join(planned.clauses)} [{planned.configuration}] {state}{fate}".rstrip()
        )
    applicable = sum(not planned.not_applicable for planned in run.planned.values())
    others = len(run.planned) - applicable
    label = run.options.target.label
    terminal.write_line(f"planned {len(run.planned)} = {applicable} to be run + {others} not applicable to {label}")
