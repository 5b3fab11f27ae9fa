"""Verdicts of whole runs: each kind, their sum, and the evidence that goes with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from conformance.reports.json_report import SCHEMA_FILE
from tests.conformance.suite_runner import Ran, suite

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-conformance-shared"
ZOO = f"""
@clause("chat.temperature.maximum")
async def test_passes(gateway, worker):
    await gateway.refuses(worker, CHAT, {{"temperature": 2}}, {{"temperature": 2.5}})

@clause("chat.model.required")
async def test_fails(gateway, worker):
    script = worker.script(Reply(pieces=["Hello"]))
    chat = await gateway.chat(script, headers=[("authorization", "Bearer another-secret-value")], note="{SECRET}")
    assert (await script.only()).json["note"] == "{SECRET}"
    assert chat.status == 418

@clause("chat.model.required")
async def test_other_shape(gateway, worker):
    chat = await gateway.chat(worker.script())
    assert chat.json["no such member"] == 1

@clause("chat.model.required")
async def test_harness_says_so(gateway, worker):
    raise HarnessError("the environment is odd")

@clause("chat.model.required")
async def test_skips(gateway, worker):
    pytest.{"skip"}("not today")

@clause("chat.model.required")
async def test_wrongly_written(gateway, worker):
    worker.script("no answer at all")

@clause("chat.top_k.type")
async def test_of_an_unclaimed_feature(gateway, worker):
    raise AssertionError("never run")

@clause("no.such.clause")
async def test_of_an_unknown_clause(gateway, worker):
    raise AssertionError("never run")

@clause("chat.model.required")
async def test_needs_proof(gateway, worker):
    await worker.script().never_seen(because=None)
"""
EXPECTED = {
    "test_passes": "passed",
    "test_fails": "failed",
    "test_other_shape": "failed",
    "test_harness_says_so": "harness error",
    "test_skips": "harness error",
    "test_wrongly_written": "harness error",
    "test_of_an_unclaimed_feature": "not applicable",
    "test_of_an_unknown_clause": "harness error",
    "test_needs_proof": "harness error",
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run with a check of every kind."""
    return suite(tmp_path_factory.mktemp("zoo"), ZOO)


def test_every_kind_gets_its_verdict(zoo: Ran) -> None:
    """Each check of the zoo has the verdict it deserves."""
    found = {name: verdict for name, verdict in zoo.verdicts().items() if name in EXPECTED}
    assert found == EXPECTED, zoo.output


def test_several_processes_come_to_the_same(zoo: Ran, tmp_path: Path) -> None:
    """Under xdist verdicts, counts, exit status and evidence are the same as in one process."""
    ran = suite(tmp_path, ZOO, "-n", "2")
    assert ran.verdicts() == zoo.verdicts(), ran.output
    assert (ran.report["counts"], ran.status) == (zoo.report["counts"], zoo.status)
    assert ran.check("test_fails")["dispatches"][0]["worker"] == "vllm"


def test_planned_is_the_sum(zoo: Ran) -> None:
    """Planned is the sum of the verdicts, in the report and on the terminal."""
    report = zoo.report
    assert report["planned"] == sum(report["counts"].values()) == len(report["checks"])
    assert f"planned {report['planned']} = " in zoo.output


def test_failures_set_the_exit_status(zoo: Ran) -> None:
    """A run with failures exits with 1."""
    assert zoo.status == 1


def test_report_fits_its_schema(zoo: Ran) -> None:
    """report.json is what report.schema.json says."""
    schema = json.loads(SCHEMA_FILE.read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(zoo.report)


def test_junit_has_a_case_for_every_check(zoo: Ran) -> None:
    """junit.xml has one case a check, with clause ids and verdict as properties, and the same totals."""
    root = ET.parse(zoo.folder / "junit.xml").getroot()  # noqa: S314 - written by the run itself
    suite_element = root[0]
    assert len(suite_element.findall("testcase")) == zoo.report["planned"] == int(suite_element.attrib["tests"])
    case = next(each for each in suite_element if each.attrib["name"] == "test_fails")
    properties = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
    assert (properties["clause"], properties["verdict"]) == ("chat.model.required", "failed")
    assert case.find("failure") is not None


def test_page_needs_no_network(zoo: Ran) -> None:
    """report.html is one file: it shows every check and refers to nothing outside."""
    page = (zoo.folder / "report.html").read_text("utf-8")
    assert all(name in page for name in EXPECTED)
    assert not any(word in page for word in ('src="', "<link", "@import", "url("))


def test_a_failure_explains_itself(zoo: Ran) -> None:
    """A failure shows the clause's text, a curl line, both sides' bytes and times, and the script."""
    check = zoo.check("test_fails")
    exchange, dispatch = check["exchanges"][0], check["dispatches"][0]
    assert exchange["status"] == 200
    assert exchange["ended_s"] >= exchange["head_s"] > 0
    assert "POST /v1/chat/completions HTTP/1.1" in exchange["request"]
    assert "HTTP/1.1 200 OK" in exchange["response"]
    assert dispatch["worker"] == "vllm"
    assert dispatch["answered_s"] >= 0
    assert check["scripts"][0]["answers"][0]["pieces"] == ["Hello"]
    for shown in ("clause chat.model.required", "fingerprint: assert chat.status == 418 | 200", "curl -sS"):
        assert shown in zoo.output


def test_keys_are_in_no_output(zoo: Ran) -> None:
    """Neither a configured key nor the value of a credential header appears in any output."""
    outputs = [
        zoo.output,
        *((zoo.folder / name).read_text("utf-8") for name in ("report.json", "junit.xml", "report.html")),
    ]
    assert not any(SECRET in text for text in outputs)
    # The terminal shows the line of the check itself, which names this one.
    assert not any("another-secret-value" in text for text in outputs[1:])
    assert "[redacted]" in outputs[1]


def test_undecided_runs_have_a_status_of_their_own(tmp_path: Path) -> None:
    """A run without failures, but with a harness error, exits with 6."""
    source = """
@clause("chat.model.required")
async def test_odd(gateway, worker):
    raise HarnessError("odd")
"""
    ran = suite(tmp_path, source)
    assert (ran.status, ran.verdicts()["test_odd"]) == (6, "harness error"), ran.output


def test_late_dispatch_is_not_overlooked(tmp_path: Path) -> None:
    """A gateway that dispatches what it refuses fails the check that says no worker sees it."""
    source = """
@clause("chat.temperature.maximum")
async def test_unseen(gateway, worker):
    await gateway.refuses(worker, CHAT, {"temperature": 2}, {"temperature": 2.5})
"""
    ran = suite(tmp_path, source, vices=("sees_before_refusing",))
    assert ran.check("test_unseen")["fingerprint"] == "worker received a request it must not see | 400 400", ran.output


def test_listing_runs_nothing(tmp_path: Path) -> None:
    """--list prints the plan with clause ids and what does not apply, and starts nothing."""
    ran = suite(tmp_path, ZOO, "--list", "--clauses", "chat.*")
    assert "chat.temperature.maximum [default]" in ran.output
    assert "not applicable: target does not claim the feature sampling-extensions" in ran.output
    assert "ready at" not in ran.output
    assert not (tmp_path / "report.json").exists()
