"""Each scenario before a gateway that is wrong under pressure: it fails, names the clause, and blames no other."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from loadtests import invariants
from loadtests.scenarios import admission, common, disconnect_storm, keepalive, preemption, slow_readers
from tests.loadtests.kit import UNHURRIED, ran
from tests.loadtests.mutants import MUTANTS

if TYPE_CHECKING:
    from pathlib import Path

Trial = tuple[str, str, int, int, set[str], set[str]]
FAILED = 1
TRIALS: list[Trial] = [
    # mutant, scenario, seconds, rate, what must fail, what may fail with it
    ("keeps_the_slot_of_who_leaves", "disconnect-storm", 3, 8, {disconnect_storm.RELEASED}, {disconnect_storm.OTHERS}),
    ("preempts_what_has_begun", "preemption", 4, 3, {preemption.BEFORE}, {preemption.STARVED, invariants.ENDED}),
    ("starves_bulk", "preemption", 9, 3, {preemption.STARVED}, set()),
    ("pings_inside_events", "keepalive", 2, 2, {invariants.BETWEEN}, {invariants.CONTENT, invariants.FRAMING}),
    ("sheds_without_retry_after", "admission", 2, 12,
     {f"{admission.FULL}.retry_after"},
     {f"{admission.TIMED_OUT}.retry_after", f"{admission.SHED}.retry_after_seconds"}),
    ("serves_the_last_first", "admission", 2, 12, {admission.FIFO}, set()),
    ("lends_texts", "steady", 2, 5, {invariants.OWN}, set()),
    ("counts_wrong_in_a_crowd", "steady", 2, 12, {invariants.USAGE}, set()),
    ("swaps_events_in_a_crowd", "steady", 2, 15, {invariants.OWN}, {invariants.SAME_ID, invariants.CONTENT}),
    ("tears_frames_in_a_crowd", "steady", 2, 15, {invariants.FRAMING},
     {invariants.OWN, invariants.SAME_ID, invariants.CONTENT, invariants.ROLE}),
    ("asks_twice_in_a_crowd", "steady", 2, 15, {common.ONE_DISPATCH}, set()),
    ("ends_too_early_for_slow_clients", "slow-readers", 3, 3, {invariants.DONE_LAST}, set()),
    ("lets_one_more_in_when_many_wait", "admission", 2, 12, {admission.LIMIT},
     {admission.FIFO, f"{admission.FULL}.status"}),
    ("sheds_with_places_left", "admission", 2, 12, {f"{admission.FULL}.when_full"}, {admission.FIFO}),
    ("pings_late_in_a_crowd", "keepalive", 2, 4, {keepalive.INTERVAL}, {keepalive.REPEATS}),
    ("serves_leavers_later", "disconnect-storm", 3, 10, {disconnect_storm.NOT_DISPATCHED}, {disconnect_storm.RELEASED}),
    ("keeps_workers_busy", "disconnect-storm", 3, 10, {disconnect_storm.FELT}, set()),
    ("lets_workers_go_on", "preemption", 4, 3, {preemption.CANCELLED}, {preemption.STARVED}),
    ("reads_ahead", "slow-readers", 3, 3, {slow_readers.BACKPRESSURE}, {"slow-readers.brisk.added_first_ms_p50_max"}),
]  # fmt: skip


@pytest.mark.parametrize("trial", TRIALS, ids=[trial[0] for trial in TRIALS])
def test_a_wrong_gateway_fails_by_its_clause(trial: Trial, tmp_path: Path) -> None:
    """A load scenario fails on the gateway made to break its clause, and passes it in everything else."""
    mutant, scenario, duration_s, rate, must, may = trial
    limits = tmp_path / "limits.toml"
    limits.write_text(UNHURRIED, "utf-8")
    words = [scenario, "--duration", duration_s, "--rate", rate, "--thresholds", limits, "--report-dir", tmp_path]
    command = f"{sys.executable} -m tests.loadtests.mutants {mutant}"
    ended = ran("loadtests", *map(str, words), env={"CONFORMANCE_COMMAND_REFERENCE": command})
    assert ended.returncode == FAILED, ended.stdout + ended.stderr
    clauses = json.loads((tmp_path / "summary.json").read_text("utf-8"))["clauses"]
    failed = {each["clause"] for each in clauses if each["state"] == "failed"}
    assert must <= failed, ended.stdout
    assert failed <= must | may, ended.stdout
    assert all(clause in ended.stdout.splitlines()[-1] for clause in must)


def test_every_mutant_is_tried_with_what_it_breaks() -> None:
    """Each mutant of this folder has a trial, and the clauses it is made to break must fail there."""
    tried = {mutant: must for mutant, _, _, _, must, _ in TRIALS}
    assert {name: set(each.breaks) <= tried[name] for name, each in MUTANTS.items()} == dict.fromkeys(MUTANTS, True)
