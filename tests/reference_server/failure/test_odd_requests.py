"""Requests no library sends: nothing of them harms the worker's good name, other requests, or what the log may hold."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import pytest

from tests.reference_server.test_process import CHAT, Worker, gateway

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.reference_server.test_process import Gateway

PROMPT, KEY = "my-secret-diary", "sk-xyzzy"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}).encode()
BAD_VALUES = [b"\x01", b"a\x0bb", b"a\x1fb", b"\x7f"]
FORWARDED = [b"traceparent", b"authorization", b"x-correlation-id", b"x-smg-routing-key", b"x-request-id-a"]
WITHIN_S = 10.0


class Http2:
    """One connection over HTTP/2 whose client checks nothing."""

    def __init__(self, server: Gateway) -> None:
        self._socket = socket.create_connection(server.address, timeout=WITHIN_S)
        config = h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding="latin-1"
        )
        self._http = h2.connection.H2Connection(config)
        self._http.initiate_connection()
        self._statuses: dict[int, str] = {}

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def begin(
        self, *, path: bytes = CHAT.encode(), method: bytes = b"POST", more: Sequence[tuple[bytes, bytes]] = ()
    ) -> int:
        """Send a head and no body yet; returns the number of the stream."""
        number = self._http.get_next_available_stream_id()
        head = [(b":method", method), (b":path", path), (b":scheme", b"http"), (b":authority", b"x")]
        self._http.send_headers(number, [*head, (b"content-type", b"application/json"), *more])
        return number

    def body(self, number: int, data: bytes = BODY, *, end: bool = True) -> None:
        """Send a body or a part of it."""
        self._http.send_data(number, data, end_stream=end)
        self._socket.sendall(self._http.data_to_send())

    def status(self, number: int) -> str:
        """The status of the answer once it is whole; `closed` if the connection ended before."""
        while data := self._socket.recv(65536):
            for event in self._http.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self._statuses[event.stream_id] = str(dict(event.headers)[":status"])  # type: ignore[index]  # decoded
                if isinstance(event, h2.events.StreamEnded) and event.stream_id == number:
                    return self._statuses[number]
        return "closed"


@pytest.fixture(scope="module")
def server() -> Iterator[Gateway]:
    """A gateway whose breaker opens at the first failure; its log is read when all tests here are through."""
    flags = ["--cb-failure-threshold", "1", "--log-level", "debug", "--max-payload-size", "2000"]
    with Worker() as worker, gateway("--worker-urls", worker.url, *flags) as running:
        yield running
        running.process.terminate()
        status, errors = running.ends()
    assert (status, "Traceback" in errors, "complains" in errors) == (0, False, False), errors
    assert PROMPT not in errors
    assert KEY not in errors


@pytest.fixture
def client(server: Gateway) -> Iterator[Http2]:
    """A connection, closed in the end."""
    opened = Http2(server)
    yield opened
    opened.close()


@pytest.mark.parametrize("value", BAD_VALUES)
def test_no_header_holds_control_characters(server: Gateway, client: Http2, value: bytes) -> None:
    """400 for the client, over both versions of HTTP; the worker hears nothing, so its breaker does not either."""
    for name in (*FORWARDED, b"x-smg-priority", b"x-smg-tenant-id", b"x-nothing"):
        number = client.begin(more=[(name, value)])
        client.body(number)
        assert client.status(number) == "400"
        assert _over_http1(server, [(name, value)]).startswith(b"HTTP/1.1 400 ")
    number = client.begin()
    client.body(number)
    assert client.status(number) == "200"


@pytest.mark.parametrize(
    ("path", "method"), [(b"/v1/\xff", b"POST"), (b"/\xe2\x82\xac", b"GET"), (CHAT.encode(), b"\xff")]
)
def test_bytes_beyond_ascii_in_a_target_end_no_connection(client: Http2, path: bytes, method: bytes) -> None:
    """They name nothing that is served here; the other request on the connection is served as if it were alone."""
    other = client.begin(more=[(b"authorization", f"Bearer {KEY}".encode())])
    number = client.begin(path=path, method=method)
    client.body(number)
    assert client.status(number) in {"404", "405"}
    client.body(other)
    assert client.status(other) == "200"


def test_a_body_that_goes_on_behind_its_answer_ends_no_connection(client: Http2) -> None:
    """What comes for a stream that was refused and closed is thrown away; the connection serves on."""
    number = client.begin(path=b"/nowhere")
    client.body(number, end=False)
    assert client.status(number) == "404"
    for _ in range(3):
        client.body(number, end=False)
    client.body(number)
    following = client.begin()
    client.body(following)
    assert client.status(following) == "200"


def _over_http1(server: Gateway, more: Sequence[tuple[bytes, bytes]]) -> bytes:
    head = [(b"Host", b"x"), (b"Content-Type", b"application/json"), (b"Connection", b"close"), *more]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
    with socket.create_connection(server.address, timeout=WITHIN_S) as client:
        client.sendall(b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), lines, len(BODY), BODY))
        got = b""
        while data := client.recv(65536):
            got += data
    return got
