"""Every check of raw bytes can fail: two gateways that read HTTP wrongly fail them all between them."""

from __future__ import annotations

import fnmatch
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spec import clauses
from tests.conformance.careless_gateway import Careless, Fussy
from tests.conformance.suite_runner import MODELS, environment

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 400
CHECKS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "conformance/checks").glob("raw_*.py"))
# What only a gateway with a limit or a stream of its own can get wrong, and these two have none.
ELSEWHERE = frozenset({"transport.raw.reuse.after_too_large"})


def judged(kind: type[Careless], folder: Path, *wanted: str) -> dict[str, set[str]]:
    """Clause → verdicts of its checks, of the checks of these clauses run against such a gateway."""
    folder.mkdir()
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for each in (a, b, c):
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (a, b, c)]
    workers = {model: f"http://127.0.0.1:{port}" for model, port in zip(MODELS, ports, strict=True)}
    with kind(workers) as running:
        where = ",".join(f"127.0.0.1:{port}" for port in ports)
        words = [
            *(sys.executable, "-m", "pytest", *CHECKS, "-q", "-n", "8", "--target", running.url),
            *("-p", "pytest_asyncio.plugin", "-p", "xdist.plugin", "-p", "pytest_timeout"),
            *("--workers-at", where, "--report-dir", str(folder)),
            *(word for clause in wanted for word in ("--clauses", clause)),
        ]
        ran = subprocess.run(
            words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=BOUND_S, check=False
        )
    assert (folder / "report.json").exists(), ran.stdout[-3000:] + ran.stderr[-1000:]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    found: dict[str, set[str]] = {}
    for check in report["checks"]:
        for clause in check["clauses"]:
            found.setdefault(clause, set()).add(check["verdict"])
    assert "harness error" not in set().union(*found.values()), ran.stdout[-3000:]
    return found


@pytest.mark.timeout(900)
def test_every_check_of_raw_bytes_can_fail(tmp_path: Path) -> None:
    """Each clause about raw bytes is failed by the careless gateway, or else by the fussy one."""
    wanted = set(fnmatch.filter(clauses(), "transport.raw.*")) - ELSEWHERE
    careless = judged(Careless, tmp_path / "careless", "transport.raw.*")
    left = wanted - {clause for clause, seen in careless.items() if "failed" in seen}
    assert len(left) < len(wanted) / 2
    fussy = judged(Fussy, tmp_path / "fussy", *sorted(left))
    assert left - {clause for clause, seen in fussy.items() if "failed" in seen} == set()
