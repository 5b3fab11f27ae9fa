"""The whole suite of hand-written checks against a peer that is no gateway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness.configurations import configurations
from spec import features

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
CHECKS = ROOT / "conformance" / "checks"
GENERATED = ("fields.py",)
PACE = 0.05
BOUND_S = 240


def judged(url: str, folder: Path, *options: str, processes: int = 2) -> dict[str, dict[str, str]]:
    """Judge a peer by every hand-written check, as if it claimed every feature and ran in every configuration.

    Args:
        url: of the peer.
        folder: where the report goes.
        options: further options of the run.
        processes: how many judge at once.

    Returns:
        Verdict, message and fingerprint by check.
    """
    words = [sys.executable, "-m", "pytest", str(ROOT / "conformance"), "-q", "-p", "no:cacheprovider"]
    words += [f"--ignore={CHECKS / name}" for name in GENERATED]
    words += [word for name in configurations() for word in ("--target", f"{name}={url}")]
    words += ["--features", ",".join(features()), "--unproven", "--pace", str(PACE), "-n", str(processes)]
    words += ["--report-dir", str(folder), "--tb=no", "--show-capture=no", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CONFORMANCE_"))}
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=BOUND_S, check=False, cwd=ROOT, env=environment
    )
    report = folder / "report.json"
    assert report.exists(), f"no report: {ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    checks: Sequence[dict[str, str]] = json.loads(report.read_text("utf-8"))["checks"]
    return {check["check"].removeprefix("conformance/checks/"): check for check in checks}


def table(found: dict[str, dict[str, str]]) -> Counter[str]:
    """How many checks have which verdict."""
    return Counter(check["verdict"] for check in found.values())
