"""The server side of one HTTP/1.1 connection, on a bare asyncio protocol.

httptools (llhttp) judges the syntax; this module keeps what a parser throws away: the raw head, the raw body, times,
and the socket itself. It goes on reading while an answer is held, so a peer that leaves is noticed at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, cast

import httptools

from fake_workers.net.exchange import Exchange, Request
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from fake_workers.net.exchange import App

_HEAD_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_NOTHING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a connection; sizes in bytes."""

    head_bytes: int = 1024 * 1024
    body_bytes: int = 256 * 1024 * 1024
    pipelined: int = 32
    keep_alive_s: float = 5.0


class OpenConnections(set["HttpConnection"]):
    """The open connections of a listener, with waiting for the last one to go."""

    def __init__(self) -> None:
        """Start without connections."""
        super().__init__()
        self._gone = asyncio.Event()

    def lost(self, connection: HttpConnection) -> None:
        """Forget a connection."""
        self.discard(connection)
        if not self:
            self._gone.set()

    async def all_gone(self) -> None:
        """Wait until no connection is left."""
        while self:
            self._gone.clear()
            await self._gone.wait()


class HttpConnection(asyncio.Protocol):
    """Parses requests, hands them to the application one at a time, and writes what it answers."""

    def __init__(self, app: App, limits: Limits, open_connections: OpenConnections, number: int) -> None:
        """Belong to a listener that keeps the set of open connections."""
        self.loop = asyncio.get_running_loop()
        self.number = number
        self._app = app
        self._limits = limits
        self._open = open_connections
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._closing = False
        self._buffer = bytearray()
        self._fed = 0  # bytes of the buffer the parser has already seen (only while the head is incomplete)
        self._head: bytes | None = None
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._length: int | None = 0  # body bytes still to come; None when chunked
        self._headers_complete = False
        self._message_complete = False
        self._keep_alive = False
        self._started_at: float | None = None
        self._queue: list[Request] = []
        self._current: Exchange | None = None
        self._dispatching = False
        self._can_write: asyncio.Future[None] | None = None
        self._idle_since = monotonic()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stop_when_idle = False

    # transport events ------------------------------------------------------------------------------------------------

    @property
    def server_name(self) -> str | None:
        """The ``server`` header of whole answers, None for none."""
        return self._app.server_name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start reading."""
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self)
        self._idle_timer = self.loop.call_later(self._limits.keep_alive_s, self._idle_check)

    def data_received(self, data: bytes) -> None:
        """Take bytes of requests."""
        if self._closing:
            return
        if self._started_at is None:
            self._started_at = monotonic()
        self._buffer += data
        self._parse()

    def eof_received(self) -> None:
        """Take the peer's FIN as its leaving; asyncio closes the transport after this."""
        self._peer_left()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Note that the connection is gone, whoever ended it."""
        self._peer_left()
        self._closing = True
        self._open.lost(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Hold back whoever waits in :meth:`writable`."""
        if self._can_write is None:
            self._can_write = self.loop.create_future()

    def resume_writing(self) -> None:
        """Let them go on."""
        waiter, self._can_write = self._can_write, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _peer_left(self) -> None:
        now = monotonic()
        current, self._current = self._current, None
        if current is not None:
            current.on_peer_left(now)
        queued, self._queue = self._queue, []
        for request in queued:
            self._app.incomplete(request, self.number, "peer_left")
        if (self._head is not None or self._buffer) and not self._closing:
            self._app.incomplete(self._request(keep_alive=False), self.number, "incomplete")
        self._buffer.clear()
        self._head = None

    # parsing ---------------------------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Take a part of the request target from the parser."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header from the parser."""
        self._headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        """Take body bytes from the parser, chunk framing removed."""
        self._body.append(data)
        self._body_size += len(data)

    def on_headers_complete(self) -> None:
        """Learn from the parser that it has seen the end of the head."""
        self._headers_complete = True

    def on_message_complete(self) -> None:
        """Learn from the parser that the request is complete; only now does it know about keep-alive."""
        self._message_complete = True
        self._keep_alive = self._parser.should_keep_alive()

    def _parse(self) -> None:
        while self._buffer and not self._closing:
            if len(self._queue) >= self._limits.pipelined:
                cast("asyncio.Transport", self._transport).pause_reading()
                return
            try:
                progressed = self._parse_head() if self._head is None else self._parse_body()
            except httptools.HttpParserUpgrade:
                self._parser = httptools.HttpRequestParser(self)  # nobody upgrades here: go on in HTTP/1.1
                progressed = True
            except httptools.HttpParserError as error:
                self._refuse(400, f"the request is not HTTP/1.1: {error or type(error).__name__}")
                return
            if self._message_complete and self._head is not None:
                self._request_complete()
            elif not progressed:
                return

    def _parse_head(self) -> bool:
        if not self._fed:
            while self._buffer[:2] == b"\r\n":  # blank lines before a request are tolerated (RFC 9112, 2.2)
                del self._buffer[:2]
        at = self._buffer.find(_HEAD_END, max(0, self._fed - 3))
        stop = len(self._buffer) if at < 0 else at + 4
        if stop > self._limits.head_bytes:
            self._refuse(431, f"the request head is longer than {self._limits.head_bytes} bytes")
            return False
        new, self._fed = bytes(self._buffer[self._fed : stop]), stop
        if at < 0:
            self._parser.feed_data(new)
            return False
        self._head = bytes(self._buffer[:stop])
        del self._buffer[:stop]
        self._fed = 0
        self._length = 0
        try:
            self._parser.feed_data(new)
        except httptools.HttpParserUpgrade:
            self._ignore_upgrade(self._head)
        if not self._headers_complete:  # HTTP/2's preface looks like a head to everyone but the parser
            self._refuse(400, "the request is not HTTP/1.1: its head does not end where it should")
            return False
        self._expect_body()
        return True

    def _ignore_upgrade(self, head: bytes) -> None:
        """Parse a head again without its offer to change the protocol; a body may follow."""
        self._parser = httptools.HttpRequestParser(self)
        self._start_message()
        lines = head.split(b"\r\n")
        self._parser.feed_data(b"\r\n".join(line for line in lines if not line.lower().startswith(b"upgrade:")))

    def _start_message(self) -> None:
        """Forget what the parser said about the message before."""
        self._url = b""
        self._headers = []
        self._body = []
        self._body_size = 0
        self._headers_complete = False
        self._message_complete = False

    def _expect_body(self) -> None:
        for name, value in self._headers:
            lowered = name.lower()
            if lowered == b"content-length":
                self._length = int(value)
            elif lowered == b"transfer-encoding":
                self._length = None
            elif lowered == b"expect" and value.lower() == b"100-continue" and not self._buffer:
                self.write(_CONTINUE)
        if self._length is not None and self._length > self._limits.body_bytes:
            self._refuse(413, f"the request body is longer than {self._limits.body_bytes} bytes")

    def _parse_body(self) -> bool:
        if self._length is not None:
            if not self._length:
                self._refuse(400, "the request is not HTTP/1.1: its end is unclear")
                return False
            piece = bytes(self._buffer[: self._length])
            del self._buffer[: len(piece)]
            self._length -= len(piece)
            self._parser.feed_data(piece)
            return True
        # Chunked: fed line by line, so that the end of the message is always the end of a feed, and what follows it
        # (a pipelined request) stays in the buffer.
        end = self._buffer.find(b"\n") + 1 or len(self._buffer)
        piece = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._parser.feed_data(piece)
        if self._body_size > self._limits.body_bytes:
            self._refuse(413, f"the request body is longer than {self._limits.body_bytes} bytes")
        return True

    def _request(self, *, keep_alive: bool) -> Request:
        head = self._head if self._head is not None else bytes(self._buffer)
        method, _, rest = head.partition(b" ")
        now = monotonic()
        return Request(
            method=method.decode("latin-1", "replace")[:64],
            target=(self._url or rest.partition(b" ")[0][:1024]).decode("latin-1"),
            head=head,
            headers=self._headers,
            body=self._body[0] if len(self._body) == 1 else b"".join(self._body),
            keep_alive=keep_alive,
            started_at=self._started_at if self._started_at is not None else now,
            received_at=now,
        )

    def _request_complete(self) -> None:
        self._queue.append(self._request(keep_alive=self._keep_alive))
        self._head = None
        self._start_message()
        self._started_at = monotonic() if self._buffer else None
        self._dispatch()

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request that cannot be read, and close: nobody knows where the next one would start."""
        if self._current is not None or self._queue:
            self.close()
            return
        request = self._request(keep_alive=False)
        self._app.incomplete(request, self.number, "malformed")
        body = f"fake worker: {message}\n".encode()
        answer = Response(status, body, "text/plain; charset=utf-8")
        self.write(answer.to_bytes(server=self.server_name, keep_alive=False))
        self.close()

    # exchanges -------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._queue and self._current is None and not self._closing:
                exchange = Exchange(self, self._queue.pop(0))
                self._current = exchange
                self._app.handle(exchange)
        finally:
            self._dispatching = False

    def exchange_finished(self, exchange: Exchange, *, keep_alive: bool) -> None:
        """Go on to the next request, or close."""
        if self._current is exchange:
            self._current = None
        self._idle_since = monotonic()
        if not keep_alive or self._stop_when_idle:
            self.close()
            return
        if self._queue and not self._dispatching:
            self._dispatch()
        if self._transport is not None and not self._transport.is_reading() and not self._transport.is_closing():
            self._transport.resume_reading()
            self.loop.call_soon(self._parse)

    def stop_when_idle(self) -> None:
        """Close now if idle, otherwise after the current answer."""
        self._stop_when_idle = True
        if self._current is None:
            self.close()

    def _idle_check(self) -> None:
        if self._closing:
            return
        idle = self._current is None and self._started_at is None
        left = self._idle_since + self._limits.keep_alive_s - monotonic() if idle else self._limits.keep_alive_s
        if left <= 0:
            self.close()  # silently, like uvicorn
        else:
            self._idle_timer = self.loop.call_later(left, self._idle_check)

    # writing ---------------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Put bytes on the connection."""
        if self._transport is not None and not self._closing:
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the peer has taken enough for more to be written."""
        while self._can_write is not None:
            await asyncio.shield(self._can_write)

    async def flushed(self, within_s: float) -> None:
        """Wait, at most so long, until everything written has left this process."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.set_write_buffer_limits(high=0)  # from now on "writable" means "nothing left to write"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.writable(), within_s)

    def close(self) -> None:
        """Close with a FIN, once what was written has left."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection, with whatever was not yet written."""
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """Close with a RST."""
        self._closing = True
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
            self._transport.abort()
