"""The HTTP client towards workers: aiohttp with everything switched off that a relay must not do.

Nothing is decompressed, followed, remembered or added beyond host, content-length and `accept: */*`; heads pass byte
by byte in both directions. aiohttp was chosen by measurement, see docs/reference-server-workers.md.

A connection is cut, not drained, when a response is given up: the worker shall feel that the client has gone.
"""

from __future__ import annotations

import io
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from reference_server.workers.exchange import (
    UpstreamConnectionError,
    UpstreamError,
    UpstreamRequestError,
    UpstreamTimeoutError,
)
from reference_server.workers.response import UpstreamResponse
from reference_server.workers.urls import target

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Iterable

_READ_BUFFER_BYTES = 64 * 1024  # reading from the worker pauses at twice this
_LONGEST_HEAD_LINE_BYTES = 64 * 1024
_MOST_HEAD_LINES = 256
_CONNECT_TIMEOUT_S = 10.0
_BYTES_SENT_AT_ONCE = 1024 * 1024  # larger bodies are written in pieces, so that other requests get their turn
_STALE_AFTER_S = 0.2  # a pooled connection idle for less was not closed by the worker's keep-alive timer
_KEEP_FOR_EVER_S = 10.0**9
_SKIPPED_HEADERS = ("User-Agent", "Accept-Encoding", "Content-Type")
_INFORMATIONAL = range(200)
_END_OF_HEAD = b"\r\n\r\n"


class _Connection(ResponseHandler):
    """aiohttp's protocol, with what is needed to tell a stale pooled connection from a worker at fault.

    `close` cuts: aiohttp would first write out what is left of a large request, to a worker that may never read it.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._clock = loop.time
        self._last_used_at: float | None = None
        self.idle_s = 0.0  # before the present request; 0 for a fresh connection
        self.answered = False  # a byte came since the present request began
        self._head_is_here = False

    def set_response_params(self, **params: Any) -> None:
        """Called by aiohttp once for each request, in the task that sends it."""
        now = self._clock()
        self.idle_s = 0.0 if self._last_used_at is None else now - self._last_used_at
        self.answered = False
        self._head_is_here = False
        _in_use.set(self)
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Bytes from the worker. A head is parsed for itself: aiohttp drops all it parsed together with garbage."""
        if not data:  # aiohttp's own call, by which it resumes a parser that it paused
            super().data_received(data)
            return
        self.answered = True
        self._last_used_at = self._clock()
        if not self._head_is_here and (end := data.find(_END_OF_HEAD)) >= 0:
            self._head_is_here = True
            end += len(_END_OF_HEAD)
            super().data_received(data[:end])
            data = data[end:]
        if data:
            super().data_received(data)

    def close(self) -> None:
        """Cut the connection."""
        self.abort()

    @property
    def stale(self) -> bool:
        """Whether a failure now is that of a connection kept too long."""
        return not self.answered and self.idle_s >= _STALE_AFTER_S


_in_use: ContextVar[_Connection | None] = ContextVar("_in_use", default=None)


def _connector(pool_idle_timeout_s: float) -> aiohttp.TCPConnector:
    connector = aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=pool_idle_timeout_s or _KEEP_FOR_EVER_S,
        ttl_dns_cache=10,
    )
    # aiohttp has no public way to choose the protocol class; tests/reference_server/workers/test_upstream_faults.py
    # proves what depends on it, so a version that changes this is noticed.
    connector._factory = lambda: _Connection(connector._loop)  # type: ignore[assignment]  # was a partial
    return connector


def _header_text(value: str) -> str | None:
    """A header value in aiohttp's terms: it writes text as UTF-8, ours has a character for each byte.

    A value that is no UTF-8 cannot be written by it and is left out rather than garbled.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return None


class UpstreamClient:
    """A pool of connections to all workers. Use between `start` and `stop`, in one event loop."""

    def __init__(self, *, request_timeout_s: float, pool_idle_timeout_s: float) -> None:
        self._request_timeout_s = request_timeout_s
        self._pool_idle_timeout_s = pool_idle_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the pool."""
        self._session = aiohttp.ClientSession(
            connector=_connector(self._pool_idle_timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_SKIPPED_HEADERS,
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=_LONGEST_HEAD_LINE_BYTES,
            max_field_size=_LONGEST_HEAD_LINE_BYTES,
            max_headers=_MOST_HEAD_LINES,
        )

    async def stop(self) -> None:
        """Cut all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self,
        worker_url: str,
        method: str,
        path: str,
        *,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> UpstreamResponse:
        """Send one request and return once the response head is here; the body follows from the response.

        `timeout_s` bounds the whole exchange, to the last byte of the body; default is the request timeout.

        Raises:
            UpstreamError: One of the three kinds that come before a head. Cancelling cuts the connection.
        """
        if self._session is None:
            raise RuntimeError("UpstreamClient.start was not awaited")
        limit_s = self._request_timeout_s if timeout_s is None else timeout_s
        # One spelling for each name: aiohttp joins repeats only where they are spelled alike.
        lines = CIMultiDict(
            (name.lower(), text) for name, value in headers if (text := _header_text(value)) is not None
        )
        token = _in_use.set(None)
        try:
            response = await self._session.request(
                method,
                URL(target(worker_url, path), encoded=True),
                headers=lines,
                data=io.BytesIO(body) if body is not None and len(body) > _BYTES_SENT_AT_ONCE else body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=limit_s, sock_connect=min(_CONNECT_TIMEOUT_S, limit_s)),
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            connection = _in_use.get()
            raise _failure(error, limit_s, stale=connection is not None and connection.stale) from error
        finally:
            _in_use.reset(token)
        if response.status in _INFORMATIONAL:  # a switch of protocols that nobody asked for
            response.close()
            raise UpstreamRequestError(f"status {response.status}")
        return UpstreamResponse(response, worker_url)


def _failure(error: Exception, limit_s: float, *, stale: bool) -> UpstreamError:
    """What went wrong in the gateway's words; addresses and header values stay out of them."""
    if isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError):
        # Where the request timeout is the shorter of the two it is the one that passed.
        timed_out = isinstance(error, TimeoutError) and limit_s <= _CONNECT_TIMEOUT_S
        return UpstreamTimeoutError(limit_s) if timed_out else UpstreamConnectionError()
    if isinstance(error, TimeoutError):
        return UpstreamTimeoutError(limit_s)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | OSError):
        return UpstreamRequestError("it closed the connection before the head of a response", stale=stale)
    if isinstance(error, aiohttp.ClientResponseError):
        return UpstreamRequestError("the head of its response is malformed or too large")
    return UpstreamRequestError("the request could not be sent or its response not be read")
