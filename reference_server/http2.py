"""HTTP/2 responses that break off are reset, and an odd request is its own affair.

Hypercorn leaves a stream that breaks off open, and its client waiting for ever; at other things it ends the connection.

HTTP/2 is spoken to who begins with its preface. The upgrade from HTTP/1.1 is declined: RFC 9113 has done away with it,
and a client that half-closed its connection after asking for it kept its request open for ever.

Over HTTP/1.1 a body without its end closes the connection, which tells the client enough. An HTTP/2 connection goes on,
so the stream itself must be ended, and not as if it were complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

import h2.events
import h2.exceptions
import hypercorn.protocol
from h2.errors import ErrorCodes
from hypercorn.protocol.events import Response, StreamClosed
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol

if TYPE_CHECKING:
    import h11
    from hypercorn.protocol.events import Event

_ASCII = bytes(range(128))


class ResettingH2Protocol(H2Protocol):
    """Hypercorn's protocol, which sends RST_STREAM for a response that ends without its end.

    Nor does one request end the connection of the others, whatever is wrong with it.
    """

    async def stream_send(self, event: Event) -> None:
        """Send what an application has to say on one stream."""
        if isinstance(event, Response):
            # It says something of an HTTP/1.1 connection; h2 would refuse the whole response (RFC 9113, 8.2.2).
            fields = [(name, value) for name, value in event.headers if name != b"connection"]
            event = dataclasses.replace(event, headers=fields)
        if isinstance(event, StreamClosed):
            await self._reset_if_unfinished(event.stream_id)
        await super().stream_send(event)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        # One by one, because a stream may be over when the rest of its request comes: Hypercorn would end the whole
        # connection, and all requests on it, with an exception.
        for event in events:
            if isinstance(event, h2.events.DataReceived) and event.stream_id not in self.streams:
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                continue
            await super()._handle_events([event])
        await self._flush()

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        """Begin a request. Hypercorn fails at bytes beyond ASCII in method and path; here they are escaped."""
        request.headers = [
            (name, quote_from_bytes(value, _ASCII).encode() if name in {b":method", b":path"} else value)
            for name, value in request.headers
        ]
        await super()._create_stream(request)

    async def _reset_if_unfinished(self, stream_id: int) -> None:
        buffer = self.stream_buffers.get(stream_id)
        if self.closed or buffer is None or buffer._complete:
            return
        if buffer.buffer:
            await buffer.drain()  # what came before the break still belongs to the client
        with contextlib.suppress(h2.exceptions.ProtocolError):  # the client was faster
            self.connection.reset_stream(stream_id, ErrorCodes.INTERNAL_ERROR)
            await self._flush()
        # The sending task finds the buffer complete and the stream closed, and forgets both.
        await buffer.close()
        self.priority.unblock(stream_id)
        await self.has_data.set()


class DecliningH11Protocol(H11Protocol):
    """Hypercorn's protocol, which answers a request to upgrade to HTTP/2 as the HTTP/1.1 request it also is."""

    async def _check_protocol(self, event: h11.Request) -> None:
        if event.method == b"PRI":
            await super()._check_protocol(event)


def install() -> None:
    """Let Hypercorn use these protocols; it has no setting for that."""
    hypercorn.protocol.H11Protocol = DecliningH11Protocol  # type: ignore[attr-defined]  # as below
    hypercorn.protocol.H2Protocol = ResettingH2Protocol  # type: ignore[attr-defined]  # imported there for its own use
