"""Gateways with a vice, as many as wanted in one process, each listening at a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hypercorn.asyncio import serve

from reference_server import flags, http1, http2, server, tcp
from reference_server.app import create_app
from reference_server.state import ServerState
from reference_server.workers.fleet import Fleet
from tests.mutants.vice import CURRENT, Vice, install

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypercorn.typing import Framework
    from quart import Quart

    from reference_server.settings import Settings
    from tests.mutants.fronts import Reading
    from tests.mutants.vice import Front

    Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HOST = "127.0.0.1"
READY_WITHIN_S = 4.0
HELD_S = 20.0
LINGER_S = 1.0


@dataclass
class Base:
    """A reference server without its sockets: settings, workers, application."""

    app: Quart
    fleet: Fleet
    settings: Settings

    async def stop(self) -> None:
        """End its background work."""
        await self.fleet.stop()


async def base(settings: Settings, vice: Vice | None = None) -> Base:
    """Build one and wait until its workers are registered (at most `READY_WITHIN_S`)."""
    http2.install()
    http1.install()
    tcp.install()
    if vice is not None:
        install(vice)
        settings = vice.settings(settings) if vice.settings else settings
    CURRENT.set(vice)  # inherited by the background jobs
    fleet = Fleet(settings)
    state = ServerState(settings, fleet)
    fleet.watch_slots(state.admission.resize)
    app = create_app(state, fleet)
    await app.startup()
    await fleet.start()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_WITHIN_S
    while fleet.readiness().healthy < len(set(settings.worker_urls)) and loop.time() < deadline:  # noqa: ASYNC110 - the fleet tells nobody
        await asyncio.sleep(0.01)
    return Base(app, fleet, settings)


@dataclass
class _Mutated:
    """An ASGI application that answers as another one does, with a vice."""

    app: Any
    vice: Vice | None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one scope; the inner application's start-up was done once."""
        if scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})
            return
        CURRENT.set(self.vice)
        await self.app(scope, receive, send)


@dataclass
class Listening:
    """A gateway that listens."""

    url: str
    _finish: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: asyncio.Future[Any] | None = None
    _proxy: asyncio.Server | None = None

    async def stop(self) -> None:
        """Close the port; open requests are cut after half a second."""
        if self._proxy is not None:
            self._proxy.close()
        self._finish.set()
        if self._serving is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._serving, 3)


async def listen(base: Base, vice: Vice | None, port: int = 0) -> Listening:
    """Let a base, with a vice, be reached at a port (0: any free one)."""
    if vice is not None:
        install(vice)
    front = vice.front if vice else None
    listening = server.bind(HOST, 0 if front else port, "--port")
    inner = int(listening.getsockname()[1])
    found = Listening(f"http://{HOST}:{inner}")
    found._serving = asyncio.ensure_future(
        serve(
            cast("Framework", _Mutated(base.app, vice)),
            server._config(base.settings, listening),
            shutdown_trigger=cast("Any", found._finish.wait),
        )
    )
    if front:
        found._proxy = await asyncio.start_server(lambda *ends: _proxy(front, inner, ends), HOST, port)
        found.url = f"http://{HOST}:{found._proxy.sockets[0].getsockname()[1]}"
    return found


async def _towards(front: Front, reading: Reading, client: Ends, gateway: Ends) -> None:
    """What the client writes, as it was read; the front's own answers go back."""
    with contextlib.suppress(OSError):
        while not reading.closed:
            data = await client[0].read(65536)
            gateway[1].write(reading.feed(data) if data else reading.end())
            client[1].write(reading.said())
            await asyncio.gather(gateway[1].drain(), client[1].drain())
            if not data:
                break
        if gateway[1].can_write_eof() and not front.held and reading.passes_end:
            gateway[1].write_eof()


async def _back(front: Front, reading: Reading, client: Ends, gateway: Ends) -> None:
    """What the gateway answers."""
    with contextlib.suppress(OSError):
        while data := await gateway[0].read(65536):
            client[1].write(front.to_client(reading.answered(data)))
            await client[1].drain()
        if client[1].can_write_eof() and not front.held:
            client[1].write_eof()


async def _proxy(front: Front, port: int, client: Ends) -> None:
    """One connection through the front."""
    gateway = await asyncio.open_connection(HOST, port)
    reading = front.open()
    up = asyncio.ensure_future(_towards(front, reading, client, gateway))
    down = asyncio.ensure_future(_back(front, reading, client, gateway))
    try:
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        if up.done() and not down.done() and not reading.closed:
            await asyncio.wait({down}, timeout=30)
    finally:
        if front.held:
            await asyncio.wait({up}, timeout=HELD_S)
        reading.over()
        for end in (up, down):
            end.cancel()
        gateway[1].close()
        await _linger(client)
        client[1].close()


async def _linger(client: Ends) -> None:
    """Read on for a while what the client still writes: closed before that, its answer might be lost."""
    with contextlib.suppress(OSError, TimeoutError):
        if client[1].can_write_eof():
            client[1].write_eof()
        async with asyncio.timeout(LINGER_S):
            while await client[0].read(65536):
                pass


def settings_of(arguments: Sequence[str]) -> Settings:
    """The settings that a command line means."""
    words = list(arguments)
    return flags.parse(words[1:] if words[:1] == ["launch"] else words)
