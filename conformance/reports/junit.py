"""`junit.xml`: the same results for tools that read JUnit's format.

Clause ids and verdict are properties of each case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET  # noqa: S405 - writing only

if TYPE_CHECKING:
    from pathlib import Path

ELEMENT = {"failed": "failure", "stale": "failure", "harness error": "error", "unreached": "error"}
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(report: dict[str, Any], file: Path) -> None:
    """Write the cases of a report (as `json_report.build` makes it)."""
    counts = report["counts"]
    suite = ET.Element(
        "testsuite",
        name=f"conformance of {report['target']['name']} {report['target']['version'] or ''}".strip(),
        tests=str(report["planned"]),
        failures=str(counts["failed"] + counts["stale"]),
        errors=str(counts["harness error"] + counts["unreached"]),
        skipped=str(counts["not applicable"] + counts["deviating"]),
        time=f"{report['ended_at'] - report['started_at']:.3f}",
    )
    for check in report["checks"]:
        suite.append(_case(check))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def _case(check: dict[str, Any]) -> ET.Element:
    module, _, name = check["check"].partition("::")
    case = ET.Element(
        "testcase",
        classname=_text(module.removesuffix(".py").replace("/", ".")),
        name=_text(name or module),
        time=f"{check['duration_s']:.3f}",
    )
    properties = ET.SubElement(case, "properties")
    for clause in check["clauses"]:
        ET.SubElement(properties, "property", name="clause", value=_text(clause))
    for key in ("verdict", "section", "configuration", "engine", "fingerprint", "deviation"):
        if check[key]:
            ET.SubElement(properties, "property", name=key, value=_text(check[key]))
    verdict = check["verdict"]
    if verdict in ELEMENT:
        ET.SubElement(case, ELEMENT[verdict], message=_text(check["message"][:500]), type=verdict).text = _text(
            _story(check)
        )
    elif verdict != "passed":
        ET.SubElement(case, "skipped", message=_text(f"{verdict}: {check['note'] or check['message']}"[:500]))
    return case


def _story(check: dict[str, Any]) -> str:
    lines = [check["message"], check["note"], *[each["curl"] for each in check["exchanges"]]]
    return "\n".join(line for line in lines if line)


def _text(text: str) -> str:
    """Text without the characters XML 1.0 cannot hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
