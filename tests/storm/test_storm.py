"""The storm as a program: a right server passes it, and what a wrong one loses is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from tests.storm.clients import Moment, Way, drawn
from tests.storm.mutants import MUTANTS

WITHIN_S = 280.0  # a bound for a busy machine; about 20 s on a quiet one


def blown(*words: str) -> tuple[int, dict[str, Any]]:
    """Run the program; its exit status and figures."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.storm", *words], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.timeout(WITHIN_S + 10)
@pytest.mark.parametrize("mode", ["limit", "scheduler"])
def test_clients_that_leave_at_any_moment_leave_nothing_behind(mode: str) -> None:
    """After 1,500 requests: gauges at 0, descriptors and memory as before, no work at the worker, every slot free."""
    status, figures = blown("--requests", "1500", "--warm-up", "300", "--mode", mode)
    assert figures["problems"] == []
    assert status == 0
    assert sum(figures["left"].values()) == 1500
    assert figures["after"]["fds"] <= figures["before"]["fds"]


LOSSES = [
    ("keeps_the_place_of_who_leaves_the_queue", "smg_admission_"),
    ("keeps_connections_until_they_would_be_idle", "connections are still open"),
    ("keeps_a_handle_of_who_leaves", "file descriptors before"),
    ("remembers_who_leaves", "of memory before"),
    ("dies_under_way", "the server can no longer be observed"),
]


@pytest.mark.timeout(WITHIN_S + 10)
@pytest.mark.parametrize(("mutant", "said"), LOSSES)
def test_what_a_server_loses_is_told(mutant: str, said: str) -> None:
    """A server that loses a queue place, a connection, a descriptor, memory or itself fails, and the figures say so."""
    program = f"{sys.executable} -m tests.storm.mutants {mutant}"
    bounds = ["--settle-within", "12", "--patience", "5"]
    status, figures = blown("--requests", "250", "--warm-up", "150", *bounds, "--program", program)
    assert status == 1
    assert any(said in problem for problem in figures["problems"]), figures["problems"]


def test_the_same_seed_draws_the_same_clients() -> None:
    """But for their markers, which are new each time; and among 200 clients every moment and way is there."""
    first, second = ([drawn(rnd) for _ in range(200)] for rnd in (Random(5), Random(5)))  # noqa: S311 - no secrets
    assert [repr(plan).partition("moment")[2] for plan in first] == [
        repr(plan).partition("moment")[2] for plan in second
    ]
    assert {plan.moment for plan in first} == set(Moment)
    assert {plan.way for plan in first} == set(Way)


@pytest.mark.parametrize("words", [["--requests", "0"], ["--requests", "many"], ["--mode", "other"]])
def test_a_bad_command_line_is_refused(words: list[str]) -> None:
    """Exit status 2, with the flag in the message, before anything is started."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.storm", *words],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert ended.returncode == 2
    assert words[0] in ended.stderr


def test_every_mutant_is_tried() -> None:
    """Each mutant of this folder has a loss that is looked for."""
    assert {mutant for mutant, _ in LOSSES} == set(MUTANTS)
