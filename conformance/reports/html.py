"""`report.html`: the report as one page that needs no network."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).parent


def write(report: dict[str, Any], file: Path) -> None:
    """Write the page for a report (as `json_report.build` makes it)."""
    engine = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    texts = {clause["id"]: clause["text"] for clause in report["clauses"]}
    page = engine.get_template("report.html.j2").render(
        report=report,
        texts=texts,
        started=dt.datetime.fromtimestamp(report["started_at"], tz=dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        took_s=round(report["ended_at"] - report["started_at"], 1),
        sections=_sections(report["checks"]),
    )
    file.write_text(page, "utf-8")


def _sections(checks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Checks by section; within one, what needs attention first."""
    order = ["failed", "stale", "harness error", "unreached", "deviating", "passed", "not applicable"]
    found: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        found.setdefault(check["section"], []).append(check)
    return [
        {
            "name": name,
            "checks": sorted(members, key=lambda check: order.index(check["verdict"])),
            "counts": {verdict: sum(check["verdict"] == verdict for check in members) for verdict in order},
        }
        for name, members in found.items()
    ]
