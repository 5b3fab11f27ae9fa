"""The suite's HTTP/2 client against h2's own server side: what it writes, what it reads, and how an answer can end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset

from conformance.harness import bodies
from conformance.harness.errors import CheckError
from conformance.harness.exchange import Exchange
from conformance.harness.http2 import Http2Reader
from conformance.reports.curl import reproduce

if TYPE_CHECKING:
    from h2.events import Event

BODY = b'{"model":"m"}'
HEADERS = [("authorization", "Bearer sk"), ("X-Request-ID", "Mine")]


class Peer:
    """A server's side of the connection, and the client before it."""

    def __init__(self, body: bytes | None = BODY) -> None:
        pieces = bodies.request("POST", "/v1/x", body, HEADERS, host="gateway:80")
        self.exchange = Exchange(method="POST", target="/v1/x", request=b"".join(pieces))
        self.reader = Http2Reader(self.exchange, pieces)
        self.server = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.server.initiate_connection()
        self.events: list[Event] = self.server.receive_data(self.reader.opening)

    def head(self, status: int = 200, *fields: tuple[str, str], end: bool = False) -> None:
        """Write an answer's head."""
        self.server.send_headers(1, [(":status", str(status)), *fields], end_stream=end)

    def arrive(self, size: int = 1 << 20) -> Exchange:
        """What the server has written comes to the client, so many bytes at a time."""
        data = self.server.data_to_send()
        for at in range(0, len(data), size):
            self.reader.feed(data[at : at + size], 1.0 + at)
        return self.exchange


def test_a_request_is_written() -> None:
    """Method, path, authority, fields in lower case and body arrive, and nothing that belongs to HTTP/1.1."""
    peer = Peer()
    (request,) = [each for each in peer.events if isinstance(each, RequestReceived)]
    fields = [(str(name), str(value)) for name, value in request.headers or ()]
    assert fields[:4] == [(":method", "POST"), (":scheme", "http"), (":authority", "gateway:80"), (":path", "/v1/x")]
    assert ("x-request-id", "Mine") in fields
    assert ("content-length", str(len(BODY))) in fields
    assert not {"host", "connection", "transfer-encoding"} & {name for name, _ in fields}
    assert b"".join(each.data or b"" for each in peer.events if isinstance(each, DataReceived)) == BODY
    assert any(isinstance(each, StreamEnded) for each in peer.events)


def test_a_long_body_goes_in_frames() -> None:
    """A body of several frames arrives whole; one over the first window is the check's mistake."""
    peer = Peer(b"x" * 65_535)
    assert sum(len(each.data or b"") for each in peer.events if isinstance(each, DataReceived)) == 65_535
    with pytest.raises(CheckError, match="65535"):
        Peer(b"x" * 65_536)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_answer_is_read(size: int) -> None:
    """Status, fields and body are read however the bytes arrive, each piece of the body with its time."""
    peer = Peer()
    peer.head(200, ("content-type", "text/event-stream"), ("x-a", "1"), ("x-a", "2"))
    peer.server.send_data(1, b"data: 1\n\n")
    peer.server.send_data(1, b"data: [DONE]\n\n", end_stream=True)
    answer = peer.arrive(size)
    assert (answer.status, answer.outcome, answer.connection_kept) == (200, "complete", True)
    assert answer.headers.get_all("x-a") == ["1", "2"]
    assert [data for _, data in answer.pieces] == [b"data: 1\n\n", b"data: [DONE]\n\n"]
    assert answer.ended_with_done
    assert answer.legible.startswith(b"HTTP/2 200\r\ncontent-type: text/event-stream\r\n")


def test_room_is_given_back() -> None:
    """More than a window of body arrives, because what was read is acknowledged."""
    peer = Peer()
    peer.head()
    for _ in range(40):
        peer.server.send_data(1, b"x" * 16_000)
        peer.arrive()
        peer.server.receive_data(peer.reader.to_send())
    assert len(peer.exchange.body) == 640_000


def test_a_reset_stream() -> None:
    """A stream that is reset is told apart from one that has ended."""
    peer = Peer()
    peer.head()
    peer.server.reset_stream(1, ErrorCodes.INTERNAL_ERROR)
    answer = peer.arrive()
    assert (answer.status, answer.outcome) == (200, "reset")
    assert "INTERNAL_ERROR" in answer.problem


def test_an_ended_connection() -> None:
    """GOAWAY, and a connection that just ends, cut the answer off."""
    peer = Peer()
    peer.server.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
    assert peer.arrive().outcome == "cut"
    other = Peer()
    other.reader.feed(b"", 2.0)
    assert (other.exchange.outcome, other.exchange.status) == ("cut", None)


def test_a_body_that_is_not_what_was_announced() -> None:
    """What came before a faulty frame has come; the answer itself is garbage."""
    peer = Peer()
    peer.head(503, ("content-length", "132"))
    peer.server.end_stream(1)
    answer = peer.arrive()
    assert (answer.status, answer.outcome) == (503, "garbage")
    assert "InvalidBodyLength" in answer.problem


def test_no_http2() -> None:
    """An answer in HTTP/1.1 is garbage."""
    peer = Peer()
    peer.reader.feed(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", 1.0)
    assert (peer.exchange.outcome, peer.exchange.status) == ("garbage", None)
    assert "HTTP/1.1 400" in peer.exchange.problem


def test_a_request_taken_back() -> None:
    """Leaving resets the stream and keeps the connection; behind the end there is nothing to take back."""
    peer = Peer()
    found = peer.server.receive_data(peer.reader.leaving())
    assert [each.error_code for each in found if isinstance(each, StreamReset)] == [ErrorCodes.CANCEL]
    ended = Peer()
    ended.head(204, end=True)
    ended.arrive()
    assert ended.reader.leaving() == b""


def test_the_command_line_says_http2() -> None:
    """The curl line of a failure speaks HTTP/2 too."""
    line = reproduce(Peer().exchange, "http://127.0.0.1:1")
    assert "--http2-prior-knowledge" in line
    assert "--http1.1" not in line
