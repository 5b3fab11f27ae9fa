"""`python -m loadtests SCENARIO`: start what it needs, load, judge, report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from conformance.harness.errors import HarnessError, UserError
from loadtests import figures, options, report, scenarios
from loadtests.errors import GeneratorLate
from loadtests.run import run
from spec import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSED, FAILED, BAD_USAGE, LATE, NOT_JUDGED = range(5)
INTERRUPTED = 130


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
        asked = options.read(given)
        result = run(asked, say)
        if asked.report_dir is not None:
            report.write(result, asked.report_dir)
        sys.stdout.write("\n".join(report.lines(result)) + "\n")
    except (UserError, SpecError) as problem:
        sys.stderr.write(f"error: {problem}\n")
        return BAD_USAGE
    except GeneratorLate as problem:
        sys.stderr.write(f"not judged, the generator was late: {problem}\n")
        return LATE
    except HarnessError as problem:
        sys.stderr.write(f"not judged: {problem}\n")
        return NOT_JUDGED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything started is stopped\n")
        return INTERRUPTED
    return PASSED if result.passed else FAILED


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
    words = "_".join(("", "|".join(figures.PERCENTILES)))
    return [*counts, *(f"{metric}{words}: {about}" for metric, about in figures.METRICS.items())]


if __name__ == "__main__":
    sys.exit(main())
