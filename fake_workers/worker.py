"""One worker: a dialect behind a listening socket, answering as scripted or as the engine would."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Literal

from fake_workers.answering import Answering
from fake_workers.dialects import dialect_of
from fake_workers.dialects.base import Delayed, Generation
from fake_workers.engine.run import Engine
from fake_workers.journal import Entry
from fake_workers.markers import find_marker
from fake_workers.net.listener import Listener
from fake_workers.net.messages import Response
from fake_workers.net.play import Player
from fake_workers.script import Wire

if TYPE_CHECKING:
    from fake_workers.book import ScriptBook
    from fake_workers.dialects.base import Answered
    from fake_workers.journal import Journal
    from fake_workers.net.exchange import Exchange, Request
    from fake_workers.script import Reply
    from fake_workers.spec import WorkerSpec

_LOG = logging.getLogger(__name__)
HEALTH_PATHS = frozenset({"/health", "/health_generate", "/ping", "/ready", "/readiness", "/liveness"})
_HANG_BOUND_S = 600.0
Health = int | Literal["hang"] | None


class Worker:
    """An engine as a gateway sees it. Start and stop it from one event loop."""

    def __init__(self, spec: WorkerSpec, name: str, *, host: str, book: ScriptBook, journal: Journal) -> None:
        """Describe the worker; nothing listens before :meth:`start`."""
        self.spec = spec
        self.name = name
        self.dialect = dialect_of(spec)
        self.engine = Engine(spec)
        self.dialect.engine = self.engine
        self.server_name = self.dialect.server_name
        self.health: Health = None
        self.overrides: dict[str, Reply | Wire] = {}
        self._opening: asyncio.Task[None] | None = None
        self._book = book
        self._journal = journal
        self._listener = Listener(self, host, spec.port, keep_alive_s=spec.keep_alive_s)

    @property
    def url(self) -> str:
        """Base URL, known once started."""
        return self._listener.url

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._listener.listening

    async def start(self) -> None:
        """Listen; raises :class:`~fake_workers.errors.SpecError` when the port cannot be used."""
        self._listener.reserve()
        spec = self.spec
        self.dialect.loading_until = monotonic() + spec.start_refused_s + spec.start_loading_s
        if spec.start_refused_s:
            self._opening = asyncio.get_running_loop().create_task(self._open_later(spec.start_refused_s))
        else:
            await self._listener.listen()

    async def _open_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._listener.listen()

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        if self._opening is not None:
            self._opening.cancel()
        await self._listener.close()

    def set_load(self, load: dict[str, float] | None) -> None:
        """Report this load (running, waiting, usage 0-1) instead of the real one; None goes back."""
        self.engine.override = dict(load or {})

    async def set_listening(self, listening: bool) -> None:
        """Accept connections again, or refuse them (idle ones are closed, answers under way are finished)."""
        if listening:
            await self._listener.listen()
        else:
            self._listener.refuse()

    # the application on top of a connection --------------------------------------------------------------------------

    def _entry(self, request: Request, connection: int, marker: str | None) -> Entry:
        return Entry(
            seq=self._journal.next_seq(),
            worker=self.name,
            marker=marker,
            method=request.method,
            target=request.target,
            head=request.head,
            body=request.body,
            started_at=request.started_at,
            received_at=request.received_at,
            connection=connection,
        )

    def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        request = exchange.request
        marker = find_marker(request.body, request.head)
        entry = self._entry(request, exchange.connection_number, marker)
        entry.dispatch, answer = self._book.dispatched(marker)
        self._journal.add(entry)
        exchange.note_in(self._journal, entry)
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("%s: %s %s %s", self.name, request.method, request.target, marker or "")
        try:
            self._answer(exchange, answer, marker or "")
        except Exception:  # noqa: BLE001 - whatever a request made fail, the next one must be served
            self._fail(exchange)

    def _answer(self, exchange: Exchange, answer: Reply | Wire | None, marker: str) -> None:
        request = exchange.request
        if answer is None and self.overrides:  # no script: what a test put on this path, or else the engine
            answer = self.overrides.get(request.path)
        if answer is None:
            if self.health is not None and request.path in HEALTH_PATHS:
                self._fail_health(exchange)
                return
            self._send(exchange, self.dialect.answer(request), marker, scripted=False)
        elif isinstance(answer, Wire):
            exchange.run(Player(exchange, self._book, marker).play(answer))
        else:
            self._send(exchange, self.dialect.answer_scripted(request, answer), marker, scripted=True)

    def _fail(self, exchange: Exchange) -> None:
        """Answer 500 for a bug of ours, as an engine would, and say so where it is seen."""
        _LOG.exception("%s: answering %s %s failed", self.name, exchange.request.method, exchange.request.target)
        exchange.respond(Response(500, b"Internal Server Error", "text/plain; charset=utf-8"), "failed")

    def incomplete(self, request: Request, connection: int, outcome: str) -> None:
        """Journal a request that never became complete."""
        entry = self._entry(request, connection, find_marker(request.body, request.head))
        entry.outcome = outcome
        if outcome != "malformed":
            entry.peer_closed_at = request.received_at
        self._journal.add(entry)

    def _fail_health(self, exchange: Exchange) -> None:
        if self.health == "hang":
            exchange.run(self._hang(exchange))
        else:
            exchange.respond(Response(int(self.health or 503), b"", None))

    @staticmethod
    async def _hang(exchange: Exchange) -> None:
        await asyncio.sleep(_HANG_BOUND_S)
        exchange.hang_up("stalled")

    def _send(self, exchange: Exchange, answered: Answered, marker: str, *, scripted: bool) -> None:
        if isinstance(answered, Response):
            exchange.respond(answered)
        elif isinstance(answered, Delayed):
            exchange.run(self._later(exchange, answered))
        else:
            self._generate(exchange, answered, marker, scripted=scripted)

    @staticmethod
    async def _later(exchange: Exchange, answered: Delayed) -> None:
        await asyncio.sleep(answered.delay_s)
        exchange.respond(answered.response)

    def _generate(self, exchange: Exchange, work: Generation, marker: str, *, scripted: bool) -> None:
        engine = None if scripted else self.engine
        if engine is not None:
            cached = engine.account(work.call, work.outcome)
            if self.spec.cache_report:
                work.outcome.cached_tokens = cached
        if (engine is None or engine.simple) and not work.call.stream and work.outcome.at_once:
            exchange.respond(work.whole(work.call, work.outcome))
            return
        answering = Answering(exchange, work, self.dialect, book=self._book, marker=marker, engine=engine)
        exchange.run(answering.run())
