"""One request on a connection, and the means to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from fake_workers.journal import Entry, Journal
    from fake_workers.net.connection import HttpConnection
    from fake_workers.net.messages import Response


@dataclass(slots=True)
class Request:
    """A request as it arrived; ``body`` without chunk framing."""

    method: str
    target: str
    head: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    keep_alive: bool
    started_at: float
    received_at: float

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def header(self, name: bytes) -> str | None:
        """Return the first value of a header; ``name`` in lower case."""
        for field_name, value in self.headers:
            if field_name.lower() == name:
                return value.decode("latin-1")
        return None


class App(Protocol):
    """What sits on top of a connection: a worker, or the control port."""

    server_name: str | None

    def handle(self, exchange: Exchange) -> None:
        """Answer a complete request, at once or from a task started with :meth:`Exchange.run`."""

    def incomplete(self, request: Request, connection: int, outcome: str) -> None:
        """Learn of a request whose sender left, or broke HTTP, before it was complete."""


class Exchange:
    """One request and the answer to it; every write is noted in the journal entry, if there is one."""

    __slots__ = ("_connection", "_journal", "_task", "entry", "finished", "peer_left", "request")

    def __init__(self, connection: HttpConnection, request: Request) -> None:
        """Belong to a connection."""
        self._connection = connection
        self._journal: Journal | None = None
        self._task: asyncio.Task[None] | None = None
        self.request = request
        self.entry: Entry | None = None
        self.finished = False
        self.peer_left = False

    @property
    def connection_number(self) -> int:
        """Number of the connection within its worker, from 1."""
        return self._connection.number

    def note_in(self, journal: Journal, entry: Entry) -> None:
        """Keep the given journal entry up to date from now on."""
        self._journal = journal
        self.entry = entry

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Answer from a task, which is cancelled when the peer leaves."""
        self._task = self._connection.loop.create_task(work)
        self._task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if not self.finished:
                self.hang_up("cancelled")
            return
        error = task.exception()
        if error is not None:
            self._connection.loop.call_exception_handler(
                {"message": f"answering {self.request.method} {self.request.target} failed", "exception": error}
            )
            self.hang_up("failed")

    def send(self, data: bytes) -> None:
        """Put bytes on the connection; nothing happens once the peer has left."""
        if self.finished or not data:
            return
        self._connection.write(data)
        entry = self.entry
        if entry is not None:
            now = monotonic()
            if entry.answered_at is None:
                entry.answered_at = now
            entry.sent.append((now, len(data)))

    async def ready(self) -> None:
        """Wait until the transport takes more (back-pressure)."""
        await self._connection.writable()

    def respond(self, response: Response, outcome: str = "answered") -> None:
        """Send a whole answer and finish."""
        request = self.request
        self.send(
            response.to_bytes(
                server=self._connection.server_name,
                keep_alive=request.keep_alive,
                with_body=request.method != "HEAD",
            )
        )
        self.finish(outcome)

    def finish(self, outcome: str = "answered", *, keep_alive: bool = True) -> None:
        """Note that the answer is complete; the connection goes on to the next request if it may."""
        if self.finished:
            return
        self._settle(outcome, completed=True)
        self._connection.exchange_finished(self, keep_alive=keep_alive and self.request.keep_alive)

    def hang_up(self, outcome: str) -> None:
        """Close the connection with a FIN, once what was written has left."""
        if self.finished:
            return
        self._settle(outcome, completed=False)
        self._connection.close()

    def reset(self, outcome: str = "reset") -> None:
        """Break the connection with a RST."""
        if self.finished:
            return
        self._settle(outcome, completed=False)
        self._connection.reset()

    async def flushed(self, within_s: float = 5.0) -> None:
        """Wait until everything written has left this process, so that a reset does not swallow it."""
        await self._connection.flushed(within_s)

    def _settle(self, outcome: str, *, completed: bool) -> None:
        self.finished = True
        if self.entry is None:
            return
        self.entry.outcome = outcome
        if completed:
            self.entry.completed_at = monotonic()
        self._changed()

    def _changed(self) -> None:
        if self.entry is not None and self._journal is not None:
            self._journal.changed(self.entry)

    def on_peer_left(self, at: float) -> None:
        """Note that the peer has gone before the answer was complete, and stop answering."""
        if self.finished:
            return
        self.finished = True
        self.peer_left = True
        if self.entry is not None:
            self.entry.peer_closed_at = at
            self.entry.outcome = "peer_left"
            self._changed()
        if self._task is not None:
            self._task.cancel()
