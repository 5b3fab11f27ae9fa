"""The suite against peers that are no gateways: no check of any clause passes for the wrong reason.

Of the cases of one function that judge the same clauses one is tried; with VACUITY=all every case is, which takes
minutes (docs/deviations.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vacuity.peers import PEERS

ROOT = Path(__file__).parents[2]
BOUND_S = 900
AT_LEAST_CHECKS, AT_LEAST_CLAUSES = 1000, 800
EVERY_CASE = os.environ.get("VACUITY") == "all"
# A peer that cannot even be reached says nothing about a gateway; one that answers anything, or nothing, fails.
TABLE = {
    "dead_port": "harness error",
    "web_server": "failed",
    "says_ok": "failed",
    "says_broken": "failed",
    "says_nothing": "failed",
    "hangs_up": "failed",
}
# Checks about many clients at once count those that were served: none was.
FAIL_AT_A_DEAD_PORT = (
    "conformance/checks/stream_arrival.py::test_streams_do_not_mix",
    "conformance/checks/stream_disconnect.py::test_staying_clients_are_left_alone",
)


@pytest.mark.timeout(BOUND_S)
def test_no_check_passes() -> None:
    """Every check has exactly the verdict of the table for each peer, and none passes."""
    words = [sys.executable, "-m", "tests.vacuity", *(["--every-case"] if EVERY_CASE else [])]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=BOUND_S, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    checks, verdicts = found["checks"], found["verdicts"]
    expected = {peer: dict.fromkeys(checks, verdict) for peer, verdict in TABLE.items()}
    expected["dead_port"] |= dict.fromkeys(FAIL_AT_A_DEAD_PORT, "failed")
    wrong = {
        f"{peer}: {nodeid}": verdict
        for peer, by_check in verdicts.items()
        for nodeid, verdict in by_check.items()
        if verdict[0] != expected[peer][nodeid]
    }
    assert wrong == {}
    assert {peer: by_check.keys() for peer, by_check in verdicts.items()} == dict.fromkeys(PEERS, checks.keys())
    assert len(checks) > AT_LEAST_CHECKS
    assert len({clause for ids in checks.values() for clause in ids}) > AT_LEAST_CLAUSES
