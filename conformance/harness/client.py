"""The suite's own HTTP client: writes exactly the bytes it is given, keeps every byte and time of the answer.

`answer.py` parses the answer; the request is written by hand, because a conformance suite must be able to send what a
well-behaved client library refuses to send. One connection an exchange. Over HTTP/2 `http2.py` writes and parses.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Self

from conformance.harness.answer import AnswerReader
from conformance.harness.errors import Disproved, TargetError
from conformance.harness.exchange import Exchange, Outcome
from conformance.harness.http2 import Http2Reader
from conformance.harness.pace import paced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from conformance.harness.sse import Event

READ_BYTES = 1 << 16
CONNECT_BOUND_S = 10.0
DEFAULT_BOUND_S = 30.0


class Live:
    """An exchange under way. Use as an async context manager; leaving it closes the connection.

    Args:
        address: host and port of the gateway.
        request: head and body exactly as they go over the wire; several pieces are written one after the other.
        method: the method, which the parser needs to know (a HEAD has no body).
        target: the request target, for messages.
        within_s: bound of the whole exchange, seconds; when it passes the outcome is `timeout`.
        receive_buffer: SO_RCVBUF in bytes, for checks of back-pressure.
        http2: send the same request in HTTP/2.
    """

    def __init__(
        self,
        address: tuple[str, int],
        request: Sequence[bytes],
        *,
        method: str,
        target: str,
        within_s: float = DEFAULT_BOUND_S,
        receive_buffer: int | None = None,
        http2: bool = False,
    ) -> None:
        self.exchange = Exchange(method=method, target=target, request=b"".join(request))
        self._address = address
        self._answer: AnswerReader | Http2Reader
        if http2:
            self._answer = Http2Reader(self.exchange, request)
            self._pieces = [self._answer.opening]
        else:
            self._answer = AnswerReader(self.exchange)
            self._pieces = list(request)
        self._deadline = time.monotonic() + paced(within_s)
        self._receive_buffer = receive_buffer
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._sender: asyncio.Task[None] | None = None
        self._events_given = 0
        self._chunks_given = 0

    async def __aenter__(self) -> Self:
        exchange = self.exchange
        exchange.times.started = time.monotonic()
        sock = socket.socket(socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        if self._receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        try:
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(sock, self._address), CONNECT_BOUND_S)
        except OSError as problem:  # TimeoutError is one
            sock.close()
            raise TargetError(
                f"cannot connect to the gateway at {self._address[0]}:{self._address[1]}: {problem or 'no answer'}; "
                "it is not running (any more)"
            ) from problem
        self._reader, self._writer = await asyncio.open_connection(sock=sock, limit=READ_BYTES)
        self._sender = asyncio.create_task(self._send())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end("aborted")
        await self._close()

    async def _send(self) -> None:
        writer = self._writer
        if writer is None:
            return
        # A gateway may answer and close before it has read everything; what matters then is the answer.
        with contextlib.suppress(ConnectionError):
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
            self.exchange.times.sent = time.monotonic()

    async def written(self) -> None:
        """Wait until the whole request is written, or cannot be."""
        if self._sender is not None:
            await asyncio.wait({self._sender})

    def _end(self, outcome: Outcome, problem: str = "") -> None:
        self.exchange.end(outcome, time.monotonic(), problem)

    async def _close(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sender
        if self._writer is not None:
            self._writer.transport.abort()
            with contextlib.suppress(Exception):
                await self._writer.wait_closed()
            self._writer = None

    def abort(self) -> float:
        """Leave at once, as a client that is killed, or, over HTTP/2, takes its request back; returns the moment.

        (Monotonic seconds.)
        """
        self._end("aborted")
        if self._writer is not None:
            if isinstance(self._answer, Http2Reader):
                self._writer.write(self._answer.leaving())
            else:
                self._writer.transport.abort()
        return time.monotonic()

    def half_close(self) -> None:
        """Send FIN, but keep reading."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # the gateway may have left already
                self._writer.write_eof()

    async def _read(self, within_s: float | None = None) -> bool:
        """Read once; False when nothing more will come (or, with `within_s`, nothing came in time)."""
        exchange = self.exchange
        if exchange.outcome != "pending" or self._reader is None:
            return False
        left = self._deadline - time.monotonic()
        wait_s = left if within_s is None else min(within_s, left)
        try:
            data = await asyncio.wait_for(self._reader.read(READ_BYTES), max(wait_s, 0.001))
        except TimeoutError:
            if within_s is None or wait_s == left:
                self._end("timeout", "the request's own bound passed")
            return False
        except ConnectionError as problem:
            self._end("reset", str(problem))
            return False
        now = time.monotonic()
        exchange.took(data, now)
        self._answer.feed(data, now)
        if isinstance(self._answer, Http2Reader) and self._writer is not None:
            self._writer.write(self._answer.to_send())
        return True

    async def head(self, within_s: float | None = None) -> Exchange:
        """Wait for the response head. Disproved when the connection ends, or `within_s` passes, without one."""
        deadline = None if within_s is None else time.monotonic() + paced(within_s)
        while self.exchange.status is None:
            left = None if deadline is None else deadline - time.monotonic()
            if (left is not None and left <= 0) or (not await self._read(left) and self._over(deadline)):
                raise Disproved("no response head", f"no response head came: {self.exchange.brief()}")
        return self.exchange

    def _over(self, deadline: float | None) -> bool:
        return self.exchange.outcome != "pending" or (deadline is not None and time.monotonic() >= deadline)

    async def event(self, within_s: float | None = None) -> Event:
        """The next server-sent event (`[DONE]` too).

        Disproved when the stream ends, or `within_s` passes, before it.
        """
        deadline = None if within_s is None else time.monotonic() + paced(within_s)
        while len(self.exchange.events) <= self._events_given:
            left = None if deadline is None else deadline - time.monotonic()
            if (left is not None and left <= 0) or (not await self._read(left) and self._over(deadline)):
                raise Disproved(
                    "no further event", f"no event number {self._events_given + 1} came: {self.exchange.brief()}"
                )
        self._events_given += 1
        return self.exchange.events[self._events_given - 1]

    async def chunk(self, within_s: float | None = None) -> Any:
        """The JSON of the next event that is not `[DONE]`."""
        while (event := await self.event(within_s)).is_done:
            pass
        return event.json

    async def until(self, wanted: bytes, within_s: float | None = None) -> bytes:
        """Read until the body contains `wanted`; returns the body so far. Disproved when it never does."""
        deadline = None if within_s is None else time.monotonic() + paced(within_s)
        while wanted not in self.exchange._body:
            left = None if deadline is None else deadline - time.monotonic()
            if (left is not None and left <= 0) or (not await self._read(left) and self._over(deadline)):
                raise Disproved("bytes did not arrive", f"{wanted!r} did not arrive: {self.exchange.brief()}")
        return self.exchange.body

    async def listen(self, for_s: float) -> bytes:
        """Read whatever comes for so long, and return the body so far."""
        deadline = time.monotonic() + paced(for_s)
        while self.exchange.outcome == "pending" and (left := deadline - time.monotonic()) > 0:
            await self._read(left)
        return self.exchange.body

    async def silent(self, for_s: float) -> bool:
        """Whether not one byte comes (and the connection stays open) for that long."""
        before = self.exchange.received_bytes
        await self._read(paced(for_s))
        return self.exchange.outcome == "pending" and self.exchange.received_bytes == before

    async def rest(self) -> Exchange:
        """Read to the end of the answer, of the connection or of the request's bound, and return the whole exchange."""
        while self.exchange.outcome == "pending":
            await self._read()
        return self.exchange
