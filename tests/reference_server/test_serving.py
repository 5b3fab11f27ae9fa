"""The way of a request for inference, from its bytes to the worker's and back."""

from __future__ import annotations

import asyncio
import json

import pytest

from reference_server.errors import GatewayError
from reference_server.settings import Settings
from reference_server.workers.exchange import UpstreamBodyError
from tests.reference_server.front import CHAT, HI, JSON_TYPE, WORKER_URL, Front, StubResponse, StubWorkers

SSE = (("content-type", "text/event-stream"),)


async def test_the_worker_gets_the_body_and_the_allowed_headers() -> None:
    """Canonical model, forwarded headers, the client's own bytes; the path is the client's."""
    front = Front(Settings(model_aliases={"al": "m"}))
    raw = b'{"model":"al", "messages":[{"role":"user","content":"hi"}],"top_p":0.950}'
    reply = await front.post(CHAT + "?debug=1", raw, [("cookie", "x"), ("x-correlation-id", "c")])
    sent = front.workers.only
    assert (sent.method, sent.path, sent.model) == ("POST", CHAT, "m")
    assert sent.body == raw.replace(b'"al"', b'"m"')
    assert list(sent.headers) == [("content-type", "application/json"), ("x-correlation-id", "c")]
    assert (reply.status, reply.header("x-request-id")) == (200, "c")


async def test_the_answer_is_the_workers_own() -> None:
    """Status, body and headers pass byte for byte; routed worker and request id are the gateway's."""
    front = Front()
    headers = (("content-type", "x/y"), ("set-cookie", "a"), ("set-cookie", "b"), ("x-smg-error-code", "forged"))
    front.workers.answer = StubResponse(418, headers, [b"not {json", b"\xff"])
    reply = await front.chat()
    assert (reply.status, reply.body, reply.ended) == (418, b"not {json\xff", True)
    assert reply.all("set-cookie") == ["a", "b"]
    assert reply.header("content-type") == "x/y"
    assert reply.header("x-smg-error-code") is None
    assert reply.header("x-smg-routed-worker-id") == WORKER_URL
    assert reply.header("content-length") == "10"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_event_stream_passes_as_it_comes(stream: bool) -> None:
    """Events go out piece by piece, before the worker has finished, whether or not a stream was asked for."""
    front = Front()
    front.workers.answer = StubResponse(200, SSE, [b"data: 1\r\n\r\n", b": \xff"], hang=True)
    asking = asyncio.ensure_future(front.chat(stream=stream))
    await asyncio.wait_for(front.first_chunk.wait(), 5)
    assert not asking.done()
    front.leave.set()
    reply = await asking
    assert reply.body == b"data: 1\r\n\r\n: \xff"
    assert reply.header("content-length") is None


async def test_an_error_before_the_stream_keeps_its_own_shape() -> None:
    """A worker that refuses a streaming request is relayed with its status and content type, whole."""
    front = Front()
    front.workers.answer = StubResponse(400, (("content-type", "application/json"),), [b'{"error":', b'"x"}'])
    reply = await front.chat(stream=True)
    assert (reply.status, reply.header("content-type"), reply.json) == (400, "application/json", {"error": "x"})
    assert reply.header("content-length") == "13"


async def test_a_stream_that_breaks_is_left_without_its_end() -> None:
    """What came is passed on, and the response is not finished, so that the client sees it is incomplete."""
    front = Front()
    broken = UpstreamBodyError("cut", WORKER_URL)
    front.workers.answer = StubResponse(200, SSE, [b"data: 1\n\n"], then=broken)
    reply = await front.chat(stream=True)
    assert (reply.status, reply.body, reply.ended) == (200, b"data: 1\n\n", False)


async def test_an_answer_that_breaks_is_an_error_of_its_own() -> None:
    """A body that is no stream and breaks off becomes 500 read_response_body_failed with the routed worker."""
    front = Front()
    front.workers.answer = StubResponse(pieces=[b"{"], then=UpstreamBodyError("cut", WORKER_URL))
    reply = await front.chat()
    assert (reply.status, reply.error["code"], reply.ended) == (500, "read_response_body_failed", True)
    assert reply.error["type"] == "Internal Server Error"
    assert reply.header("x-smg-routed-worker-id") == WORKER_URL


