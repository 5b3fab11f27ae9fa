"""What a run leaves behind: figures of both sides, and files that say the same in each form."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from conformance.targets.deviations import Deviations, Entry
from loadtests import figures, options, report
from loadtests.errors import GeneratorLate
from loadtests.findings import Findings
from loadtests.observation import read_all
from loadtests.progress import Progress
from loadtests.run import Result, _refuse_if_late, _result
from loadtests.thresholds import Threshold
from tests.loadtests.kit import data_of, journaled, observed

if TYPE_CHECKING:
    from pathlib import Path

    from fake_workers.journal import Entry as JournalEntry
    from loadtests.observation import Observation
    from loadtests.scenario import Data

FILES = ["junit.xml", "report.html", "requests.jsonl", "summary.json"]
LIMIT = Threshold("steady.failed_max", "", "failed", at_most=True, limit=0.0)


def record() -> Data:
    """Two answered requests, the second late, and one that was refused."""
    made: list[tuple[Observation, JournalEntry | None]] = []
    for number, sent_at in ((1, 10.0), (2, 10.5)):
        each = observed(
            number, "steady", sent_at, sent_at + 0.5, scheduled_at=10.0 + 0.4 * (number - 1), head_at=sent_at + 0.1,
            tokens=[sent_at + 0.2, sent_at + 0.3], events=[sent_at + at for at in (0.1, 0.2, 0.3, 0.5)],
        )  # fmt: skip
        sends = [(sent_at + at, 9) for at in (0.05, 0.08, 0.18, 0.28, 0.48, 0.49)]
        made.append((each, journaled(each, sent_at + 0.01, sent_at + 0.49, sent=sends)))
    made.append((observed(3, "steady", 11.0, 11.1, status=429, scheduled_at=10.8), None))
    return data_of(made)


def result(data: Data, findings: Findings, **changed: Any) -> Result:
    """A result of steady load on the reference gateway."""
    asked = options.read(options.words(["steady"]))
    summary = figures.summary(data.observations, data)
    made = Result(asked, data, findings, summary, {"steady": summary}, [], figures.lateness(data.observations), 1.5)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def test_figures_of_both_sides() -> None:
    """Latency counts from sending and from the schedule; added latency is what the worker's stamps leave over."""
    data = record()
    found = figures.summary(data.observations, data)
    assert (found["requests"], found["answered"], found["shed"], found["failed"]) == (3, 2, 1, 0)
    assert found["latency_ms_max"] == pytest.approx(500)
    assert found["scheduled_latency_ms_max"] == pytest.approx(600)
    assert found["ttft_ms_p50"] == pytest.approx(200)
    assert found["added_first_ms_p50"] == pytest.approx(10 + 20)
    assert found["added_event_ms_p99"] == pytest.approx(20)
    assert found["dispatch_ms_max"] == pytest.approx(200)
    assert set(found) <= set(figures.NAMES)


def test_percentiles_are_nearest_rank() -> None:
    """A percentile is a value that was seen; of nothing it is none."""
    assert [figures.percentile([1, 2, 3, 4], share) for share in (0.0, 0.25, 0.5, 0.51, 1.0)] == [1, 1, 2, 3, 4]
    assert math.isnan(figures.percentile([], 0.5))


def test_writes_that_are_no_events_add_nothing() -> None:
    """Where the worker's writes cannot be told apart by event, no added latency is made up."""
    each = observed(1, "steady", 0.0, 1.0, events=[0.2, 0.4])
    assert figures.event_sends(journaled(each, 0.0, 1.0, sent=[(0.1, 9)]), 2) == []
    assert figures.event_sends(journaled(each, 0.0, 1.0, sent=[(0.1, 9)] * 5), 2) == []
    assert figures.event_sends(journaled(each, 0.0, 1.0, sent=[(0.1, 9), (0.2, 9), (0.3, 9)]), 2) == [0.1, 0.2]


def test_a_late_generator_is_refused() -> None:
    """When 99% of the sendings were later than the stated share of the interval, nothing is judged."""
    asked = options.read(options.words(["steady"]))
    late = figures.lateness(record().observations)
    assert late == pytest.approx((0.2, 0.4))
    _refuse_if_late(asked, late)
    with pytest.raises(GeneratorLate, match=r"210\.0 ms of their time"):
        _refuse_if_late(asked, (0.21, 0.4))
    _refuse_if_late(asked, None)


