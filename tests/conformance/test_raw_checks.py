"""The checks of raw bytes before a gateway that is not made of the reference server and believes whatever it reads.

That each of them can fail is shown by the named mutants (`docs/mutation.md`), which are all one server behind other
readers. Here the suite runs as its users run it, against a stranger's port, and must catch the smuggling.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.careless_gateway import Careless
from tests.conformance.suite_runner import addresses, environment, workers_at
from tests.on_a_thread import on_a_thread

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 120
SMUGGLED = (
    "raw_framing.py::test_length_over_chunks[chunked]",
    "raw_framing.py::test_obfuscated_coding_behind[folded]",
    "raw_framing.py::test_repeated_equal_length",
    "raw_framing.py::test_malformed_length_hides_nothing[wraps-at-32-bits]",
    "raw_chunks.py::test_bad_chunk_size[hex-prefix]",
    "raw_chunks.py::test_request_hidden_behind_extension",
    "raw_chunks.py::test_trailers_are_no_headers",
    "raw_chunks.py::test_chunks_without_their_end[no-last-chunk]",
    "raw_head.py::test_bare_carriage_return[X-Note]",
    "raw_head.py::test_folded_line[field-in-a-fold]",
    "raw_connection.py::test_pipelined_answers_in_order[one]",
    "raw_connection.py::test_body_of_refused_expectation",
    "raw_connection.py::test_unread_body_is_no_request[unknown-path-length]",
)


@pytest.mark.timeout(BOUND_S + 20)
def test_a_careless_stranger_is_caught(tmp_path: Path) -> None:
    """Each way of smuggling that the careless gateway is open to is found by a check of it, in one run of the suite."""
    workers = addresses()
    with on_a_thread(Careless(workers).hosting) as url:
        checks = [f"conformance/checks/{check}" for check in SMUGGLED]
        words = [
            *(sys.executable, "-m", "pytest", *checks, "-q", "--target", url),
            *("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout"),
            *("--workers-at", workers_at(workers), "--report-dir", str(tmp_path)),
        ]
        ran = subprocess.run(
            words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=BOUND_S, check=False
        )
    assert (tmp_path / "report.json").exists(), ran.stdout[-3000:] + ran.stderr[-1000:]
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text("utf-8"))
    verdicts = {check["check"]: check["verdict"] for check in report["checks"]}
    assert {check: verdicts.get(check) for check in checks} == dict.fromkeys(checks, "failed")
