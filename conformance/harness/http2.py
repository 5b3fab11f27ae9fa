"""HTTP/2 without a socket: one request on one connection, to a gateway known to speak it ("prior knowledge")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError

from conformance.harness.errors import CheckError
from conformance.harness.headers import Headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.exchange import Exchange

STREAM = 1
WINDOW_BYTES, FRAME_BYTES = 65_535, 16_384
"""What a peer allows before it has said anything else."""
FRAME_HEAD_BYTES = 9
OF_A_CONNECTION = frozenset({"host", "connection", "keep-alive", "transfer-encoding", "upgrade"})
"""Header fields that HTTP/2 says otherwise, or not at all."""


class Http2Reader:
    """Writes one request and parses its answer into its exchange, as `AnswerReader` does for HTTP/1.1.

    The body is taken in no faster than it is fed: the gateway gets room for more with what `to_send` returns.

    Attributes:
        opening: everything the client writes first, the whole request included.

    Args:
        exchange: the exchange to fill. Its request stays as it would be written in HTTP/1.1, for readers of reports.
        pieces: that request, of which method, target, header fields and body are taken.
        scheme: of the gateway's address.

    Raises:
        CheckError: the body is more than may be sent before the gateway has said anything, or it is in chunks.
    """

    def __init__(self, exchange: Exchange, pieces: Sequence[bytes], *, scheme: str = "http") -> None:
        self.exchange = exchange
        exchange.http2 = True
        head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
        if len(body) > WINDOW_BYTES or len(pieces) > 1:
            raise CheckError(f"over HTTP/2 the suite sends bodies of up to {WINDOW_BYTES} bytes in one piece")
        authority = next((value for name, value in pairs if name == "host"), "gateway")
        fields = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", target)]
        fields += [pair for pair in pairs if pair[0] not in OF_A_CONNECTION]
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._connection.initiate_connection()
        self._connection.send_headers(STREAM, fields, end_stream=not body)
        for at in range(0, len(body), FRAME_BYTES):
            last = at + FRAME_BYTES >= len(body)
            self._connection.send_data(STREAM, body[at : at + FRAME_BYTES], end_stream=last)
        self.opening = self._connection.data_to_send()
        self._unread = bytearray()

    def feed(self, data: bytes, now: float) -> None:
        """Take in what arrived at that time (monotonic seconds); no bytes: the connection has ended."""
        if not data:
            self.exchange.end("cut", now, "the connection was closed before the end of the answer")
            return
        self._unread += data
        try:
            # One frame at a time: what came before a faulty one has come.
            while frame := self._next_frame():
                for event in self._connection.receive_data(frame):
                    self._take(event, now)
        except ProtocolError as problem:
            self.exchange.end("garbage", now, f"{type(problem).__name__}: {problem}")

    def to_send(self) -> bytes:
        """What is to be written now: acknowledgements, and room for more of the body."""
        return self._connection.data_to_send()

    def leaving(self) -> bytes:
        """What a client writes that wants no answer any more, and keeps its connection."""
        try:
            self._connection.reset_stream(STREAM, ErrorCodes.CANCEL)
        except ProtocolError:  # the stream has ended already
            return b""
        return self._connection.data_to_send()

    def _next_frame(self) -> bytes:
        """The next whole frame of what was received; empty while there is none."""
        size = FRAME_HEAD_BYTES + int.from_bytes(self._unread[:3])
        if size > FRAME_HEAD_BYTES + FRAME_BYTES:
            raise ProtocolError(f"a frame longer than {FRAME_BYTES} bytes, or no HTTP/2: {bytes(self._unread[:40])!r}")
        if len(self._unread) < size:
            return b""
        frame = bytes(self._unread[:size])
        del self._unread[:size]
        return frame

    def _take(self, event: object, now: float) -> None:
        exchange = self.exchange
        if isinstance(event, InformationalResponseReceived | ResponseReceived):
            fields = [(str(name), str(value)) for name, value in event.headers or ()]
            status = next((int(value) for name, value in fields if name == ":status"), None)
            if isinstance(event, InformationalResponseReceived):
                exchange.informational.append(status or 0)
                return
            exchange.status, exchange.times.head = status, now
            exchange.headers = Headers(pair for pair in fields if not pair[0].startswith(":"))
        elif isinstance(event, DataReceived):
            exchange.took_body(event.data or b"", now)
            self._connection.acknowledge_received_data(event.flow_controlled_length or 0, STREAM)
        elif isinstance(event, StreamEnded):
            exchange.connection_kept = True
            exchange.end("complete", now)
        elif isinstance(event, StreamReset):
            exchange.end("reset", now, f"the stream was reset with {event.error_code!r}")
        elif isinstance(event, ConnectionTerminated):
            exchange.end("cut", now, f"the connection was ended with {event.error_code!r}")
