"""Single exchanges observed on the real gateway, replayed against the reference gateway and compared by meaning.

`cases.jsonl` holds, per case, the request bytes and what the contract makes of them: the answer of 1.12.0 where it
agrees with the contract, else that of 1.13.0, else the contract itself (`by` says which). `known_differences.yaml`
lists where we differ and why.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import pytest
import yaml

from fake_workers.control import Control
from fake_workers.script import Script
from fake_workers.wire import body as answer_with

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (HERE / "cases.jsonl").read_text().split("\n")
    if line  # U+2028 ends no line here
]
KNOWN: dict[str, str] = yaml.safe_load((HERE / "known_differences.yaml").read_text()) or {}
WITHIN_S = 20.0
# What the real gateway spells out or leaves out; the contract promises neither, so both sides lose it first.
SPELLED_OUT = {
    "logprobs": False,
    "stream": False,
    "echo": False,
    "no_stop_trim": False,
    "ignore_eos": False,
    "continue_final_message": False,
    "skip_special_tokens": True,
    "separate_reasoning": True,
    "stream_reasoning": True,
    "return_hidden_states": False,
    "tool_choice": "auto",
}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


def _send(port: int, request: bytes, method: str) -> Answer:
    """Send raw bytes and read one answer until its end."""
    parser = h11.Connection(h11.CLIENT)
    # The request went out as raw bytes; the parser only has to know that one is under way.
    parser.send(h11.Request(method=method, target="/", headers=[("host", "x"), ("connection", "close")]))
    parser.send(h11.EndOfMessage())
    body = bytearray()
    head: h11.Response | None = None
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as stream:
        stream.sendall(request)
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(stream.recv(65536))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
    assert head is not None, "the connection ended without an answer"
    return Answer(
        head.status_code, {name.decode(): value.decode("latin-1") for name, value in head.headers}, bytes(body)
    )


def _meaning(value: Any) -> Any:
    """Return a JSON value without nulls, with numbers rounded to single precision's digits."""
    if isinstance(value, dict):
        return {key: _meaning(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_meaning(inner) for inner in value]
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(f"{float(value):.6g}")
    return value


def _body_meaning(text: str) -> Any:
    value = _meaning(json.loads(text))
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key not in SPELLED_OUT or inner != SPELLED_OUT[key]}
        for tool in value.get("tools", []):
            if isinstance(tool.get("function"), dict) and tool["function"].get("parameters") == {}:
                del tool["function"]["parameters"]
    return value


def _error_kind(answer: Answer) -> Any:
    """Return which of the contract's error shapes a body has."""
    if not answer.body:
        return "empty"
    if answer.headers.get("content-type", "").startswith("text/plain"):
        return "plain"
    error = json.loads(answer.body)["error"]
    if set(error) == {"message", "type", "code"} and error["type"] == "invalid_request_error":
        return {"json_parse_error": "parse", 400: "validation"}.get(error["code"], error["code"])
    return {"code": error["code"], "type": error["type"]}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
async def test_observed_case(case: dict[str, Any], replay_stack: Any) -> None:
    """The reference gateway gives the answer, and sends the worker the request, that the contract asks for."""
    problems = await _problems(case, replay_stack)
    if case["id"] in KNOWN:
        assert problems, (
            f"listed as a known difference but agrees now: remove it from known_differences.yaml ({KNOWN[case['id']]})"
        )
        return
    assert problems == []


async def _problems(case: dict[str, Any], stack: Any) -> list[str]:
    """Replay one case and list what differs."""
    port = stack.ports[case["gateway"]]
    request = (
        case["request"].replace("127.0.0.1:GATEWAY", f"127.0.0.1:{port}").encode("latin-1")
    )  # one character a byte
    control, marker = Control(stack.control_url), stack.marker()
    if case["reached"] and not case["id"].startswith(("rid.", "req.")):
        # The worker answers as it did when the case was recorded; an engine of its own mind might refuse the request.
        scripted = answer_with(case["status"], case.get("body", "{}").encode(), case.get("content_type"))
        await control.put_script(marker, Script(answers=[scripted]))
        request = request.replace(b"\r\n\r\n", f"\r\nX-Correlation-ID: {marker}\r\n\r\n".encode(), 1)
    before = await control.all_entries()
    since = before[-1].seq if before else 0
    answer = _send(port, request, case["request"].split(" ", 1)[0] if " " in case["request"] else "GET")
    target = case["request"].split(" ")[1].split("?")[0] if " " in case["request"] else ""
    entries = [entry for entry in await control.all_entries(since) if entry.method == "POST" and entry.target == target]
    found = []
    if answer.status != case["status"]:
        found.append(f"status {answer.status}, expected {case['status']}: {answer.body[:200]!r}")
    expected_error = case.get("error")
    if expected_error == "relayed" or "body" in case:
        if answer.body != case["body"].encode():
            found.append(f"body {answer.body[:200]!r}, expected the worker's")
    elif expected_error is not None and answer.status >= 400 and _error_kind(answer) != expected_error:
        found.append(f"error {_error_kind(answer)}, expected {expected_error}")
    if case["reached"] != bool(entries):
        found.append(f"reached a worker: {bool(entries)}, expected {case['reached']}")
    if entries and "worker" in case and "body" in case["worker"] and not found:
        found += _worker_problems(case, entries[0].body.decode("utf-8", "replace"), entries[0].headers)
    return found


def _worker_problems(case: dict[str, Any], body: str, headers: list[tuple[str, str]]) -> list[str]:
    """List what the worker should have received but did not."""
    found = []
    try:
        expected = _body_meaning(case["worker"]["body"])
    except ValueError:
        expected = None
    if expected is not None and _body_meaning(body) != expected:
        found.append(f"worker got {_body_meaning(body)}, expected {expected}")
    sent = {name.lower(): value for name, value in headers}
    found += [
        f"worker header {name}: {sent.get(name)!r}, expected {value!r}"
        for name, value in case["worker"]["headers"]
        if sent.get(name) != value and "chatcmpl-" not in value and "req-" not in value
    ]
    return found
