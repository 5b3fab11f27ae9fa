"""A worker's own errors: relayed with status and body, without the header that means the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import ERROR_CODE, expect_status, send
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause, engines
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

REFUSED = {"object": "error", "message": "the worker says no", "type": "BadRequestError", "param": None, "code": 400}
STATUSES = {
    "client_error_status": (400, 402, 403, 404, 405, 408, 409, 413, 415, 422),
    "server_error_status": (500, 501, 502, 503, 504),
    "rate_limit_status": (429,),
    "unauthorized_status": (401,),
    "unusual_status": (418, 424, 425, 451, 499, 507, 520, 529, 599),
}


@pytest.mark.parametrize(
    "status",
    [case(f"errors.worker.{name}", status) for name, statuses in STATUSES.items() for status in statuses],
)
async def test_status_is_relayed(gateway: Gateway, worker: Worker, status: int) -> None:
    """The client sees the status the worker chose."""
    script = worker.script(wire.json(status, REFUSED))
    answer = await gateway.chat(script)
    await script.received()
    assert answer.status == status


BODIES: dict[str, tuple[bytes, str | None]] = {
    "json_body": (b'{ "error" : {"message":"sp\\u00e4t",  "code":1e3, "x":[1,2 ,3]} }\n', "application/json"),
    "html_body": ("<!doctype html><h1>502 · Bad Gateway</h1>\r\n".encode(), "text/html; charset=utf-8"),
    "plain_body": (b"upstream connect error\n", "text/plain"),
    "empty_body": (b"", None),
    "broken_json_body": (b'{"error": {"message": "cut he', "application/json"),
    "not_text_body": (bytes(range(256)), "application/octet-stream"),
}


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("case", [case(f"errors.worker.{name}", name) for name in BODIES])
async def test_body_is_relayed(gateway: Gateway, worker: Worker, case: str, status: int) -> None:
    """The client gets the bytes the worker sent, whatever they are."""
    data, content_type = BODIES[case]
    script = worker.script(wire.body(status, data, content_type))
    answer = expect_status(await gateway.chat(script), status)
    await script.received()
    assert answer.body == data
    assert answer.closed_cleanly


@clause("errors.worker.unauthorized_body")
async def test_workers_401_keeps_its_body(gateway: Gateway, worker: Worker) -> None:
    """An empty 401 means the gateway's own keys; a worker's 401 says what the worker said."""
    script = worker.script(wire.json(401, REFUSED))
    answer = expect_status(await gateway.chat(script), 401)
    await script.received()
    assert answer.json == REFUSED


ENGINE_BODIES: dict[str, dict[str, Any]] = {
    "sglang": REFUSED,
    "vllm": {
        "error": {
            "message": "maximum context length is 8 tokens",
            "type": "BadRequestError",
            "param": "input_tokens",
            "code": 400,
        }
    },
    "tokenspeed": {
        "error": {"type": "Bad Request", "code": "context_length_exceeded", "message": "too long", "param": None}
    },
}


@engines("sglang", "vllm", "tokenspeed")
@clause("errors.worker.engine_bodies")
async def test_engine_error_is_not_reworded(gateway: Gateway, worker: Worker) -> None:
    """Each engine's way of wording an error arrives as the engine worded it."""
    body = ENGINE_BODIES[worker.engine]
    script = worker.script(wire.json(400, body))
    answer = expect_status(await gateway.chat(script), 400)
    await script.received()
    assert answer.body == wire.compact(body)


@pytest.mark.parametrize(
    "content_type", ["text/html; charset=utf-8", "text/plain", "application/problem+json", "application/json"]
)
@clause("errors.worker.content_type")
async def test_content_type_is_kept(gateway: Gateway, worker: Worker, content_type: str) -> None:
    """The client is told what kind of body it gets, as the worker told it."""
    script = worker.script(wire.body(400, b"{}", content_type))
    answer = expect_status(await gateway.chat(script), 400)
    await script.received()
    assert answer.headers.get_all("content-type") == [content_type]


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
@clause("errors.worker.streaming_request_status")
async def test_status_for_a_stream(gateway: Gateway, worker: Worker, status: int) -> None:
    """Who asked for a stream and is refused by the worker sees the worker's status."""
    script = worker.script(wire.json(status, REFUSED))
    answer = await gateway.chat(script, stream=True)
    await script.received()
    assert answer.status == status


@pytest.mark.parametrize("case", list(BODIES))
@clause("errors.worker.streaming_request_body")
async def test_body_for_a_stream(gateway: Gateway, worker: Worker, case: str) -> None:
    """Who asked for a stream and is refused by the worker gets the worker's bytes, not events made of them."""
    data, content_type = BODIES[case]
    script = worker.script(wire.body(422, data, content_type))
    answer = expect_status(await gateway.chat(script, stream=True), 422)
    await script.received()
    assert answer.body == data


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500])
@pytest.mark.parametrize(
    "path",
    [
        case("errors.worker.completions", COMPLETIONS, name="completions"),
        case("errors.worker.embeddings", EMBEDDINGS, name="embeddings"),
    ],
)
async def test_other_routes_relay_errors(gateway: Gateway, worker: Worker, path: str, status: int) -> None:
    """Completions and embeddings relay status and body too."""
    script = worker.script(wire.json(status, REFUSED))
    answer = expect_status(await send(gateway, path, script), status)
    await script.received()
    assert answer.body == wire.compact(REFUSED)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
@pytest.mark.parametrize(
    "fields",
    [
        case("errors.worker.code_header_dropped", {}, name="whole"),
        case("errors.worker.code_header_dropped_streaming", {"stream": True}, name="stream"),
    ],
)
async def test_workers_code_header_is_dropped(
    gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int
) -> None:
    """A worker cannot claim to be the gateway: its X-SMG-Error-Code stays behind, while its error arrives."""
    script = worker.script(wire.json(status, REFUSED, [("X-SMG-Error-Code", "made_by_the_worker")]))
    answer = expect_status(await gateway.chat(script, **fields), status)
    await script.received()
    assert answer.json == REFUSED
    assert "made_by_the_worker" not in answer.headers.get_all(ERROR_CODE)


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
@clause("errors.worker.no_code_header_added")
async def test_no_code_header_on_relayed_errors(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker's error is no gateway's error, so the gateway does not mark it as one."""
    script = worker.script(wire.json(status, {"error": {"code": "of_the_worker", "message": "m"}}))
    answer = expect_status(await gateway.chat(script), status)
    await script.received()
    assert ERROR_CODE not in answer.headers


@clause("errors.worker.last_answer_after_retries")
async def test_last_answer_is_the_one_relayed(gateway: Gateway, worker: Worker) -> None:
    """When every attempt fails, the client sees what the last one said."""
    answers = [wire.json(503, {"attempt": number}) for number in range(10)]
    script = worker.script(*answers)
    answer = expect_status(await gateway.post(CHAT, gateway.chat_body(script)), 503)
    attempts = await script.received(2)
    assert answer.json == {"attempt": len(attempts) - 1}
