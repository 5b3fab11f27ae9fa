"""Cases of public reports that concern our own code and that no other test has (`docs/public-reports.md`)."""

from __future__ import annotations

import json
import socket

import pytest

from conformance.harness.sse import SseParser
from spec import schemas
from tests.reference_server.front import Front, StubResponse, StubWorkers
from tests.reference_server.test_process import SOON_S, gateway

CHUNK = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]}'
CONTENT = CHUNK % '{"index":0,"delta":{"content":"a"},"finish_reason":null}'
FINISH = CHUNK % '{"index":0,"delta":{},"finish_reason":"stop"}'


def parsed(*pieces: str) -> SseParser:
    """The parser after these pieces."""
    parser = SseParser()
    for at, piece in enumerate(pieces):
        parser.feed(piece.encode(), float(at))
    return parser


def test_control_records_are_no_chunks() -> None:
    """Records with only retry, id or an event's name carry no JSON, and the two chunks round them are found."""
    parser = parsed(
        *("retry: 3000\n\n", "id: 7\n", f"data: {CONTENT}\n\n", "event: ping\ndata:\n\n", f"data: {FINISH}\n\n"),
        "data: [DONE]\n\n",
    )
    filled = [event for event in parser.events if event.data and not event.is_done]
    assert [event.json["choices"][0]["finish_reason"] for event in filled] == [None, "stop"]
    assert parser.events[-1].is_done
    assert [event.event for event in parser.events if not event.data] == ["ping"]


def test_spellings_of_a_stream_are_one() -> None:
    """LF, CRLF and CR, a blank behind the colon or none, comments or none: the same events."""
    plain = f"data: {CONTENT}\n\ndata: {FINISH}\n\ndata: [DONE]\n\n"
    spellings = [
        plain.replace("\n", "\r\n"),
        plain.replace("\n", "\r"),
        plain.replace("data: ", "data:"),
        ": UPSTREAM BUSY\n\n" + plain.replace("\n\n", "\n\n: data: no\n\n"),
    ]
    wanted = [event.data for event in parsed(plain).events]
    assert len(wanted) == 3
    for spelling in spellings:
        assert [event.data for event in parsed(spelling).events] == wanted
        assert [event.data for event in parsed(*spelling).events] == wanted  # a character at a time


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c"])
def test_only_cr_and_lf_end_a_line(separator: str) -> None:
    """Characters that other software takes for line ends stay inside the text of an event."""
    parser = parsed(f"data: a{separator}b\n\ndata: [DONE]\n\n")
    assert [event.data for event in parser.events] == [f"a{separator}b", "[DONE]"]


@pytest.mark.parametrize(
    ("entry", "sound"),
    [
        ({"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}, True),
        ({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}, True),
        ({"token": "a", "logprob": None, "bytes": [97], "top_logprobs": []}, False),
        ({"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": None}, False),
    ],
)
def test_a_null_log_probability_is_no_log_probability(entry: dict[str, object], *, sound: bool) -> None:
    """The document lets bytes be null, and neither the log probability itself nor the list of alternatives."""
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "a"},
                "logprobs": {"content": [entry]},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    assert (schemas.problems("ChatCompletion", answer) == []) is sound


async def test_two_parts_of_a_call_in_one_chunk() -> None:
    """A chunk with two entries of one index reaches the client as the engine wrote it, for the client to join."""
    calls = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": "{}"}},
    ]
    event = f"data: {CHUNK % json.dumps({'index': 0, 'delta': {'tool_calls': calls}, 'finish_reason': None})}\n\n"
    stream = StubResponse(headers=[("content-type", "text/event-stream")], pieces=[event.encode()])
    reply = await Front(workers=StubWorkers(answer=stream)).chat(stream=True)
    assert reply.body == event.encode()


@pytest.mark.parametrize("hint", ["soon", "-1", "0", "1e999", "Wed, 21 Oct 2015 07:28:00 GMT", ""])
async def test_an_odd_wait_hint_does_no_harm(hint: str) -> None:
    """Whatever an engine writes into Retry-After is its client's to judge, and no fault of the gateway's."""
    busy = StubResponse(429, [("content-type", "application/json"), ("retry-after", hint)], [b'{"error":"busy"}'])
    reply = await Front(workers=StubWorkers(answer=busy)).chat()
    assert (reply.status, reply.header("retry-after"), reply.body) == (429, hint, b'{"error":"busy"}')


@pytest.mark.parametrize(("key", "wanted"), [("k", b"404"), ("wrong", b"401"), ("", b"401")])
def test_an_upgrade_is_judged_like_any_request(key: str, wanted: bytes) -> None:
    """A request for a WebSocket at a protected route needs the key like any other, and crashes nothing."""
    request = (
        "GET /workers/00000000-0000-4000-8000-000000000000 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    credential = f"Authorization: Bearer {key}\r\n" if key else ""
    with gateway("--api-key", "k", "--host", "127.0.0.1") as running:
        with socket.create_connection(running.address, timeout=SOON_S) as connection:
            connection.sendall(f"{request}{credential}\r\n".encode())
            assert connection.recv(65536).split(b" ")[1] == wanted
        running.process.terminate()
        assert "Traceback" not in running.ends()[1]
