"""A listening socket that can refuse connections and keep its port."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from fake_workers.errors import SpecError
from fake_workers.net.connection import HttpConnection, Limits, OpenConnections

if TYPE_CHECKING:
    from fake_workers.net.exchange import App

_BACKLOG = 2048
_CLOSE_BOUND_S = 2.0


class Listener:
    """Accepts connections for an application.

    The port is reserved by a bound socket of its own that never listens. So connections are refused by the kernel while
    the listener is off, and no outgoing connection of the machine can take the port meanwhile.
    """

    def __init__(self, app: App, host: str, port: int, *, keep_alive_s: float) -> None:
        """Describe the listener; nothing is bound before :meth:`reserve`."""
        self._app = app
        self._host = host
        self._port = port
        self._limits = Limits(keep_alive_s=keep_alive_s)
        self._reserved: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._open = OpenConnections()
        self._count = 0

    @property
    def url(self) -> str:
        """Base URL of what is served here."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None

    def _socket(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        return socket.socket(family, socket.SOCK_STREAM)

    def reserve(self) -> None:
        """Take the port; raises :class:`SpecError` if it is taken or cannot be bound."""
        if self._reserved is not None:
            return
        holder = self._socket()
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((self._host, self._port))
            # Only now: with SO_REUSEPORT set before, a port somebody else listens on could be bound without an error.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError as error:
            holder.close()
            raise SpecError(
                f"cannot listen on {self._host}:{self._port}: {error.strerror}; choose another, or 0 for a free one"
            ) from None
        self._reserved = holder
        self._port = holder.getsockname()[1]

    async def listen(self) -> None:
        """Accept connections."""
        if self._server is not None:
            return
        self.reserve()
        listening = self._socket()
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind((self._host, self._port))
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            raise SpecError(f"cannot listen on {self._host}:{self._port}: {error.strerror}") from None
        listening.setblocking(False)  # noqa: FBT003 - the standard library's signature
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, sock=listening, backlog=_BACKLOG)

    def _connection(self) -> HttpConnection:
        self._count += 1
        return HttpConnection(self._app, self._limits, self._open, self._count)

    def refuse(self) -> None:
        """Refuse connections from now on; idle ones are closed, answers under way are finished."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for connection in list(self._open):
            connection.stop_when_idle()

    async def close(self) -> None:
        """Stop listening, drop all connections, give the port back."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for connection in list(self._open):
            connection.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._open.all_gone(), _CLOSE_BOUND_S)
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
