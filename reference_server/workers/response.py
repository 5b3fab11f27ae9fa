"""A worker's response on its way to the client."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import aiohttp

from reference_server.workers.breaker import Outcome, outcome_of_status
from reference_server.workers.exchange import UpstreamBodyError, UpstreamTooLargeError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class UpstreamResponse:
    """Head and body of a worker's answer; whoever holds it must read the body to its end or `aclose` it.

    Attributes:
        status: HTTP status.
        headers: Every header line in the worker's spelling and order, a character for each byte.
        worker_url: The worker's URL as registered.
    """

    def __init__(self, response: aiohttp.ClientResponse, worker_url: str) -> None:
        self._response = response
        self._read: bytes | None = None
        self._on_settled: list[Callable[[Outcome], None]] = []
        self._outcome: Outcome | None = None
        self.status = response.status
        self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
        self.worker_url = worker_url

    @property
    def is_event_stream(self) -> bool:
        """Whether the body is declared as server-sent events."""
        declared = self._response.headers.get("Content-Type", "")
        return declared.split(";", 1)[0].strip().lower() == "text/event-stream"

    def on_settled(self, callback: Callable[[Outcome], None]) -> None:
        """Call back once, when the exchange with the worker is over, with how it went for the worker."""
        if self._outcome is None:
            self._on_settled.append(callback)
        else:
            callback(self._outcome)

    async def body(self) -> AsyncGenerator[bytes]:
        """The body as it arrives: each piece is what has come since the last one, never empty.

        The worker is read no faster than the pieces are taken, apart from a bounded buffer.

        Raises:
            UpstreamBodyError: The body ended early or was malformed, or the request timeout passed.
        """
        if self._read is not None:
            if self._read:
                yield self._read
            return
        try:
            while piece := await self._response.content.readany():
                yield piece
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._settle(Outcome.FAILURE)
            if piece := self._left_over():
                yield piece
            raise UpstreamBodyError(_detail(error), self.worker_url) from error
        else:
            self._settle(outcome_of_status(self.status))
        finally:
            await self.aclose()

    def _left_over(self) -> bytes:
        """What came before the body broke; aiohttp itself tells the failure first and never gives it out."""
        try:
            return self._response.content._read_nowait(-1)
        except TimeoutError:
            return b""  # the request timeout passed; what is late is not wanted

    async def read(self, limit_bytes: int) -> bytes:
        """The whole body, which may be `limit_bytes` long and no longer.

        Raises:
            UpstreamTooLargeError: It is longer; the connection is cut at once.
            UpstreamBodyError: As from `body`.
        """
        if self._read is None:
            pieces: list[bytes] = []
            size = 0
            async with aclosing(self.body()) as body:
                async for piece in body:
                    size += len(piece)
                    if size > limit_bytes:
                        self._settle(Outcome.FAILURE)
                        await self.aclose()
                        raise UpstreamTooLargeError(limit_bytes, self.worker_url)
                    pieces.append(piece)
            self._read = b"".join(pieces)
        return self._read

    async def aclose(self) -> None:
        """Be done with the response: an unfinished one is cut, so that the worker notices at once. May be repeated."""
        self._response.close()
        self._settle(Outcome.UNCOUNTED)

    def _settle(self, outcome: Outcome) -> None:
        if self._outcome is not None:
            return
        self._outcome = outcome
        callbacks, self._on_settled = self._on_settled, []
        for callback in callbacks:
            callback(outcome)


def _detail(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the request timeout passed"
    return "it ended early or is malformed"
