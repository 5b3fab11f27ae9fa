"""`python -m loadtests SCENARIO`: start what it needs, load, judge, report."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from conformance.harness.errors import HarnessError, UserError
from loadtests import figures, options, report, scenarios
from loadtests.errors import GeneratorLate
from loadtests.run import Run
from spec import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSED, FAILED, BAD_USAGE, LATE, NOT_JUDGED = range(5)
INTERRUPTED, TERMINATED = (128 + number for number in (signal.SIGINT, signal.SIGTERM))


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: the same as Ctrl-C, but for the exit status."""


def say(line: str) -> None:
    """Show progress."""
    sys.stderr.write(f"loadtests: {line}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = options.words(arguments)
    try:
        if given.list or given.figures:
            sys.stdout.write("\n".join(_scenarios() if given.list else _figures()) + "\n")
            return PASSED
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _terminate)
        return _run(options.read(given))
    except (UserError, SpecError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return BAD_USAGE
    except HarnessError as problem:
        sys.stderr.write(f"not judged: {problem}\n")
        return NOT_JUDGED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted once more while it was stopping\n")
        return INTERRUPTED


def _terminate(*_: object) -> None:
    raise Terminated


def _run(asked: options.Options) -> int:
    """Run a scenario and report, also when it ended before its time."""
    with Run(asked, say) as run:
        try:
            result = run.judged()
            status = PASSED if result.passed else FAILED
        except (HarnessError, KeyboardInterrupt) as problem:
            status, why = _ended_by(problem)
            sys.stderr.write(f"{why}\n")
            seen = run.unjudged(why)
            if seen is None:
                return status
            result = seen
    sys.stdout.write("\n".join(report.lines(result)) + "\n")
    sys.stdout.flush()
    if asked.report_dir is not None:
        try:
            report.write(result, asked.report_dir)
        except OSError as problem:
            raise UserError(f"--report-dir {asked.report_dir}: cannot be written ({problem.strerror})") from problem
    return status


def _ended_by(problem: BaseException) -> tuple[int, str]:
    """Exit status and sentence for what ended a run without a verdict."""
    if isinstance(problem, GeneratorLate):
        return LATE, f"not judged, the generator was late: {problem}"
    if isinstance(problem, HarnessError):
        return NOT_JUDGED, f"not judged: {problem}"
    status = TERMINATED if isinstance(problem, Terminated) else INTERRUPTED
    return status, "not judged: interrupted; everything started is stopped"


def _scenarios() -> list[str]:
    found = [scenarios.load(name) for name in scenarios.NAMES]
    return [
        f"{each.name:17} {each.about} [{each.configuration}, {each.duration_s:g} s, rate {each.rate:g}]"
        for each in found
    ]


def _figures() -> list[str]:
    counts = [
        f"{name:22} {'requests' if name != 'answered_per_s' else 'answers per second'}" for name in figures.COUNTS
    ]
    words = "_".join(("", "|".join((figures.VALUES, *figures.PERCENTILES))))
    return [*counts, *(f"{metric}{words}: {about}" for metric, about in figures.METRICS.items())]


if __name__ == "__main__":
    sys.exit(main())
