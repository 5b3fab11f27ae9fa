"""No bytes break the parser, no request breaks a dialect."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fake_workers import Fleet, Reply, ToolCall, WorkerSpec
from fake_workers.dialects import dialect_of
from fake_workers.dialects.base import Delayed, Generation
from fake_workers.engine.schema import minimal_instance
from fake_workers.net.connection import HttpConnection, Limits, OpenConnections
from fake_workers.net.exchange import Exchange, Request
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from fake_workers.spec import EngineName

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    """
    messages prompt input model temperature top_p top_k n stop stream stream_options tools tool_choice max_tokens
    logprobs top_logprobs logit_bias reasoning_effort seed user echo encoding_format dimensions response_format rid
    min_tokens text input_ids sampling_params return_logprob chat_template_kwargs max_completion_tokens priority tokens
    request_id
    """.split()  # noqa: SIM905 - forty quoted words are unreadable
)
KEYWORDS = st.sampled_from(
    """
    type properties required items minItems minLength minimum maximum exclusiveMinimum exclusiveMaximum enum const
    default anyOf oneOf allOf $ref $defs
    """.split()  # noqa: SIM905 - as above
)
SCHEMAS = st.recursive(
    JSON | st.sampled_from(["object", "array", "string", "integer", "#", "#/$defs/x", 10**9, -1.5]),
    lambda inner: st.dictionaries(KEYWORDS, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=12,
)
BODIES = st.dictionaries(FIELDS, JSON, max_size=6)
GOOD = {"model": "m", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "input": "x", "max_tokens": 4}
PATHS = st.sampled_from(
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/generate",
        "/tokenize",
        "/detokenize",
        "/v1/loads?include=a",
    ]
)
REPLY = Reply(reasoning=["r"], pieces=["a", "b"], tool_calls=[ToolCall(name="f")], cached_tokens=1)


def request_of(path: str, body: bytes) -> Request:
    """A POST request as the connection would make it."""
    headers = [(b"content-type", b"application/json")]
    return Request("POST", path, b"", headers, body, keep_alive=True, started_at=0.0, received_at=0.0)


def consume(answered: Any) -> None:
    """Word an answer completely, both whole and streamed."""
    if isinstance(answered, Generation):
        assert isinstance(answered.whole(answered.call, answered.outcome), Response)
        blocks = [event.data for event in answered.events(answered.call, answered.outcome)]
        assert blocks[-1] == b"data: [DONE]\n\n"
        for block in blocks[:-1]:
            json.loads(block.removeprefix(b"data: "))
    else:
        assert isinstance(answered, (Response, Delayed))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tokenspeed"])
@given(path=PATHS, body=BODIES, good=st.booleans())
@example(path="/v1/embeddings", body={"encoding_format": []}, good=True)
@settings(max_examples=120, deadline=None)
def test_no_request_breaks_a_dialect(engine: EngineName, path: str, body: dict[str, Any], *, good: bool) -> None:
    """Whatever JSON is in whatever field, a dialect answers, and words any scripted reply."""
    dialect = dialect_of(WorkerSpec(engine=engine, model="m", reasoning=True))
    data = json.dumps({**(GOOD if good else {}), **body}).encode()
    consume(dialect.answer(request_of(path, data)))
    consume(dialect.answer_scripted(request_of(path, data), REPLY))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tokenspeed"])
@given(body=st.binary(max_size=60))
@settings(deadline=None)
def test_no_bytes_break_a_scripted_reply(engine: EngineName, body: bytes) -> None:
    """A scripted reply is worded whatever the body is."""
    dialect = dialect_of(WorkerSpec(engine=engine, model="m"))
    consume(dialect.answer_scripted(request_of("/v1/chat/completions", body), REPLY))
    consume(dialect.answer(request_of("/v1/completions", body)))


@given(SCHEMAS)
@settings(max_examples=300, deadline=None)
def test_no_schema_is_too_odd(schema: Any) -> None:
    """Whatever stands in a schema, its instance is JSON of bounded size."""
    assert len(json.dumps(minimal_instance(schema))) < 5_000_000


class Transport(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        """Start open."""
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes."""

    def close(self) -> None:
        """Close."""
        self.closed = True

    def is_closing(self) -> bool:
        """Say whether closed."""
        return self.closed

    def is_reading(self) -> bool:
        """Say that it reads."""
        return True

    def pause_reading(self) -> None:
        """Take no notice."""


class App:
    """Answers everything with 200 and keeps what it saw."""

    server_name = None

    def __init__(self) -> None:
        """Start without requests."""
        self.seen: list[Request] = []

    def handle(self, exchange: Exchange) -> None:
        """Keep a request and answer it."""
        self.seen.append(exchange.request)
        exchange.respond(Response(200))

    def incomplete(self, request: Request, connection: int, outcome: str) -> None:
        """Take no notice."""


HEADS = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.1\r\n",
        b"content-length: 3\r\n",
        b"transfer-encoding: chunked\r\n",
        b"upgrade: h2c\r\nconnection: upgrade\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"HTTP/1.1",
        b"3\r\n",
        b"0\r\n\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"abc",
    ]
)


@given(st.lists(HEADS | st.binary(max_size=20), max_size=12))
@settings(max_examples=300, deadline=None)
async def test_no_bytes_break_the_parser(pieces: list[bytes]) -> None:
    """Any bytes in any pieces are taken without an exception or an endless loop, and the connection can be lost."""
    app = App()
    connection = HttpConnection(app, Limits(head_bytes=64, body_bytes=64), OpenConnections(), 1)  # type: ignore[arg-type]  # a stub app
    connection.connection_made(Transport())
    for piece in pieces:
        connection.data_received(piece)
    connection.eof_received()
    connection.connection_lost(None)


@given(bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=5), size=st.integers(1, 50), chunked=st.booleans())
@settings(deadline=None)
async def test_requests_survive_any_cutting(bodies: list[bytes], size: int, *, chunked: bool) -> None:
    """Pipelined requests come out as they went in, wherever the bytes are cut."""
    app = App()
    connection = HttpConnection(app, Limits(), OpenConnections(), 1)  # type: ignore[arg-type]  # a stub app
    connection.connection_made(Transport())
    stream = b""
    for body in bodies:
        if chunked:
            framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:7], body[7:]) if part)
            stream += b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"
        else:
            stream += b"POST /x HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    for at in range(0, len(stream), size):
        connection.data_received(stream[at : at + size])
    await asyncio.sleep(0)
    connection.connection_lost(None)
    assert [request.body for request in app.seen] == bodies


async def test_a_bug_in_a_dialect_is_an_answer(fleet: Fleet, raw: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A dialect that fails gives 500 and is logged and journalled as failed; the worker goes on."""

    def broken(request: Request) -> Response:
        """Fail."""
        raise RuntimeError(request.target)

    fleet.workers["w0"].dialect.route("GET", "/broken", broken)
    async with raw(fleet.urls[0]) as client:
        for path, status in ((b"/broken", b"500"), (b"/health", b"200")):
            await client.send(b"GET %b HTTP/1.1\r\nhost: w\r\n\r\n" % path)
            assert (await client.message())[0][9:12] == status
    assert [entry.outcome for entry in fleet.journal.all_entries()] == ["failed", "answered"]
    assert "/broken" in caplog.text
