"""The locust files as locust users run them: with master and workers, and with what they get wrong."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from conformance.harness.processes import free_port
from loadtests.generator.options import positive
from loadtests.observation import read_all
from tests.loadtests.kit import ROOT, WITHIN_S, at_a_terminal, ran

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADLESS = ["--headless", "--only-summary", "-t", "4s"]


@contextmanager
def spread(*words: str) -> Iterator[tuple[list[str], list[subprocess.Popen[bytes]]]]:
    """Two locust workers, and the words with which a master finds them."""
    port = str(free_port())
    command = [sys.executable, "-m", "locust", *words, "--worker", "--master-host", "127.0.0.1", "--master-port", port]
    workers = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)
    ]
    listening = ["--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--expect-workers", "2"]
    try:
        yield [*words, *listening, *HEADLESS, "-u", "2", "-r", "2"], workers
    finally:
        for each in workers:
            each.kill()
            each.wait()


def test_a_master_spreads_the_load_over_its_workers(worker: tuple[str, str], tmp_path: Path) -> None:
    """Master and workers make one run: users are spread, every worker records, and the master has all the figures."""
    shared = ["-f", "loadtests/steady.py", "--host", worker[0], "--control", worker[1]]
    busy = ["--rate", "6", "--max-late-share", "1000", "--record-dir", str(tmp_path)]
    with spread(*shared, *busy) as (master, workers):
        ended = ran("locust", *master)
        assert [each.wait(WITHIN_S) for each in workers] == [0, 0]
    assert ended.returncode == 0, ended.stderr
    seen = read_all(tmp_path)
    assert len([each for each in tmp_path.glob("observations-*.jsonl") if each.stat().st_size]) == 2
    assert len({each.marker for each in seen}) == len(seen) > 4
    assert all(each.answered and not each.broken for each in seen)
    assert requests_in(ended.stdout + ended.stderr, "POST") == len(seen)


def requests_in(said: str, method: str) -> int:
    """How many requests locust's table counts in the row of a method."""
    (row,) = (line for line in said.splitlines() if line.startswith(method) and "steady" in line and "(" in line)
    return int(row.split()[2])


def test_a_lost_locust_worker_is_told(worker: tuple[str, str]) -> None:
    """When a locust worker dies, the master does not wait for it, says so, and does not end well."""
    with spread("-f", "loadtests/steady.py", "--host", worker[0], "--max-late-share", "1000") as (master, workers):
        run = subprocess.Popen(
            [sys.executable, "-m", "locust", *master],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert run.stdout is not None
            while "All users spawned" not in (line := run.stdout.readline()):
                assert line, "the run ended by itself"
            workers[0].kill()
            said = run.communicate(timeout=WITHIN_S)[0]
        finally:
            run.kill()
            run.communicate()
    assert "the last figures of 1 locust workers are missing" in said
    assert run.returncode == 4


def test_ctrl_c_waits_for_what_is_under_way(worker: tuple[str, str], tmp_path: Path) -> None:
    """Ctrl-C ends a locust run with its table, and every request that was sent is in it."""
    words = ["-f", "loadtests/steady.py", "--host", worker[0], "--control", worker[1], "--record-dir", str(tmp_path)]
    run = subprocess.Popen(
        [sys.executable, "-m", "locust", "--headless", "--max-late-share", "1000", *words, "-u", "1"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=at_a_terminal,  # noqa: PLW1509 - one signal call, no lock is taken
    )  # fmt: skip
    try:
        assert run.stdout is not None
        while "POST" not in (line := run.stdout.readline()):
            assert line, "the run ended by itself"
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=WITHIN_S)[0]
    finally:
        run.kill()
        run.communicate()
    assert "Traceback" not in said
    assert run.returncode == 0
    (begun,) = tmp_path.glob("begun-*.txt")
    total = said.rpartition("Response time percentiles")[0].rpartition("Type ")[2]
    sent = len(begun.read_text("utf-8").splitlines())
    assert requests_in(total, "POST") == requests_in(total, "DISPATCH") == len(read_all(tmp_path)) == sent


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--control", "http://127.0.0.1:1"], "nobody answers on the control port"),
        (["--control", "here"], "'here' is no control URL"),
        (["--control", "WORKER"], "what answers there is no control port of fake workers"),
        (["--host", ""], "--host is missing: expected http://HOST:PORT"),
        (["--host", "https://127.0.0.1:1"], "--host https://127.0.0.1:1: expected http://HOST:PORT"),
        (["--host", "http://127.0.0.1:1/v1"], "of a gateway, without /v1"),
        (["--record-dir", "/dev/null/x"], "--record-dir /dev/null/x: cannot be written"),
    ],
)
def test_bad_options_are_told(words: list[str], said: str, worker: tuple[str, str]) -> None:
    """What is wrong with an option ends a locust run before anything is sent, with a sentence and exit status 2."""
    given = [worker[0] if each == "WORKER" else each for each in words]
    ended = ran("locust", "-f", "loadtests/steady.py", *HEADLESS, "--host", "http://127.0.0.1:1", *given)
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 2


def test_a_dead_gateway_fails_every_request() -> None:
    """Where nobody listens each request is a failure that says so."""
    ended = ran(
        "locust", "-f", "loadtests/steady.py", *HEADLESS, "--max-late-share", "1000", "--host", "http://127.0.0.1:1"
    )
    assert "refused: " in ended.stdout + ended.stderr
    assert ended.returncode == 1


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "many"])
def test_numbers_of_locust_options_are_checked(text: str) -> None:
    """A rate must be a number above 0."""
    with pytest.raises(argparse.ArgumentTypeError, match="must be a number above 0"):
        positive(text)
