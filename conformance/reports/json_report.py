"""`report.json`: everything the run found, one entry a check (`report.schema.json` describes it)."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec import clauses

if TYPE_CHECKING:
    from conformance.reports.results import Result, Results

SCHEMA_FILE = Path(__file__).parent / "report.schema.json"
FORMAT = 1


def build(results: Results) -> dict[str, Any]:
    """The report as plain data."""
    run = results.run
    target = run.options.target
    counts = results.counts()
    return {
        "format": FORMAT,
        "suite": version("inference-gateway-conformance"),
        "target": {
            "name": target.name,
            "version": target.version,
            "revision": target.claims.revision,
            "features": target.claims.features,
        },
        "selection": {"clauses": run.options.clauses},
        "started_at": run.started_at,
        "ended_at": results.ended_at,
        "environments": [
            {
                "configuration": each.configuration,
                "gateway": each.gateway_url,
                "problem": run.redactor.text(each.problem),
            }
            for each in run.environments.values()
        ],
        "planned": sum(counts.values()),
        "counts": counts,
        "clauses": [
            {"id": each, "text": row.text, "section": row.section, "level": row.level, "verdict": verdict}
            for each, verdict in results.clauses().items()
            if (row := clauses().get(each)) is not None
        ],
        "checks": [_check(result) for result in results.all()],
    }


def _check(result: Result) -> dict[str, Any]:
    planned = result.planned
    return {
        "check": planned.nodeid,
        "clauses": planned.clauses,
        "section": planned.section,
        "configuration": planned.configuration,
        "engine": planned.engine,
        "verdict": result.verdict,
        "message": result.message,
        "fingerprint": result.fingerprint,
        "note": result.note,
        "deviation": result.deviation,
        "started_at": result.started_at,
        "duration_s": round(result.duration_s, 6),
        "exchanges": result.evidence.get("exchanges", []),
        "dispatches": result.evidence.get("dispatches", []),
        "scripts": result.evidence.get("scripts", []),
    }


def write(results: Results, file: Path) -> dict[str, Any]:
    """Write the report; returns it."""
    report = build(results)
    file.write_text(json.dumps(report, indent=1, ensure_ascii=False), "utf-8")
    return report
