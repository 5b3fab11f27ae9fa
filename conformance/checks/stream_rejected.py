"""Chat Completions: a streaming request that fails before its first chunk gets an ordinary error, not a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.stream_support import chunk, is_json, media_type
from conformance.harness import CHAT, clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker

ERROR = {"object": "error", "message": "bad \u00e9", "type": "BadRequestError", "param": None, "code": 400}
STATUSES = [400, 401, 404, 422, 429, 500, 503]


@clause("chat.stream.rejected.status")
@pytest.mark.parametrize("status", STATUSES)
async def test_status_is_the_workers(gateway: Gateway, worker: Worker, status: int) -> None:
    """The client of a rejected streaming request gets the worker's status."""
    script = worker.script(wire.json(status, ERROR))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert chat.status == status


@clause("chat.stream.rejected.content_type")
@pytest.mark.parametrize("status", STATUSES)
async def test_content_type_is_json(gateway: Gateway, worker: Worker, status: int) -> None:
    """A rejection in JSON is labelled application/json."""
    script = worker.script(wire.json(status, ERROR))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert is_json(chat)


@clause("chat.stream.rejected.not_event_stream")
@pytest.mark.parametrize("content_type", ["application/json", "text/html; charset=utf-8", "text/plain", None])
async def test_never_labelled_a_stream(gateway: Gateway, worker: Worker, content_type: str | None) -> None:
    """Whatever the rejection's content type is, it does not become text/event-stream."""
    script = worker.script(wire.body(400, b'{"message": "no"}', content_type))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert chat.status == 400
    assert media_type(chat) != "text/event-stream"


@clause("chat.stream.rejected.body")
@pytest.mark.parametrize("status", STATUSES)
async def test_body_is_the_workers(gateway: Gateway, worker: Worker, status: int) -> None:
    """The client reads the worker's error body, byte for byte."""
    body = b'{ "error" : {"message":"caf\xc3\xa9", "code": 4.0e2 } }\n'
    script = worker.script(wire.body(status, body, "application/json"))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert chat.body == body


@clause("chat.stream.rejected.other_type")
async def test_html_stays_html(gateway: Gateway, worker: Worker) -> None:
    """A rejection in HTML arrives as HTML."""
    script = worker.script(wire.body(502, b"<h1>Bad Gateway</h1>", "text/html; charset=utf-8"))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert chat.headers.get_all("content-type") == ["text/html; charset=utf-8"]
    assert chat.body == b"<h1>Bad Gateway</h1>"


@clause("chat.stream.early_error.parse")
async def test_unparsable_request_gets_json(gateway: Gateway, worker: Worker) -> None:
    """A streaming request with a member of the wrong type is refused with 400 and JSON, without an event."""
    refusal = await gateway.refuses(worker, CHAT, {"stream": True}, {"stream": True, "temperature": "hot"})
    assert is_json(refusal.exchange)
    assert refusal.exchange.events == []


@clause("chat.stream.early_error.validation")
async def test_invalid_request_gets_json(gateway: Gateway, worker: Worker) -> None:
    """A streaming request that breaks a rule is refused with 400 and JSON, without an event."""
    refusal = await gateway.refuses(
        worker, CHAT, {"stream": True, "temperature": 2}, {"stream": True, "temperature": 2.5}
    )
    assert is_json(refusal.exchange)
    assert refusal.exchange.events == []


@clause("chat.stream.early_error.unknown_model")
async def test_unknown_model_gets_json(gateway: Gateway, worker: Worker) -> None:
    """A streaming request for a model nobody serves gets 404 and JSON, without an event."""
    unknown = {"stream": True, "model": "conformance-nobody-serves-this"}
    refusal = await gateway.refuses(worker, CHAT, {"stream": True}, unknown, status=404)
    assert is_json(refusal.exchange)
    assert refusal.exchange.events == []


@clause("chat.stream.early_error.worker_gone")
@pytest.mark.parametrize("fault", [wire.close_before_headers, wire.reset_before_headers])
async def test_worker_hangs_up_before_answering(gateway: Gateway, worker: Worker, fault: object) -> None:
    """A worker that hangs up without a byte leaves the client with a 5xx in JSON, without an event."""
    script = worker.script(fault())  # type: ignore[operator]  # a fault of `wire` takes no argument
    chat = await gateway.chat(script, stream=True)
    await script.received()
    assert chat.status is not None, chat.brief()
    assert 500 <= chat.status <= 599
    assert is_json(chat)
    assert isinstance(chat.json, dict)
    assert chat.events == []


@clause("chat.stream.early_error.retry_invisible")
async def test_second_attempt_leaves_no_trace(gateway: Gateway, worker: Worker) -> None:
    """A worker that first answers 503 and then streams gives the client the stream alone."""
    script = worker.script(wire.json(503, ERROR), wire.sse(chunk("one"), chunk(finish="stop")))
    chat = await gateway.chat(script, stream=True)
    assert len(await script.received(2)) == 2
    assert chat.succeeded
    assert chat.body == wire.event(chunk("one")) + wire.event(chunk(finish="stop")) + wire.DONE
