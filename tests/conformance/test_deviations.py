"""Declared deviations: what they excuse, what they do not, and how a broken file is told."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest

from conformance.harness.errors import UserError
from conformance.harness.planning import Planned
from conformance.harness.verdicts import excuse
from conformance.targets import accept, deviations
from conformance.targets.adapter import load, names
from tests.conformance.suite_runner import suite

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = """
- clause: chat.temperature.maximum
  reason: It does not care for temperatures.
  fingerprint: {fingerprint}
  seen: "1"
  expires: {expires}
  evidence: Seen in a test.
"""
LATER, BEFORE = "2999-12-31", "2001-01-01"
CHECK = Planned("a.py::test_x[high]", ["chat.temperature.maximum"], "s", "default", "vllm")


def written(folder: Path, text: str) -> Path:
    """A deviations file with this text."""
    file = folder / "deviations.yaml"
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize(
    ("fingerprint", "expires", "verdict", "note"),
    [
        ("not refused | 200", LATER, "deviating", "does not care"),
        ("'not refused | *'", LATER, "deviating", "does not care"),
        ("[other, not refused | 200]", LATER, "deviating", "does not care"),
        ("refused with another status | 422", LATER, "failed", "fails differently than declared"),
        ("not refused | 200", BEFORE, "failed", "expired on 2001-01-01"),
    ],
)
def test_what_an_entry_excuses(tmp_path: Path, fingerprint: str, expires: str, verdict: str, note: str) -> None:
    """A failure is deviating only while it fails as declared and before the entry expires."""
    declared = deviations.load(written(tmp_path, ENTRY.format(fingerprint=fingerprint, expires=expires)))
    found, said, _ = excuse(declared, CHECK, "not refused | 200")
    assert found == verdict
    assert note in said


def test_an_entry_for_a_check_is_about_that_check_only(tmp_path: Path) -> None:
    """An entry with `check` speaks of the node ids it matches and of no other check of the clause."""
    text = ENTRY.replace("clause: chat.temperature.maximum", "check: '*::test_x[[]low]'")
    declared = deviations.load(written(tmp_path, text.format(fingerprint="'*'", expires=LATER)))
    assert declared.about("a.py::test_x[low]", []) == list(declared.entries)
    assert excuse(declared, CHECK, "anything")[0] == "failed"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- clause: [", 1, "not YAML"),
        ("clause: x", 1, "expected a list"),
        ("\n\n- just text", 3, "an entry is a mapping"),
        ("\n- clause: chat.temperature.maximum\n  reason: r\n", 2, "Field required"),
        (ENTRY.format(fingerprint="f", expires="soon"), 2, "expires"),
        (ENTRY.format(fingerprint="[]", expires=LATER), 2, "fingerprint must not be empty"),
        (ENTRY.format(fingerprint="f", expires=LATER).replace("temperature", "temprature"), 2, "no clause"),
        (ENTRY.format(fingerprint="f", expires=LATER) + "  check: x\n", 2, "either clause or check"),
        (ENTRY.format(fingerprint="f", expires=LATER) + "  why: x\n", 2, "why"),
    ],
)
def test_a_broken_file_is_told_by_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    """The message names the file, the line of the entry, what is wrong and where to look."""
    file = written(tmp_path, text)
    with pytest.raises(UserError) as told:
        deviations.load(file)
    assert f"{file}, line {line}:" in str(told.value)
    assert said in str(told.value)


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    """A deviations file that was named but is not there, or is no text, is an error and not an empty list."""
    with pytest.raises(UserError, match="cannot be read"):
        deviations.load(tmp_path / "nowhere.yaml", must_exist=True)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        deviations.load(binary)


def test_every_file_of_this_repository_can_be_read() -> None:
    """The adapters and deviations that are shipped are valid."""
    assert {load(name).name for name in names()} == set(names())
    for file in deviations.FOLDER.glob("*.yaml"):
        assert deviations.load(file).entries is not None


SOURCE = """
@clause("chat.temperature.maximum")
async def test_excused(gateway, worker):
    await gateway.refuses(worker, CHAT, {"temperature": 2}, {"temperature": 2.5})

@clause("chat.temperature.minimum")
async def test_stale(gateway, worker):
    assert (await gateway.chat(worker.script())).status == 200

@clause("chat.temperature.type")
async def test_regression(gateway, worker):
    assert (await gateway.chat(worker.script())).status == 418
