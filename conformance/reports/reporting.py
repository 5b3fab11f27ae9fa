"""The controlling process's part.

It takes every report, prints progress and summary, writes the files and sets the exit status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.reports import html, json_report, junit, terminal
from conformance.reports.results import Results

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from conformance.harness.run import Run

WORDS = {
    "passed": ("passed", ".", "PASSED"),
    "failed": ("failed", "F", "FAILED"),
    "deviating": ("deviating", "d", "DEVIATING"),
    "harness error": ("error", "E", "HARNESS ERROR"),
}


class Reporting:
    """A pytest plugin, registered where the run is controlled (not in xdist workers)."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.results = Results(run)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember modules that could not be collected."""
        self.results.collection(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take each report before the terminal sees it."""
        self.results.record(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Letter and word of a verdict."""
        found: dict[str, Any] = getattr(report, "conformance", {})
        if found.get("quiet"):
            # A category of its own keeps pytest from printing the same trace for every check.
            return "unavailable", "E", "UNAVAILABLE"
        return WORDS.get(found.get("verdict", ""))

    def pytest_report_header(self) -> str:
        """What is judged."""
        claims = self.run.options.target.claims
        return f"conformance: {self.run.options.target.label}, contract revision {claims.revision}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Complete the results, write the files, set the exit status."""
        if not self._concerned(session.config):
            return
        self.results.finish()
        session.exitstatus = self.results.exit_status(int(exitstatus))
        folder = self.run.options.report_dir
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            report = json_report.write(self.results, folder / "report.json")
            junit.write(report, folder / "junit.xml")
            html.write(report, folder / "report.html")

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter, config: pytest.Config) -> None:
        """Print the list, or the summary."""
        if self.run.options.listing:
            terminal.listing(self.run, terminalreporter)
        elif self._concerned(config):
            self.results.finish()
            terminal.write(self.results, terminalreporter)

    def _concerned(self, config: pytest.Config) -> bool:
        listing = self.run.options.listing or config.option.collectonly
        return not listing and bool(self.run.planned or self.results.broken)