def test_a_run_that_was_not_judged_says_so_in_every_form(tmp_path: Path) -> None:
    """Without a verdict there are figures and the reason, but neither clauses nor thresholds that could look passed."""
    ended = result(record(), Findings(), unjudged="the gateway <died>", under_way=2)
    report.write(ended, tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert (summary["verdict"], summary["not_judged_because"]) == ("not judged", "the gateway <died>")
    assert summary["thresholds"] == summary["clauses"] == []
    suite = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "the gateway &lt;died&gt;" in page
    assert "<h2>Clauses" not in page
    lines = "\n".join(report.lines(ended))
    assert "2 requests were under way when the run ended" in lines
    assert lines.splitlines()[-1].startswith("steady on reference: not judged")
    assert not ended.passed


def test_the_files_agree(tmp_path: Path) -> None:
    """Each form of the report tells the same verdicts, and the page needs nothing from elsewhere."""
    findings = Findings()
    findings.hold("chat.stream.done.last", truth=True)
    findings.hold("chat.stream.done.once", False, "<twice> & more")  # noqa: FBT003 - a truth is what it takes
    findings.owe("chat.stream.framing", occasion="nothing was streamed")
    ended = result(record(), findings, broken_thresholds=[(LIMIT, "failed is 1, at most 0 is allowed")])
    report.write(ended, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == FILES
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert summary["verdict"] == "failed"
    told = {each["clause"]: each["state"] for each in summary["clauses"]}
    assert told == {
        "chat.stream.done.last": "passed",
        "chat.stream.done.once": "failed",
        "chat.stream.framing": "unshown",
    }
    suite = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
    failing = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    assert failing == {"chat.stream.done.once", "chat.stream.framing", "steady.failed_max"}
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "&lt;twice&gt; &amp; more" in page
    assert page.count("<svg") == 5
    assert not re.search(r"https?://|<script|@import|<link", page)
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text("utf-8").splitlines()]
    assert [each["sent_at"] for each in requests] == [0.0, 0.5, 1.0]
    assert [len(each["dispatches"]) for each in requests] == [1, 1, 0]
    lines = "\n".join(report.lines(ended))
    assert "failed: chat.stream.done.once, chat.stream.framing, steady.failed_max" in lines


def test_a_declared_deviation_does_not_fail_a_run() -> None:
    """A finding that fails as declared is shown as deviating, and the run passes."""
    findings = Findings()
    findings.hold("chat.stream.done.last", False, "not last")  # noqa: FBT003 - as above
    assert not result(record(), findings).passed
    findings.bad[0].excuse = "known"
    ended = result(record(), findings)
    assert ended.passed
    assert "deviating" in "\n".join(report.lines(ended))


def test_a_deviation_must_declare_every_way_of_failing() -> None:
    """One undeclared way of failing beside a declared one makes the clause fail; markers and figures do not matter."""
    said = [f"bulk igc-{number:016x}: hung up after {number}.5 s" for number in range(9)]
    for extra, state in (([], "deviating"), (["bulk igc-0000000000000001: answered 500"], "failed")):
        findings = Findings()
        for line in [*said, *extra]:
            findings.hold("chat.stream.done.last", False, line)  # noqa: FBT003 - as above
        asked = options.read(options.words(["steady"]))
        row = {"reason": "known", "seen": "1", "expires": "2999-01-01", "evidence": "x"}
        entry = Entry(clause="chat.stream.done.last", fingerprint="bulk MARKER: hung up after N s", **row)
        asked = replace(asked, deviations=Deviations(None, (entry,)))
        ended = _result(asked, record(), findings, 1.0)
        assert [each.state for each in ended.findings.all()] == [state]


def test_progress_counts_only_whole_lines(tmp_path: Path) -> None:
    """A record that is being written is read on from where it was left, and half a line is left for the next time."""
    first, second = observed(1, "steady", 0.0, 1.0).to_line(), observed(2, "steady", 0.0, 1.0, status=429).to_line()
    begun, over = tmp_path / "begun-1.txt", tmp_path / "observations-1.jsonl"
    progress = Progress(tmp_path)

    def line(now: float) -> str:
        """What is shown of a run of 10 s that waits for another 40 s."""
        progress.look()
        return progress.line(now, 10, 40)

    assert line(99.0) == "begins: nothing is sent yet"
    begun.write_text("100.0\n100.5\n10", "utf-8")
    over.write_text(f"{first}\n{second[:40]}", "utf-8")
    assert line(101.0) == "1/10 s: 1 answered, 0 shed, 0 broken, 1 under way"
    assert [each.marker for each in read_all(tmp_path)] == ["igc-0000000000000001"]
    assert line(112.0) == "sending is over, waiting for 1 answers, at most 38 s more: 1 answered, 0 shed, 0 broken"
    begun.write_text("100.0\n100.5\n100.7\n", "utf-8")
    over.write_text(f"{first}\n{second}\n{first}\n", "utf-8")
    said = "sending is over, the generator ends: 2 answered, 1 shed, 0 broken"
    assert line(112.0) == line(112.0) == said
