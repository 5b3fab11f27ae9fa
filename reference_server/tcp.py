"""Connections end when their client ends them. Hypercorn keeps one that its client has closed until it would be idle.

Its reading task is done then, but the task that waits for idleness holds the connection, and with it a file descriptor,
for as long as an idle connection may live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypercorn.asyncio.run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Updated

if TYPE_CHECKING:
    from hypercorn.events import Event


class ClosingTCPServer(TCPServer):
    """Hypercorn's connection, which no longer waits for idleness once the client has sent its end."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Send what the protocol has for the client; what it says about being idle matters only while it can be."""
        if isinstance(event, Updated) and self.reader.at_eof():
            await self.idle_task.stop()
            return
        await super().protocol_send(event)


def install() -> None:
    """Let Hypercorn use this connection; it has no setting for that."""
    hypercorn.asyncio.run.TCPServer = ClosingTCPServer  # type: ignore[attr-defined]  # for its own use
