"""The asyncio shell round `core.Keepalive`: a body goes through, and in its silences pings come out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from reference_server.keepalive.core import PING, Keepalive

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def with_pings(body: AsyncGenerator[bytes], interval_s: float) -> AsyncGenerator[bytes]:
    """The pieces of an event stream's body as they come, and a ping wherever one is due.

    A piece counts as sent when the next one is asked for. So a client that does not read holds up its worker as it
    would without pings: no ping is made while another piece waits, and the body is asked for one piece ahead at most.
    Whatever ends the body, also an exception, ends this. Closing it closes the body.
    """
    loop = asyncio.get_running_loop()
    keepalive = Keepalive(interval_s, loop.time())
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            coming = loop.create_task(_next(body))
            while not await _came(coming, keepalive.due()):
                if keepalive.is_due(loop.time()):
                    yield PING
                    keepalive.pinged(loop.time())
            piece = coming.result()
            if piece is None:
                return
            yield piece
            keepalive.sent(piece, loop.time())
    finally:
        keepalive.end()
        if coming is not None:
            await _give_up(coming)
        await body.aclose()


async def _next(body: AsyncGenerator[bytes]) -> bytes | None:
    """The next piece; `None` behind the last."""
    return await anext(body, None)


async def _give_up(coming: asyncio.Task[bytes | None]) -> None:
    """Cancel what is still awaited and wait for its end, which a second cancellation does not hurry."""
    coming.add_done_callback(lambda task: task.cancelled() or task.exception())  # asked for, lest asyncio complain
    coming.cancel()
    await asyncio.wait({coming})


async def _came(coming: asyncio.Task[bytes | None], until: float | None) -> bool:
    """Whether the piece came before this time of the loop's clock."""
    patience_s = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
    done, _ = await asyncio.wait({coming}, timeout=patience_s)
    return bool(done)
