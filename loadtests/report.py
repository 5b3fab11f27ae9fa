"""What a run leaves: requests.jsonl, summary.json, junit.xml, report.html, and lines on screen."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import jinja2

from loadtests import figures, plots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loadtests.findings import Finding
    from loadtests.run import Result

TEMPLATE = Path(__file__).parent / "report.html.j2"
MARKS = {"passed": "ok", "failed": "FAILED", "unshown": "NOT SHOWN", "deviating": "deviating"}


def why(finding: Finding) -> str:
    """Why a finding is no pass."""
    said = finding.why if finding.state != "passed" else ""
    return f"{said} (declared: {finding.excuse})" if finding.excuse else said


def lines(result: Result) -> Iterator[str]:
    """The verdict for a terminal: clauses first, then figures, then thresholds, then a sentence."""
    options = result.options
    yield ""
    for each in result.findings.all():
        yield f"{MARKS[each.state]:9} {each.clause}  ({each.checked} observed, {each.failed} failed)"
        if each.state != "passed":
            yield f"          {each.text}"
            yield f"          {why(each)}"
    yield ""
    yield from _table(result)
    yield ""
    for threshold, said in result.broken_thresholds:
        yield f"BEYOND    {threshold.name}: {said}"
    if result.under_way:
        yield f"{result.under_way} requests were under way when the run ended, and are not in the report"
    bad = [each.clause for each in result.findings.bad] + [each.name for each, _ in result.broken_thresholds]
    verdict = f"failed: {', '.join(bad)}" if bad else result.verdict
    yield f"{options.scenario.name} on {options.target.label}: {verdict} ({result.took_s:.1f} s)"


def _table(result: Result) -> Iterator[str]:
    rows = [(name, values) for name, values in result.by_flow.items() if values.get("requests")]
    for name, values in rows:
        counts = ", ".join(f"{values[word]:g} {word}" for word in figures.COUNTS if word in values)
        yield f"{name}: {counts}"
        for metric, about in figures.METRICS.items():
            cells = [
                f"{word} {values[f'{metric}_{word}']:.1f}"
                for word in figures.PERCENTILES
                if f"{metric}_{word}" in values
            ]
            if cells:
                number = values[f"{metric}_{figures.VALUES}"]
                yield f"  {metric:21} {'  '.join(cells)}   of {number:g}: {about}"


def write(result: Result, folder: Path) -> None:
    """Write all files."""
    (folder / "requests.jsonl").write_text("".join(f"{line}\n" for line in _requests(result)), "utf-8")
    summary = plain(result)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    ET.ElementTree(_junit(result)).write(folder / "junit.xml", encoding="utf-8", xml_declaration=True)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(TEMPLATE.read_text("utf-8"))
    found = page.render(
        result=result, summary=summary, plots=plots.all_of(result), marks=MARKS, why=why, figures=figures
    )
    (folder / "report.html").write_text(found, "utf-8")


def _requests(result: Result) -> Iterator[str]:
    """Each request as the client and the worker saw it, times in seconds from the first sending."""
    data = result.data
    start = data.observations[0].sent_at
    for each in data.observations:
        client = {name: _since(value, start) if name.endswith("_at") else value for name, value in asdict(each).items()}
        for name in ("events", "tokens", "pings"):
            client[name] = [_since(at, start) for at in getattr(each, name)]
        workers = [
            {
                "worker": entry.worker,
                "received_at": _since(entry.received_at, start),
                "completed_at": _since(entry.completed_at, start),
                "peer_closed_at": _since(entry.peer_closed_at, start),
                "sent": [[_since(at, start), size] for at, size in entry.sent],
                "outcome": entry.outcome,
            }
            for entry in data.entries.get(each.marker, [])
        ]
        yield json.dumps({**client, "dispatches": workers}, separators=(",", ":"))


def _since(at: float | None, start: float) -> float | None:
    return None if at is None else round(at - start, 6)


def plain(result: Result) -> dict[str, Any]:
    """The summary as JSON-ready values."""
    options = result.options
    return {
        "scenario": options.scenario.name,
        "target": options.target.label,
        "configuration": options.configuration.name,
        "verdict": result.verdict,
        "not_judged_because": result.unjudged,
        "under_way": result.under_way,
        "started_at": result.started_at,
        "took_s": round(result.took_s, 2),
        "duration_s": options.duration_s,
        "rate": options.rate,
        "seed": options.seed,
        "generator": _generator(result),
        "clauses": [
            {
                "clause": each.clause,
                "text": each.text,
                "state": each.state,
                "checked": each.checked,
                "failed": each.failed,
                "evidence": each.evidence,
                "why": why(each),
            }
            for each in result.findings.all()
        ],
        "thresholds": [
            {
                "name": each.name,
                "limit": each.limit,
                "value": (result.by_flow[each.flow] if each.flow else result.figures).get(each.figure),
                "broken": any(each is broken for broken, _ in result.broken_thresholds),
            }
            for each in result.limits
        ],
        "figures": result.figures,
        "flows": result.by_flow,
    }


def _generator(result: Result) -> dict[str, float | None]:
    late = result.lateness
    return {
        "dispatch_p99_ms": round(1000 * late[0], 3) if late else None,
        "interval_ms": round(1000 * late[1], 3) if late else None,
        "max_late_share": result.options.thresholds.max_late_share,
    }


def _junit(result: Result) -> ET.Element:
    """A test case a clause and a threshold; what deviates as declared is skipped, in JUnit's words."""
    findings = result.findings.all()
    options = result.options
    suite = ET.Element(
        "testsuite",
        name=f"loadtests.{options.scenario.name}",
        tests=str(len(findings) + len(result.limits) + bool(result.unjudged)),
        failures=str(len(result.findings.bad) + len(result.broken_thresholds)),
        errors=str(int(bool(result.unjudged))),
        skipped=str(sum(each.state == "deviating" for each in findings)),
        time=f"{result.took_s:.2f}",
    )
    for each in findings:
        case = ET.SubElement(suite, "testcase", classname=f"loadtests.{options.scenario.name}", name=each.clause)
        if each.state == "deviating":
            ET.SubElement(case, "skipped", message=why(each))
        elif each.state != "passed":
            ET.SubElement(case, "failure", message=f"{each.text} {why(each)}").text = "\n".join(each.evidence)
    if result.unjudged:
        case = ET.SubElement(suite, "testcase", classname=f"loadtests.{options.scenario.name}", name="judged")
        ET.SubElement(case, "error", message=result.unjudged)
    said = {each.name: text for each, text in result.broken_thresholds}
    for limit in result.limits:
        case = ET.SubElement(suite, "testcase", classname="loadtests.thresholds", name=limit.name)
        if limit.name in said:
            ET.SubElement(case, "failure", message=said[limit.name])
    return suite
