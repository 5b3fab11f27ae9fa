"""A gateway that asks for a key and lives below a path is judged like any other: the suite knocks as callers do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from conformance.targets.adapter import load
from tests.conformance.suite_runner import environment
from tests.on_a_thread import listening, on_a_thread
from tests.support import running

if TYPE_CHECKING:
    from tests.on_a_thread import Behaviour

ROOT = Path(__file__).resolve().parents[2]
BOUND_S = 400
KEY, ADMIN_KEY, PREFIX = "sk-conformance-door", "sk-conformance-office", "/behind/a/path"
GATEWAY = [
    *(sys.executable, "-c", "import sys; from reference_server.cli import main; sys.exit(main())", "launch"),
    *("--host", "127.0.0.1", "--port", "0", "--prometheus-port", "0", "--policy", "round_robin"),
    *("--disable-retries", "--disable-circuit-breaker", "--shutdown-grace-period-secs", "1"),
    *("--model-alias", "conformance-alias=conformance-vllm"),
    *("--api-key", KEY, "--control-plane-api-keys", f"office:Office:admin:{ADMIN_KEY}"),
]
HIDES_A_PATH = "conformance/checks/raw_connection.py::test_unread_body_is_no_request"
"""Its body holds a request, whose path the proxy would take away too, so that the length is wrong."""
KEYLESS = ("auth.open.", "request_headers.authorization.any_scheme", "request_headers.authorization.none_invented")


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, prefix: bytes = b"") -> None:
    """Copy until the end, without the prefix; what may be the beginning of one waits for the rest of it.

    Raises:
        OSError: one of the two ends is gone.
    """
    held = b""
    while data := await source.read(1 << 16):
        held = (held + data).replace(prefix, b"") if prefix else data
        begun = next((size for size in range(len(prefix) - 1, 0, -1) if held.endswith(prefix[:size])), 0)
        sink.write(held[: len(held) - begun])
        held = held[len(held) - begun :]
        await sink.drain()
    sink.write(held)
    sink.write_eof()


def taking_away(prefix: str, url: str) -> Behaviour:
    """A byte-level proxy that takes the prefix out of what goes to `url`; an end that is gone is gone on both sides."""
    address = urlsplit(url)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(address.hostname, address.port)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, outer, prefix.encode()))
                pumps.create_task(_pump(inner, writer))
        except* OSError:
            writer.transport.abort()
            outer.transport.abort()
        finally:
            writer.close()
            outer.close()

    return relay


@pytest.mark.timeout(BOUND_S + 20)
def test_a_right_gateway_passes_behind_a_key_and_a_path(tmp_path: Path) -> None:
    """Each check of the default configuration passes, or does not apply since it speaks of a gateway without a key."""
    features = set(load("reference").claims.features) - {"core", "http2"}  # the proxy cannot read compressed heads
    with (
        running(GATEWAY) as ready,
        on_a_thread(partial(listening, taking_away(PREFIX, ready["url"]))) as url,
    ):
        words = [
            *(sys.executable, "-m", "pytest", "conformance", "-q", "--tb=no", "-n", "2", "--target", url + PREFIX),
            *("-p", "xdist.plugin", "-p", "pytest_asyncio.plugin", "-p", "pytest_timeout"),
            *("-p", "tests.conformance.first_cases", "--api-key", KEY, "--admin-key", ADMIN_KEY),
            *("--features", ",".join(sorted(features)), "--report-dir", str(tmp_path)),
            *("--deselect", HIDES_A_PATH),
        ]
        ran = subprocess.run(
            words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=BOUND_S, check=False
        )
    assert (tmp_path / "report.json").exists(), ran.stdout[-3000:] + ran.stderr[-1000:]
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text("utf-8"))
    wrong = [
        f"{check['check']}: {check['message'][:300]}"
        for check in report["checks"]
        if check["verdict"] not in {"passed", "not applicable"}
    ]
    assert not wrong, "\n".join(wrong)
    locked = [check for check in report["checks"] if "asks for no key" in check["message"]]
    assert locked
    assert all(clause.startswith(KEYLESS) for check in locked for clause in check["clauses"])
    assert report["counts"]["passed"] > 500
