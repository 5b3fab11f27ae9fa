"""The locust files as locust users run them: with master and workers, and with what they get wrong."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from conformance.harness.processes import free_port
from loadtests.generator.options import positive
from loadtests.observation import read_all
from tests.loadtests.kit import ROOT, WITHIN_S, ran
from tests.support import running

if TYPE_CHECKING:
    from pathlib import Path

HEADLESS = ["--headless", "--only-summary", "-t", "5s"]


def test_a_master_spreads_the_load_over_its_workers(tmp_path: Path) -> None:
    """Master and workers make one run: users are spread, every worker records, and the master has all the figures."""
    with running([sys.executable, "-m", "fake_workers.cli", "--model", "conformance-load"]) as ready:
        host, control = ready["workers"][0]["url"], ready["control"]
        shared = ["-f", "loadtests/steady.py", "--host", host, "--control", control]
        busy = ["--rate", "6", "--max-late-share", "1000", "--record-dir", str(tmp_path)]
        port = str(free_port())
        command = [sys.executable, "-m", "locust", *shared, *busy]
        workers = [
            subprocess.Popen(
                [*command, "--worker", "--master-host", "127.0.0.1", "--master-port", port],
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]  # fmt: skip
        try:
            master = [
                "--master",
                "--master-bind-host",
                "127.0.0.1",
                "--master-bind-port",
                port,
                "--expect-workers",
                "2",
            ]
            ended = ran("locust", *shared, *busy, *master, *HEADLESS, "-u", "2", "-r", "2")
            assert [each.wait(WITHIN_S) for each in workers] == [0, 0]
        finally:
            for each in workers:
                each.kill()
    assert ended.returncode == 0, ended.stderr
    seen = read_all(tmp_path)
    files = [each for each in tmp_path.glob("observations-*.jsonl") if each.stat().st_size]
    assert len(files) == 2
    assert len({each.marker for each in seen}) == len(seen) > 4
    assert all(each.answered and not each.broken for each in seen)
    (row,) = [
        line
        for line in (ended.stdout + ended.stderr).splitlines()
        if line.startswith("POST") and "steady" in line and "(" in line
    ]
    assert int(row.split()[2]) == len(seen)


def test_fake_workers_that_do_not_run_are_told() -> None:
    """A control port where nobody answers ends a locust run with a message and exit status 2."""
    words = ["--host", "http://127.0.0.1:1", "--control", "http://127.0.0.1:1"]
    ended = ran("locust", "-f", "loadtests/steady.py", *HEADLESS, "-u", "1", "-r", "1", *words)
    assert "nobody answers on the control port" in ended.stderr
    assert ended.returncode == 2


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_numbers_of_locust_options_are_checked(text: str) -> None:
    """A rate must be a number above 0."""
    with pytest.raises(argparse.ArgumentTypeError, match="must be a number above 0"):
        positive(text)
