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
    from tests.mutants.vice import Front

HOST = "127.0.0.1"
READY_WITHIN_S = 4.0
HELD_S = 20.0


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
    app = create_app(ServerState(settings, fleet), fleet)
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
        found._proxy = await asyncio.start_server(lambda *ends: _proxy(front, inner, *ends), HOST, port)
        found.url = f"http://{HOST}:{found._proxy.sockets[0].getsockname()[1]}"
    return found


async def _proxy(front: Front, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection through the front."""
    inner_reader, inner_writer = await asyncio.open_connection(HOST, port)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, edit: Any) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(edit(data))
                await sink.drain()
            if sink.can_write_eof() and not front.held:
                sink.write_eof()

    up = asyncio.ensure_future(pump(reader, inner_writer, front.to_gateway))
    down = asyncio.ensure_future(pump(inner_reader, writer, front.to_client))
    try:
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        if up.done() and not down.done():
            await asyncio.wait({down}, timeout=30)
    finally:
        if front.held:
            await asyncio.wait({up}, timeout=HELD_S)
        for end in (up, down):
            end.cancel()
        for sink in (writer, inner_writer):
            sink.close()


def settings_of(arguments: Sequence[str]) -> Settings:
    """The settings that a command line means."""
    words = list(arguments)
    return flags.parse(words[1:] if words[:1] == ["launch"] else words)
