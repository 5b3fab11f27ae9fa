"""Connections end when their client ends them, or keeps us waiting for too long.

Hypercorn keeps a connection that its client has closed until it would be idle: its reading task is done then, but the
task that waits for idleness holds the connection, and with it a file descriptor. And it knows one timeout where there
are two (`reference_server.patience`).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import hypercorn.asyncio.run
from hypercorn.asyncio.tcp_server import MAX_RECV, TCPServer
from hypercorn.config import Config
from hypercorn.events import Closed, RawData, Updated
from hypercorn.protocol.h2 import H2Protocol

from reference_server.patience import Patience

if TYPE_CHECKING:
    from typing import Any

    from hypercorn.events import Event


class TimedConfig(Config):
    """Hypercorn's configuration with the timeouts of this server's connections, in seconds; 0 is none."""

    head_timeout_s: float = 30.0
    idle_timeout_s: float = 90.0


class ClosingTCPServer(TCPServer):
    """Hypercorn's connection, which closes without a word when its patience is over.

    It no longer waits for idleness once the client has sent its end.
    """

    config: TimedConfig

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._patience = Patience(self.config.head_timeout_s, self.config.idle_timeout_s, self.loop.time())

    async def _read_data(self) -> None:
        while not self.reader.at_eof():
            try:
                data = await self.reader.read(MAX_RECV)
            except OSError:
                break
            await self._head_may_begin(data)
            await self._handle(data)
        await self.protocol.handle(Closed())
        await self.idle_task.stop()

    async def _handle(self, data: bytes) -> None:
        before = self.protocol.protocol
        await self.protocol.handle(RawData(data))
        now = self.protocol.protocol
        if now is not before and isinstance(now, H2Protocol) and now.idle:
            # The preface of HTTP/2 was taken for a request, whose end nobody would tell.
            await self.protocol_send(Updated(idle=True))

    async def _head_may_begin(self, data: bytes) -> None:
        # What comes over an idle HTTP/2 connection is its upkeep and begins no request.
        if data and not isinstance(self.protocol.protocol, H2Protocol) and self._patience.bytes_came(self.loop.time()):
            await self.idle_task.restart(self._task_group, self._idle_timeout)

    async def protocol_send(self, event: Event) -> None:
        """Send what the protocol has for the client; what it says about being idle matters only while it can be."""
        if isinstance(event, Updated):
            if event.idle:
                self._patience.request_ended(self.loop.time())
            else:
                self._patience.request_began()
            if self.reader.at_eof():
                await self.idle_task.stop()
                return
        await super().protocol_send(event)

    async def _idle_timeout(self) -> None:
        deadline = self._patience.deadline()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):  # wait_for of Python 3.11 may swallow a cancellation
                await self.context.terminated.wait()
        await asyncio.shield(self._initiate_server_close())


def install() -> None:
    """Let Hypercorn use this connection; it has no setting for that."""
    hypercorn.asyncio.run.TCPServer = ClosingTCPServer  # type: ignore[attr-defined]  # for its own use