async def test_a_gateway_error_is_an_envelope() -> None:
    """Key order, reason phrase, code in body and header, null param, extra headers."""
    front = Front()
    front.workers.answer = GatewayError(503, "no_available_workers", "nobody", [("retry-after", "2")])
    reply = await front.chat()
    assert list(reply.error.items()) == [
        ("type", "Service Unavailable"), ("code", "no_available_workers"), ("message", "nobody"), ("param", None),
    ]  # fmt: skip
    assert (reply.status, reply.header("x-smg-error-code"), reply.header("retry-after")) == (
        503, "no_available_workers", "2",
    )  # fmt: skip


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings"])
@pytest.mark.parametrize(
    ("body", "code"), [(b"{", "json_parse_error"), (b"[]", "json_parse_error"), (b"{}", "json_parse_error")]
)
async def test_a_request_failure_has_three_keys(path: str, body: bytes, code: str) -> None:
    """message, type, code, in this order; no error-code header, no routed worker, nothing dispatched."""
    front = Front()
    reply = await front.post(path, body)
    assert reply.status == 400
    assert list(reply.error) == ["message", "type", "code"]
    assert (reply.error["type"], reply.error["code"]) == ("invalid_request_error", code)
    assert reply.header("x-smg-error-code") is None
    assert reply.header("x-smg-routed-worker-id") is None
    assert front.workers.seen == []


async def test_a_bound_is_answered_with_a_number() -> None:
    """Validation failures have the number 400 as their code."""
    reply = await Front().chat(n=0)
    assert (reply.status, reply.error["code"]) == (400, 400)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON; charset=iso-8859-1", "application/json ;x", "application/vnd.x+json"],
)
async def test_json_content_types_are_accepted(content_type: str) -> None:
    """Any case, any parameter, and the +json family."""
    front = Front()
    reply = await front.ask("POST", CHAT, [("content-type", content_type)], json.dumps(HI).encode())
    assert reply.status == 200


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "text/json", "application/jsonx", "application/x-www-form-urlencoded"]
)
async def test_other_content_types_are_parse_failures(content_type: str | None) -> None:
    """Anything else is refused before the body is looked at."""
    headers = [] if content_type is None else [("content-type", content_type)]
    reply = await Front().ask("POST", CHAT, headers, b"not json")
    assert (reply.status, reply.error["code"]) == (400, "json_parse_error")
    assert "Content-Type" in reply.error["message"]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_refused(announced: bool) -> None:
    """413 in the envelope, with an announced length and without; the limit itself is allowed."""
    raw = json.dumps(HI).encode()
    front = Front(Settings(max_payload_size_bytes=len(raw)))
    assert (await front.post(CHAT, raw)).status == 200
    too_long = raw + b" "
    body = too_long if announced else [too_long[:10], too_long[10:]]
    reply = await front.ask("POST", CHAT, [("content-type", "application/json")], body)
    assert (reply.status, reply.error["code"]) == (413, "request_body_too_large")
    assert reply.error["type"] == "Payload Too Large"
    assert len(front.workers.seen) == 1


@pytest.mark.parametrize(("length", "chunks"), [(True, False), (False, True), (True, True)])
async def test_a_request_with_both_framings_ends_its_connection(length: bool, chunks: bool) -> None:
    """Only a request that announces both a length and chunks is answered with `connection: close`."""
    body = json.dumps(HI).encode()
    headers = [("content-type", "application/json"), *([("transfer-encoding", "chunked")] if chunks else [])]
    reply = await Front().ask("POST", CHAT, headers, body if length else [body])  # bytes come with their length
    assert reply.status == 200
    assert reply.all("connection") == (["close"] if length and chunks else [])


async def test_checks_come_in_the_order_of_the_pipeline() -> None:
    """Size before key, key before content type, content type before JSON, JSON before bounds, bounds before model."""
    workers = StubWorkers(answer=GatewayError(404, "model_not_found", "no"))
    front = Front(Settings(api_key="k", max_payload_size_bytes=200), workers)
    key = ("authorization", "Bearer k")
    json_type = ("content-type", "application/json")
    assert (await front.ask("POST", CHAT, [], b" " * 201)).status == 413
    assert (await front.ask("POST", CHAT, [], b"not json")).status == 401
    assert "Content-Type" in (await front.ask("POST", CHAT, [key], b"not json")).error["message"]
    assert "JSON" in (await front.ask("POST", CHAT, [key, json_type], b"not json")).error["message"]
    assert (await front.chat([key], model="nope", n=0)).error["code"] == 400
    assert workers.seen == []
    assert (await front.chat([key], model="nope")).status == 404


