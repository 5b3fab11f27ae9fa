"""A worker whose every byte a test decides, and clients and fleets towards it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pytest

from reference_server.settings import HealthSettings, RetrySettings, Settings, WorkerStartupSettings
from reference_server.workers.fleet import Fleet
from reference_server.workers.upstream import UpstreamClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from reference_server.workers.watcher import Watcher

WAIT_S = 5.0


@dataclass
class Seen:
    """One request as the worker received it, and what became of its connection."""

    head: bytes
    body: bytes
    connection: int
    peer_left_at: float | None = None
    peer_left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> bytes:
        """The request line."""
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header lines in order, names in lower case."""
        lines = [line.split(b":", 1) for line in self.head.split(b"\r\n")[1:] if line]
        return [(name.decode("latin-1").lower(), value.strip().decode("latin-1")) for name, value in lines]


class Turn:
    """What an answer function may do with one request's connection."""

    def __init__(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.seen = seen
        self.number = number  # of this request, counted over all connections, from 0
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Put bytes on the connection."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def close(self) -> None:
        """End the connection with a FIN."""
        self.writer.close()

    def reset(self) -> None:
        """End the connection with a reset."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_peer_leaves(self, within_s: float = WAIT_S) -> float:
        """Wait for the gateway's end of the connection; returns when, in seconds of the monotonic clock."""
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(self.reader.read(), within_s)
        self.seen.peer_left_at = time.monotonic()
        self.seen.peer_left.set()
        return self.seen.peer_left_at


class Answer(Protocol):
    """Plays the worker's part of one request; the connection is kept if it returns with it open."""

    async def __call__(self, turn: Turn) -> None:
        """Answer one request."""


def response(body: bytes = b'{"ok":true}', status: int = 200, *headers: tuple[str, str]) -> bytes:
    """A whole response with its length."""
    lines = [
        f"HTTP/1.1 {status} Said",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class RawWorker:
    """An HTTP/1.1 peer on a port of its own that answers by the functions it is given; the last one repeats."""

    def __init__(self, *answers: Answer, model: str | None = None) -> None:
        self.answers = list(answers)
        self.model = model  # when set, health and the model list are answered without asking the answers
        self.pages: dict[bytes, bytes] = {}  # path → response of GETs, before the built-in ones
        self.seen: list[Seen] = []
        self.probes: list[Seen] = []
        self.url = ""
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number, self.connections = self.connections, self.connections + 1
        try:
            while not writer.is_closing() and await self._serve_one(reader, writer, number):
                pass
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        seen = Seen(head[:-4], b"", connection)
        length = dict(seen.headers).get("content-length", "0")
        if self.model is not None and seen.line.startswith(b"GET "):
            self.probes.append(seen)
            await Turn(seen, reader, writer, -1).send(self._probe(seen.line.split()[1]))
            return True
        number = len(self.seen)
        self.seen.append(seen)
        if int(length) <= 10_000_000:
            seen.body = await reader.readexactly(int(length))
        await self.answers[min(number, len(self.answers) - 1)](Turn(seen, reader, writer, number))
        return True

    def _probe(self, path: bytes) -> bytes:
        if path in self.pages:
            return self.pages[path]
        if path == b"/health":
            return response(b"")
        if path == b"/v1/models":
            return response(json.dumps({"data": [{"id": self.model, "owned_by": "vllm"}]}).encode())
        return response(b"{}", 404)


def saying(*pieces: bytes) -> Answer:
    """An answer that sends these bytes and keeps the connection."""

    async def answer(turn: Turn) -> None:
        await turn.send(*pieces)

    return answer


def saying_then_closing(*pieces: bytes) -> Answer:
    """An answer that sends these bytes and closes the connection."""

    async def answer(turn: Turn) -> None:
        await turn.send(*pieces)
        turn.close()

    return answer


def saying_then_resetting(*pieces: bytes) -> Answer:
    """An answer that sends these bytes and resets the connection once they have had time to arrive."""

    async def answer(turn: Turn) -> None:
        await turn.send(*pieces)
        await asyncio.sleep(0.02)
        turn.reset()

    return answer


def saying_then_waiting(*pieces: bytes) -> Answer:
    """An answer that sends these bytes and nothing more, until the gateway leaves."""

    async def answer(turn: Turn) -> None:
        await turn.send(*pieces)
        await turn.until_peer_leaves()

    return answer


class Kit:
    """The words above, as the fixture `kit`: test folders are no packages, so they cannot be imported."""

    response = staticmethod(response)
    saying = staticmethod(saying)
    saying_then_closing = staticmethod(saying_then_closing)
    saying_then_resetting = staticmethod(saying_then_resetting)
    saying_then_waiting = staticmethod(saying_then_waiting)
    RawWorker = RawWorker
    Turn = Turn
    WAIT_S = WAIT_S


@pytest.fixture
def kit() -> type[Kit]:
    """Words to script a raw worker with."""
    return Kit


@pytest.fixture
async def start_worker() -> AsyncIterator[Callable[..., Awaitable[RawWorker]]]:
    """Start raw workers, stopped after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(*answers: Answer, model: str | None = None) -> RawWorker:
            worker = RawWorker(*answers, model=model)
            await worker.start()
            stack.push_async_callback(worker.stop)
            return worker

        yield start


@pytest.fixture
async def client() -> AsyncIterator[UpstreamClient]:
    """An upstream client with a request timeout of two seconds."""
    client = UpstreamClient(request_timeout_s=2.0, pool_idle_timeout_s=3.0)
    await client.start()
    yield client
    await client.stop()


def settings_for(*urls: str, **changes: object) -> Settings:
    """Settings with short waits for these workers."""
    defaults: dict[str, object] = {
        "worker_urls": urls,
        "request_timeout_s": 2.0,
        "retry": RetrySettings(initial_backoff_ms=1, max_backoff_ms=5),
        "health": HealthSettings(interval_s=3600, timeout_s=1.0),
        "worker_startup": WorkerStartupSettings(timeout_s=5.0, check_interval_s=0.05),
    }
    return Settings(**(defaults | changes))  # type: ignore[arg-type] # the fields are checked by the tests that use them


async def until(condition: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Wait until a condition holds; fails when the time is up."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the condition is any expression, nobody announces it
            await asyncio.sleep(0.005)


@pytest.fixture
async def start_fleet() -> AsyncIterator[Callable[..., Awaitable[Fleet]]]:
    """Start fleets and wait until their workers are ready; stopped after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            *workers: RawWorker, ready: int | None = None, watcher: Watcher | None = None, **changes: object
        ) -> Fleet:
            fleet = Fleet(settings_for(*(worker.url for worker in workers), **changes), watcher)
            await fleet.start()
            stack.push_async_callback(fleet.stop)
            expected = len(workers) if ready is None else ready
            await until(lambda: fleet.readiness().healthy >= expected)
            return fleet

        yield start


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., Awaitable[None]]:
    """`until(condition, within_s)`: wait for a condition, with a bound."""
    return until
