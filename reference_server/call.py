"""One request of a client, as the stages see it, and what must be undone when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from reference_server import request_ids
from reference_server.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypercorn.typing import HTTPScope

    from reference_server.request_ids import RequestId
    from reference_server.settings import Settings
    from reference_server.stages.admit import Permit

_SHOWN_TARGET_CHARACTERS = 200
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # all but the tab


class InboundBody:
    """The request body as it arrives; what is beyond the limit is counted and thrown away.

    Bytes are taken off the connection whether or not a stage reads them already: only so is a client's going away
    noticed while its request waits for admission. Memory is therefore bounded by the limit, per connection.

    A body of which nothing comes for `stall_timeout_s` (0: for ever) has stalled; the time runs from the head on and
    anew with each byte, whether or not somebody reads already.
    """

    def __init__(
        self, limit_bytes: int, stall_timeout_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_bytes = limit_bytes
        self._stall_timeout_s = stall_timeout_s
        self._clock = clock
        self._fed_at = clock()
        self._chunks: list[bytes] = []
        self._size = 0
        self._settled = asyncio.Event()  # complete or too large
        self._complete = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Take in what arrived."""
        self._size += len(data)
        if self._size > self._limit_bytes:
            self._chunks.clear()
            self._settled.set()
        elif data:
            self._chunks.append(data)
            self._fed_at = self._clock()

    def finish(self) -> None:
        """The client has sent everything."""
        self._complete.set()
        self._settled.set()

    async def until_complete(self) -> None:
        """Wait until the client has sent everything, however much that is."""
        await self._complete.wait()

    @property
    def is_complete(self) -> bool:
        """Whether the client has sent everything."""
        return self._complete.is_set()

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            GatewayError: 413 request_body_too_large, as soon as that is known; 408 request_body_stalled.
        """
        while not self._settled.is_set():
            await self._until_settled_or_stalled()
        if self._size > self._limit_bytes:
            raise too_large(self._limit_bytes)
        return b"".join(self._chunks)

    async def _until_settled_or_stalled(self) -> None:
        """Wait for the end of the body, at most until it would have stalled if nothing more had come."""
        if not self._stall_timeout_s:
            await self._settled.wait()
            return
        patience_s = self._fed_at + self._stall_timeout_s - self._clock()
        if patience_s <= 0:
            raise stalled(self._stall_timeout_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):  # wait_for of Python 3.11 may swallow a client's cancellation
                await self._settled.wait()


def too_large(limit_bytes: int) -> GatewayError:
    """The refusal of a body over the limit (`--max-payload-size`, inclusive)."""
    message = f"The request body is larger than the payload limit of {limit_bytes} bytes (max_payload_size)."
    return GatewayError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request_body_too_large", message)


def stalled(timeout_s: float) -> GatewayError:
    """The refusal of a body whose rest does not come (`--stream-body-stall-timeout-secs`)."""
    message = f"No bytes of the request body arrived from the client for {timeout_s:g} seconds."
    # What is left of the body might still come: nothing else can on this connection (RFC 9110, 15.5.9).
    return GatewayError(HTTPStatus.REQUEST_TIMEOUT, "request_body_stalled", message, [("connection", "close")])


@dataclass(slots=True)
class Call:
    """A client's request. Header names are in lower case; each character of a value stands for one byte.

    `peer` is the address of the connection's other end, where it has one.
    `undo` holds what has to be given back (admission permit, connection to the worker); it is closed exactly once,
    on every way out, by `reference_server.stages.settle`.
    """

    method: str
    path: str
    target: str  # the path as on the request line, for messages
    query: str = field(repr=False)  # keys and prompts may be in it, and in the headers
    headers: Sequence[tuple[str, str]] = field(repr=False)
    request_id: RequestId
    body: InboundBody
    peer: str | None = None
    began_at: float = field(default_factory=time.monotonic)
    undo: AsyncExitStack = field(default_factory=AsyncExitStack)
    begun: bool = False  # the head of an answer is on its way to the client
    permit: Permit | None = None  # once it is admitted
    preempted: asyncio.Event = field(default_factory=asyncio.Event)  # set when it has to give its place back

    def header(self, name: str) -> str | None:
        """The first value of a header (lower-case name)."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def has_invalid_header(self) -> bool:
        """Whether a header value holds a control character, which no header may (RFC 9110, 5.5)."""
        return any(_CONTROL.search(value) for _, value in self.headers)

    def declared_length(self) -> int | None:
        """The body's length as announced; the server's parser has checked that it is a number."""
        value = self.header("content-length")
        return int(value) if value is not None and value.isdecimal() else None


def from_scope(scope: HTTPScope, settings: Settings) -> Call:
    """A call from an ASGI scope."""
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    path = scope["path"]
    return Call(
        method=scope["method"],
        path=path,
        target=scope["raw_path"].decode("latin-1")[:_SHOWN_TARGET_CHARACTERS],
        query=scope["query_string"].decode("latin-1"),
        headers=headers,
        request_id=request_ids.choose(headers, settings.request_id_headers, path),
        body=InboundBody(settings.max_payload_size_bytes, settings.body_stall_timeout_s),
        peer=scope["client"][0] if scope["client"] else None,
    )
