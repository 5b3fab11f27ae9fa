"""Peers that are no gateways, each named after what it does: nothing a check may take for conformance."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import h11

from tests.on_a_thread import HOST, listening, on_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.on_a_thread import Behaviour

IDLE_S = 60.0


class _Quiet(SimpleHTTPRequestHandler):
    """Python's own web server on an empty folder, without its log."""

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


async def _answer_everything(status: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read requests and answer each with this status and `{}`, as HTTP asks."""
    http = h11.Connection(h11.SERVER)
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await asyncio.wait_for(reader.read(65536), IDLE_S))
        elif isinstance(event, h11.EndOfMessage):
            head = h11.Response(
                status_code=status, headers=[("content-type", "application/json"), ("content-length", "2")]
            )
            for part in (head, h11.Data(data=b"{}"), h11.EndOfMessage()):
                writer.write(http.send(part) or b"")
            await writer.drain()
            if http.our_state is not h11.DONE:
                return
            http.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return


async def says_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """200 and `{}` to everything."""
    await _answer_everything(200, reader, writer)


async def says_broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """500 and `{}` to everything."""
    await _answer_everything(500, reader, writer)


async def says_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Takes every byte and never answers."""
    while await asyncio.wait_for(reader.read(65536), IDLE_S):
        pass


async def hangs_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Closes every connection as soon as it is there."""


def _polite(behaviour: Behaviour) -> Behaviour:
    """The behaviour, and whatever ends it, a closed connection behind it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, h11.RemoteProtocolError, asyncio.CancelledError):
            await behaviour(reader, writer)
        writer.close()

    return handle


def _behaving(behaviour: Behaviour) -> AbstractContextManager[str]:
    """A peer on a port of its own, in a thread of its own; its URL."""
    return on_a_thread(partial(listening, _polite(behaviour)))


class _Patient(ThreadingHTTPServer):
    """The same server for many clients at once."""

    request_queue_size = 128


@contextmanager
def web_server() -> Iterator[str]:
    """Python's `http.server` on an empty folder: 404, 501, and an HTML listing."""
    with tempfile.TemporaryDirectory(prefix="plain-web-") as folder:
        server = _Patient((HOST, 0), partial(_Quiet, directory=folder))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join(10)


@contextmanager
def dead_port() -> Iterator[str]:
    """A port that is taken, so that nobody else gets it, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield f"http://{HOST}:{taken.getsockname()[1]}"


PEERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "dead_port": dead_port,
    "web_server": web_server,
    "says_ok": partial(_behaving, says_ok),
    "says_broken": partial(_behaving, says_broken),
    "says_nothing": partial(_behaving, says_nothing),
    "hangs_up": partial(_behaving, hangs_up),
}
"""Every peer by its name: a context manager that gives its URL."""
