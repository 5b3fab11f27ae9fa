"""Runs a judged request through the engine and sends the answer, at the engine's pace and with a script's holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fake_workers.engine.run import QueueFull
from fake_workers.net.messages import LAST_CHUNK, SSE_TYPE, chunk_bytes, head_bytes, http_date

if TYPE_CHECKING:
    from fake_workers.book import ScriptBook
    from fake_workers.dialects.base import Dialect, Generation
    from fake_workers.engine.run import Engine, Ticket
    from fake_workers.net.exchange import Exchange

BEFORE_EVERYTHING = -1  # the hold before the first byte


class Answering:
    """Answers one generating request. ``engine`` None (scripted replies) takes no slot and no time."""

    def __init__(
        self,
        exchange: Exchange,
        work: Generation,
        dialect: Dialect,
        *,
        book: ScriptBook,
        marker: str,
        engine: Engine | None,
    ) -> None:
        """Prepare to answer an exchange."""
        self._exchange = exchange
        self._work = work
        self._dialect = dialect
        self._book = book
        self._marker = marker
        self._engine = engine
        self._ticket: Ticket | None = None
        self._holds = dict(work.outcome.holds)

    async def run(self) -> None:
        """Answer; leaves the engine's slot however this ends."""
        self._dialect.begun(self._work.call)
        try:
            if not self._submit() or not await self._pass(BEFORE_EVERYTHING):
                return
            await (self._stream() if self._work.call.stream else self._whole())
        except asyncio.CancelledError:
            if self._engine is not None and self._ticket is not None:
                self._engine.abort(self._ticket)
                self._ticket = None
            raise
        finally:
            self._dialect.ended(self._work.call)
            if self._engine is not None and self._ticket is not None:
                self._engine.leave(self._ticket)

    def _submit(self) -> bool:
        """Take a place in the engine; answer and return False if there is none."""
        if self._engine is None:
            return True
        outcome = self._work.outcome
        try:
            self._ticket = self._engine.submit(outcome.prompt_tokens, outcome.cached_tokens or 0)
        except QueueFull:
            refusal = self._dialect.queue_full(self._work)
            if isinstance(refusal, bytes):
                self._exchange.send(self._stream_head() + refusal)
                self._exchange.finish()
            else:
                self._exchange.respond(refusal)
            return False
        return True

    async def _pass(self, piece: int | None) -> bool:
        """Keep the silence before a piece and wait at its hold; hang up and return False when nobody releases it."""
        if piece is not None and (silence_s := self._work.outcome.pause_before(piece)):
            await asyncio.sleep(silence_s)
        hold = self._holds.pop(piece, None) if piece is not None else None
        if hold is None or await self._book.held(self._marker, hold, self._work.outcome.hold_max_s):
            return True
        self._exchange.hang_up("hold_expired")
        return False

    async def _whole(self) -> None:
        work = self._work
        for piece in self._stops():
            if not await self._pass(piece):
                return
        if self._engine is not None and self._ticket is not None:
            await self._engine.admitted(self._ticket)
            steps = max((choice.tokens for choice in work.outcome.choices), default=1)
            await self._engine.until_done(self._ticket, steps)
        self._exchange.respond(work.whole(work.call, work.outcome))

    def _stops(self) -> list[int]:
        """Pieces before which a script waits, in order; the one before everything is behind us."""
        outcome = self._work.outcome
        pieces = max((len(choice.pieces) for choice in outcome.choices), default=0)
        every = range(1, pieces) if outcome.every_s else range(0)
        return sorted({*self._holds, *outcome.pauses, *every} - {BEFORE_EVERYTHING})

    async def _stream(self) -> None:
        work, exchange = self._work, self._exchange
        head = self._stream_head()
        if work.early_head:
            exchange.send(head)
            head = b""
        if self._engine is not None and self._ticket is not None:
            await self._engine.admitted(self._ticket)
        for event in work.events(work.call, work.outcome):
            if not await self._pass(event.piece):
                return
            if self._engine is not None and self._ticket is not None:
                await self._engine.until_step(self._ticket, max(event.step, 1))
            exchange.send(head + chunk_bytes(event.data))
            head = b""
            await asyncio.sleep(0)  # one event, one write, as a real engine's tokens arrive
            await exchange.ready()
        exchange.send(LAST_CHUNK)
        exchange.finish()

    def _stream_head(self) -> bytes:
        headers = [("date", http_date())]
        if self._dialect.server_name is not None:
            headers.append(("server", self._dialect.server_name))
        headers += [("content-type", SSE_TYPE), *self._work.headers, ("transfer-encoding", "chunked")]
        return head_bytes(200, headers)
