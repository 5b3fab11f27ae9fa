"""`python -m tests.storm --requests 10000 --mode limit`: clients that leave at random moments, and what stays behind.

Starts a reference server before fake workers, sends it requests whose clients leave (docs/reference-server-admission.md
says when), and looks whether in-flight and queue gauges, file descriptors and memory are back where they were. Prints
the figures as one JSON line. Exit status: 0 all is as before, 1 something stayed behind, 2 a bad command line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys

from tests.storm.run import MEMORY_MB, PATIENCE_S, Options, storm
from tests.storm.site import GAUGES, PROGRAM, site


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--requests", type=_count, default=10_000, help="how many are measured (default 10000)")
    parser.add_argument("--warm-up", type=_count, default=500, help="how many come first (default 500)")
    parser.add_argument("--mode", choices=sorted(GAUGES), default="limit", help="who decides about admission")
    parser.add_argument("--seed", type=int, default=0, help="the same clients for the same seed (default 0)")
    parser.add_argument("--settle-within", type=float, default=20.0, metavar="S", help="seconds to become still (20)")
    parser.add_argument("--memory", type=float, default=MEMORY_MB, metavar="MB", help=f"may stay ({MEMORY_MB:g})")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="S", help="of each client (20)")
    parser.add_argument("--program", type=shlex.split, default=PROGRAM, help="another server with the same flags")
    given = parser.parse_args()
    options = Options(
        given.requests, given.warm_up, given.mode, given.seed, given.settle_within, given.memory, given.patience
    )
    with site(options.mode, given.program) as running:
        report = asyncio.run(storm(running, options))
    sys.stdout.write(json.dumps(report.figures()) + "\n")
    return 1 if report.problems else 0


def _count(word: str) -> int:
    number = int(word)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    sys.exit(main())
