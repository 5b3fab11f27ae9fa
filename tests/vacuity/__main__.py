"""`python -m tests.vacuity [PEER...] [--every-case]`: judge peers, print checks with clauses and verdicts as JSON.

A process of its own, because it collects checks with pytest, which does not like being asked twice in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys

from tests.vacuity import runs
from tests.vacuity.peers import PEERS


def main() -> int:
    """Judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.vacuity", description="Judge a peer that is no gateway.")
    parser.add_argument("peers", nargs="*", help=f"of {', '.join(PEERS)} (default: all)")
    parser.add_argument("--every-case", action="store_true", help="every case of every check, not one of each kind")
    options = parser.parse_args()
    if unknown := set(options.peers) - PEERS.keys():
        parser.error(f"no peer {', '.join(sorted(unknown))}; known are {', '.join(PEERS)}")
    # Checks send several requests at once; of those that fail together only one failure is asked for.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    verdicts = {}
    for peer in options.peers or PEERS:
        with PEERS[peer]() as url:
            found = asyncio.run(runs.judged(url, every_case=options.every_case))
        verdicts[peer] = {nodeid: [verdict.outcome, verdict.message] for nodeid, verdict in found.items()}
    checks = {nodeid: check.clauses for nodeid, check in runs.checks(every_case=options.every_case).items()}
    sys.stdout.write(json.dumps({"checks": checks, "verdicts": verdicts}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
