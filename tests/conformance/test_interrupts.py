"""However a run ends, nothing it started is left, and what was not reached is counted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from conformance.harness import guard
from tests.conformance.suite_runner import Ran, command, descendants, environment, gateway

if TYPE_CHECKING:
    from pathlib import Path

SLOW = """
@clause("chat.model.required")
async def test_first(gateway, worker):
    script = worker.script()
    await gateway.chat(script)
    await script.only()

@clause("chat.model.required")
@pytest.mark.parametrize("n", range(4))
async def test_that_waits(gateway, worker, n):
    script = worker.script(Wire(steps=[Hold(name="forever")]))
    open("waiting", "w").close()
    await gateway.chat(script)
"""
WAIT_S = 60.0
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("up", flush=True)
time.sleep(60)
"""


def _at_a_terminal() -> None:
    """Take SIGINT as a program at a terminal does: a shell makes what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(file: Path) -> None:
    """Wait until the run has come so far."""
    deadline = time.monotonic() + WAIT_S
    while not file.exists():
        assert time.monotonic() < deadline, "the run did not get to its slow check"
        time.sleep(0.05)


def gone(processes: list[psutil.Process], within_s: float = 15.0) -> list[str]:
    """Command lines of those that are still there after that time."""
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    return [" ".join(each.cmdline()) for each in alive]


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_ctrl_c_in_the_middle(tmp_path: Path, jobs: str) -> None:
    """Ctrl-C ends the run with status 2, counts what was not reached, writes the report, and leaves no process."""
    with gateway() as (url, addresses):
        words = command(tmp_path, SLOW, "--target", url, "--workers-at", addresses, "-n", jobs)
        run = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=environment(),
            preexec_fn=_at_a_terminal,  # noqa: PLW1509 - one signal call, no lock is taken
        )  # fmt: skip
        wait_for(tmp_path / "waiting")
        started = descendants(run.pid)
        assert started
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=WAIT_S)
    assert run.returncode == 2, output
    assert gone(started) == []
    report = Ran(run.returncode, output, tmp_path).report
    assert report["counts"]["unreached"] > 0
    assert report["planned"] == sum(report["counts"].values())
    assert sum("test_written.py" in check["check"] for check in report["checks"]) == 5
    assert "unreached" in output


def test_kill_leaves_nothing_running(tmp_path: Path) -> None:
    """A run that is killed outright takes its workers with it."""
    with gateway() as (url, addresses):
        words = command(tmp_path, SLOW, "--target", url, "--workers-at", addresses)
        run = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path, env=environment()
        )
        wait_for(tmp_path / "waiting")
        started = descendants(run.pid)
        assert len(started) >= 2
        run.kill()
        run.wait(WAIT_S)
    assert gone(started) == []


def test_guard_stops_a_stubborn_command() -> None:
    """A command that ignores SIGTERM is killed, with its children, when the guard's standard input closes."""
    guarded = subprocess.Popen(
        [sys.executable, guard.__file__, sys.executable, "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert guarded.stdin is not None
    assert guarded.stdout is not None
    guarded.stdout.readline()
    started = descendants(guarded.pid)
    assert len(started) == 2
    guarded.stdin.close()
    assert gone(started) == []
    guarded.wait(5)
    guarded.stdout.close()


def test_guard_passes_the_exit_status_on() -> None:
    """The guard ends with the command's own exit status."""
    words = [sys.executable, guard.__file__, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as guarded:
        assert guarded.wait(20) == 7
