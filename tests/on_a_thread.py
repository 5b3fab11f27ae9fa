"""Servers of tests on an event loop of their own, beside the loop that the suite under test runs on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager

    Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]

HOST = "127.0.0.1"
READY_WITHIN_S = 10.0
GONE_WITHIN_S = 10.0


@contextmanager
def on_a_thread(hosting: Callable[[], AbstractAsyncContextManager[str]]) -> Iterator[str]:
    """Keep `hosting()` entered on a thread of its own and yield its URL; all its tasks are cancelled in the end."""
    ready = threading.Event()
    given: list[str] = []
    stop: list[Callable[[], object]] = []

    async def host() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        async with hosting() as url:
            given.append(url)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(host()), daemon=True)
    thread.start()
    assert ready.wait(READY_WITHIN_S), "the server did not start; its thread has printed why"
    try:
        yield given[0]
    finally:
        stop[0]()
        thread.join(GONE_WITHIN_S)


@asynccontextmanager
async def listening(behaviour: Behaviour, *, limit: int = 1 << 16) -> AsyncIterator[str]:
    """Let every connection to a port of its own behave like this; gives the URL. `limit`: bytes a line may have."""
    server = await asyncio.start_server(behaviour, HOST, 0, backlog=512, limit=limit)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