"""


def test_a_run_with_deviations(tmp_path: Path) -> None:
    """Declared failures are deviating, another failure is failed, a pass is stale; the last two fail the run."""
    text = ENTRY.format(fingerprint="not refused | 200", expires=LATER)
    others = "".join(
        ENTRY.format(fingerprint="something else | 500", expires=LATER).replace("maximum", name)
        for name in ("minimum", "type")
    )
    file = written(tmp_path, text + others)
    ran = suite(tmp_path, SOURCE, "--deviations", str(file), vices=("accepts_anything",))
    found = ran.verdicts()
    assert [found[name] for name in ("test_excused", "test_stale", "test_regression")] == [
        "deviating",
        "stale",
        "failed",
    ]
    assert ran.status == 1
    assert "remove it from" in ran.check("test_stale")["message"]


def test_an_entry_whose_place_another_has_taken_is_stale(tmp_path: Path) -> None:
    """An entry that excuses no failure, because a newer entry about the same clause does, fails the run."""
    source = SOURCE.partition('@clause("chat.temperature.minimum")')[0]
    older, newer = (
        ENTRY.format(fingerprint=each, expires=LATER) for each in ("not refused | 418", "not refused | 200")
    )
    file = written(tmp_path, older + newer)
    ran = suite(tmp_path, source, "--deviations", str(file), vices=("accepts_anything",))
    assert ran.verdicts()["test_excused"] == "stale"
    assert ran.status == 1
    assert "another entry" in ran.check("test_excused")["message"]


def test_deviating_alone_does_not_fail_the_run(tmp_path: Path) -> None:
    """A run whose only failures are declared exits with 0, and accept writes what declares them."""
    source = SOURCE.partition('@clause("chat.temperature.minimum")')[0]
    before = suite(tmp_path, source, vices=("accepts_anything",))
    assert before.status == 1
    file = tmp_path / "accepted.yaml"
    arguments = ["--report", str(tmp_path / "report.json"), "--reason", "It is so.", "--file", str(file)]
    parser = argparse.ArgumentParser()
    accept.add_options(parser)
    assert accept.run(parser.parse_args(arguments)) == 0
    (entry,) = deviations.load(file).entries
    assert (entry.clause, entry.fingerprint) == ("chat.temperature.maximum", ["not refused | 200"])
    assert "answered" not in entry.reason
    assert suite(tmp_path, source, "--deviations", str(file), vices=("accepts_anything",)).status == 0


def test_accept_keeps_what_is_there_and_refuses_nothing_to_do(tmp_path: Path) -> None:
    """Accept appends, leaves comments alone, and says so when no failure matches."""
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"checks": [], "target": {"name": "x", "version": None}}), "utf-8")
    parser = argparse.ArgumentParser()
    accept.add_options(parser)
    with pytest.raises(UserError, match="nothing to accept"):
        accept.run(parser.parse_args(["--report", str(report), "--reason", "r", "--file", str(tmp_path / "f.yaml")]))
    report.write_text("{}", "utf-8")
    with pytest.raises(UserError, match="not a report of this suite"):
        accept.run(parser.parse_args(["--report", str(report), "--reason", "r"]))
    assert accept.entries([], "r", "1", dt.date(2999, 1, 1)) == []


def test_accept_tells_of_older_entries_that_no_longer_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When a declared check failed in another way and that is accepted, the older entry is named and stays."""
    file = written(tmp_path, ENTRY.format(fingerprint="not refused | 200", expires=LATER))
    check = {
        "check": "a.py::test_x[high]", "clauses": ["chat.temperature.maximum"], "verdict": "failed", "message": "",
        "fingerprint": "refused with another status | 422", "exchanges": [],
    }  # fmt: skip
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"checks": [check], "target": {"name": "x", "version": "1"}}), "utf-8")
    parser = argparse.ArgumentParser()
    accept.add_options(parser)
    assert accept.run(parser.parse_args(["--report", str(report), "--reason", "r", "--file", str(file)])) == 0
    assert "is the older entry still needed?" in capsys.readouterr().out
    before, after = deviations.load(file).entries
    assert (before.fingerprint, after.fingerprint) == (["not refused | 200"], ["refused with another status | 422"])
    assert excuse(deviations.load(file), CHECK, "refused with another status | 422")[0] == "deviating"
