"""Gateways from a package index, each version in an environment of its own under `.targets/`."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.harness.errors import TargetError

if TYPE_CHECKING:
    from conformance.targets.adapter import Target

INSTALL_BOUND_S = 900


def root() -> Path:
    """Where environments live.

    CONFORMANCE_TARGETS_DIR, else `.targets/` beside the package (or in the working directory when installed).
    """
    if given := os.environ.get("CONFORMANCE_TARGETS_DIR"):
        return Path(given)
    project = Path(__file__).parents[2]
    return (project if (project / "pyproject.toml").exists() else Path.cwd()) / ".targets"


def installed(target: Target) -> Path:
    """The environment of this version, installed if it is not yet; two runs at a time wait for each other.

    Raises:
        TargetError: the installation failed; the message carries pip's last lines.
    """
    if target.adapter is None or target.adapter.install is None or target.version is None:
        raise TargetError(f"{target.name} is not a gateway that can be installed")
    home = root() / f"{target.name}-{target.version}"
    home.parent.mkdir(parents=True, exist_ok=True)
    done = home / ".installed"
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return home
        shutil.rmtree(home, ignore_errors=True)
        requirements = [line.replace("{version}", target.version) for line in target.adapter.install.pip]
        _run([sys.executable, "-m", "venv", str(home)], target)
        _run(
            [
                str(home / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *requirements,
            ],
            target,
        )
        done.touch()
    return home


def _run(command: list[str], target: Target) -> None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_BOUND_S, check=False)  # noqa: S603 - adapter's words
    except subprocess.TimeoutExpired:
        raise TargetError(f"installing {target.label} took over {INSTALL_BOUND_S} s: {' '.join(command)}") from None
    if ran.returncode:
        tail = "\n    ".join((ran.stdout + ran.stderr).splitlines()[-10:])
        raise TargetError(f"installing {target.label} failed: {' '.join(command)}\n    {tail}")
