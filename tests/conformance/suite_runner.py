"""Runs the suite as a user does, in a process of its own, on checks written for the occasion."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from tests.conformance.mini_gateway import MiniGateway
from tests.on_a_thread import HOST, on_a_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODELS = ("conformance-sglang", "conformance-vllm", "conformance-tokenspeed")
HEAD = """
import asyncio
import pytest
from conformance.harness import CHAT, OMIT, HarnessError, Hold, Reply, Wire, clause, wire
"""
BOUND_S = 90


@dataclass
class Ran:
    """What a run printed, its exit status, and its report."""

    status: int
    output: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        """report.json."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text("utf-8"))
        return found

    def verdicts(self) -> dict[str, str]:
        """Verdict by the name of the check's function."""
        return {check["check"].rpartition("::")[2]: check["verdict"] for check in self.report["checks"]}

    def check(self, name: str) -> dict[str, Any]:
        """One check of the report."""
        found: dict[str, Any] = next(c for c in self.report["checks"] if c["check"].endswith(f"::{name}"))
        return found


@contextmanager
def gateway(*vices: str) -> Iterator[tuple[str, str]]:
    """A mini gateway that routes to three addresses nobody listens on yet: its URL, and the value of --workers-at."""
    workers = addresses()
    with on_a_thread(MiniGateway(workers, *vices).hosting) as url:
        yield url, workers_at(workers)


def addresses() -> dict[str, str]:
    """Model → URL of three addresses that were free a moment ago."""
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for each in (a, b, c):
            each.bind((HOST, 0))
        ports = [each.getsockname()[1] for each in (a, b, c)]
    return {model: f"http://{HOST}:{port}" for model, port in zip(MODELS, ports, strict=True)}


def workers_at(workers: dict[str, str]) -> str:
    """The value of --workers-at for these."""
    return ",".join(url.removeprefix("http://") for url in workers.values())


def command(folder: Path, source: str, *options: str) -> list[str]:
    """The command line of a run of these checks."""
    (folder / "test_written.py").write_text(HEAD + source, "utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:cacheprovider\nasyncio_default_fixture_loop_scope = function\n", "utf-8"
    )
    plugins = ("conformance.plugin", "pytest_asyncio.plugin", "xdist.plugin", "pytest_timeout")
    words = [sys.executable, "-m", "pytest", *(word for each in plugins for word in ("-p", each))]
    return [
        *words,
        str(folder / "test_written.py"),
        "-c",
        str(folder / "pytest.ini"),
        "--rootdir",
        str(folder),
        "--report-dir",
        str(folder),
        *options,
    ]


def suite(folder: Path, source: str, *options: str, vices: tuple[str, ...] = (), told: bool = True) -> Ran:
    """Run these checks against a mini gateway with these vices; `told` says where its workers are."""
    with gateway(*vices) as (url, addresses):
        where = ("--workers-at", addresses) if told else ()
        words = command(folder, source, "--target", url, *where, *options)
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=BOUND_S, check=False, cwd=folder, env=environment()
        )
    return Ran(ran.returncode, ran.stdout + ran.stderr, folder)


def environment() -> dict[str, str]:
    """The environment of a run: nothing of ours is inherited by accident, and no plugin that a run does not need."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CONFORMANCE_"))}
    return {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def descendants(pid: int) -> list[psutil.Process]:
    """Every process below that one."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