async def test_a_fault_of_ours_is_told_in_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is logged with its traceback and answered with internal_error, without details."""
    front = Front(workers=StubWorkers(answer=RuntimeError("secret detail")))
    reply = await front.chat()
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert b"secret" not in reply.body
    assert "secret detail" in caplog.text


@pytest.mark.parametrize("how", ["answered", "streamed", "refused", "failed", "left", "left in mid-stream", "faulty"])
async def test_the_permit_comes_back_on_every_way_out(how: str) -> None:
    """Whatever becomes of a request, its place is free afterwards and the worker's response is closed once."""
    front = Front()
    stub = StubResponse(200, SSE, [b"data: 1\n\n"], hang=how == "left in mid-stream")
    ways: dict[str, StubResponse | BaseException] = {
        "streamed": stub,
        "left in mid-stream": stub,
        "failed": GatewayError(500, "x", "y"),
        "faulty": RuntimeError("x"),
    }
    front.workers.answer = ways.get(how, StubResponse())
    front.workers.hang = how == "left"
    asking = asyncio.ensure_future(front.chat(stream="x" if how == "refused" else True))
    if how.startswith("left"):
        await asyncio.wait_for(front.workers.asked.wait(), 5)
        if how == "left in mid-stream":
            await asyncio.wait_for(front.first_chunk.wait(), 5)
        assert front.door.inside == 1
        front.leave.set()
    await asyncio.wait_for(asking, 5)
    assert front.door.inside == 0
    assert front.state.open_requests == 0
    if isinstance(front.workers.answer, StubResponse) and how not in {"refused", "left"}:
        assert front.workers.answer.closed == 1


async def test_a_shutdown_cuts_what_is_open() -> None:
    """Cutting ends every open request at once, without an end of its body, and settles it."""
    front = Front()
    front.workers.answer = StubResponse(200, SSE, [b"data: 1\n\n"], hang=True)
    asking = asyncio.ensure_future(front.chat(stream=True))
    await asyncio.wait_for(front.first_chunk.wait(), 5)
    front.state.cut()
    await asyncio.wait_for(front.state.until_idle(), 5)
    reply = await asking
    assert not reply.ended
    assert front.door.inside == 0


@pytest.mark.parametrize("where", ["at the worker", "in its body", "after the cut"])
async def test_what_a_shutdown_finds_without_an_answer_is_told_so(where: str) -> None:
    """A request that is cut before its answer has begun gets an enveloped 503, and everything it held is free."""
    front = Front()
    front.workers.hang = True
    if where == "after the cut":
        front.state.cut()
    asking = asyncio.ensure_future(front.ask("POST", CHAT, JSON_TYPE, None) if where == "in its body" else front.chat())
    if where == "at the worker":
        await asyncio.wait_for(front.workers.asked.wait(), 5)
    for _ in range(10):
        await asyncio.sleep(0)
    front.state.cut()
    reply = await asyncio.wait_for(asking, 5)
    assert reply.ended
    assert (reply.status, reply.header("x-smg-error-code")) == (503, "shutting_down")
    assert (reply.error["type"], reply.error["code"]) == ("Service Unavailable", "shutting_down")
    assert reply.header("x-request-id")
    assert (front.door.inside, front.state.open_requests) == (0, 0)
    counted = front.state.metrics.registry.get_sample_value
    labels = {"path": CHAT, "status_code": "503", "error_code": "shutting_down"}
    assert counted("smg_http_responses_total", labels) == 1


async def test_a_client_that_leaves_while_a_shutdown_cuts_is_counted_once() -> None:
    """Whichever comes first, the request is settled once and has one outcome."""
    front = Front()
    front.workers.hang = True
    asking = asyncio.ensure_future(front.chat())
    await asyncio.wait_for(front.workers.asked.wait(), 5)
    front.leave.set()
    front.state.cut()
    await asyncio.wait_for(asking, 5)
    assert (front.door.inside, front.state.open_requests) == (0, 0)
    outcomes = [
        sample
        for family in front.state.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "smg_http_responses_total"
    ]
    assert [sample.value for sample in outcomes] == [1]
