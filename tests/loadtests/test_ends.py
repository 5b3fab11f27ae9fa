"""However a load run ends, nothing it started is left, and what was seen until then is reported as not judged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.conformance.suite_runner import descendants
from tests.loadtests.kit import ROOT, at_a_terminal
from tests.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_S = 60.0
NOT_JUDGED = 4


@contextmanager
def _under_load(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A run of an hour in which something has been answered, and all that it has started."""
    run = subprocess.Popen(
        [sys.executable, "-m", "loadtests", "steady", "--duration", "3600", "--report-dir", str(folder), *words],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=at_a_terminal,  # noqa: PLW1509 - one signal call, no lock is taken
    )  # fmt: skip
    try:
        assert run.stderr is not None
        while " answered" not in (line := run.stderr.readline()) or " 0 answered" in line:
            assert line, "the run ended by itself"
        started = descendants(run.pid)
        assert len(started) >= 3
        yield run, started
    finally:
        run.kill()
        run.communicate()


def _over(run: subprocess.Popen[str], started: list[psutil.Process], folder: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what was said on standard error, and the summary; nothing is left that the run has started."""
    output, error = run.communicate(timeout=WAIT_S)
    assert "Traceback" not in error + output
    _, alive = psutil.wait_procs(started, timeout=WAIT_S)
    assert alive == []
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["verdict"] == "not judged"
    assert summary["clauses"] == summary["thresholds"] == []
    requests = (folder / "requests.jsonl").read_text("utf-8").splitlines()
    assert len(requests) == summary["figures"]["requests"] > 0
    assert (summary["under_way"] == 0) == ("under way when the run ended" not in output)
    assert "<error" in (folder / "junit.xml").read_text("utf-8")
    assert "not judged" in (folder / "report.html").read_text("utf-8")
    return run.returncode, error, summary


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
    ids=str,
)
def test_a_signal_in_the_middle(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """Ctrl-C, or being told to stop, ends a run at once; all it has started is stopped, what it saw is reported."""
    with _under_load(tmp_path) as (run, started):
        run.send_signal(number)
        code, error, summary = _over(run, started, tmp_path)
    assert code == status
    assert "interrupted; everything started is stopped" in error
    assert "interrupted" in summary["not_judged_because"]


@pytest.mark.parametrize("name", ["reference-load", "workers-load", "generator"])
def test_a_process_killed_in_the_middle(name: str, tmp_path: Path) -> None:
    """When gateway, worker or generator dies, a run ends with status 4, the name, and what was seen until then."""
    words = {"reference-load": "reference_server", "workers-load": "fake_workers", "generator": "locust"}[name]
    with _under_load(tmp_path) as (run, started):
        (victim,) = (each for each in started if _runs(each, words))
        victim.kill()
        code, error, summary = _over(run, started, tmp_path)
    assert code == NOT_JUDGED
    assert f"{name} exited with status" in error
    assert name in summary["not_judged_because"]


def _runs(process: psutil.Process, words: str) -> bool:
    """Whether it is the program itself, and not the guard that looks after it."""
    line = process.cmdline()
    return any(words in each for each in line) and not any(each.endswith("guard.py") for each in line)


def test_a_running_gateway_that_ends_in_the_middle(tmp_path: Path) -> None:
    """A gateway that the run did not start, and that goes away, is told as well: its end is no verdict."""
    command = [sys.executable, "-m", "reference_server.cli", "launch", "--port", "0", "--prometheus-port", "0"]
    with running(command) as ready, _under_load(tmp_path, "--target", ready["url"]) as (run, started):
        (gateway,) = (each for each in descendants(psutil.Process().pid) if _runs(each, "reference_server.cli"))
        gateway.kill()
        code, error, _ = _over(run, started, tmp_path)
    assert code == NOT_JUDGED
    assert "refuses connections: the gateway ended during the run" in error
