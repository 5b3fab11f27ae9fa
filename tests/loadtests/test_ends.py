"""However a load run ends, nothing it started is left."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil

from tests.conformance.suite_runner import descendants
from tests.loadtests.kit import ROOT

WAIT_S = 60.0
INTERRUPTED = 130


def _at_a_terminal() -> None:
    """Take SIGINT as a program at a terminal does: a shell makes what it runs in the background ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_in_the_middle() -> None:
    """Ctrl-C ends a run at once, with status 130 and a sentence, and stops gateway, workers and generator."""
    run = subprocess.Popen(
        [sys.executable, "-m", "loadtests", "steady", "--duration", "60"], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=_at_a_terminal,  # noqa: PLW1509 - one signal call, no lock is taken
    )  # fmt: skip
    assert run.stderr is not None
    while "answered" not in (line := run.stderr.readline()):
        assert line, "the run ended by itself"
    started = descendants(run.pid)
    assert len(started) >= 3
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=WAIT_S)
    assert run.returncode == INTERRUPTED
    assert "everything started is stopped" in error
    assert "Traceback" not in error
    _, alive = psutil.wait_procs(started, timeout=WAIT_S)
    assert alive == []
