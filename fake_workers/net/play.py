"""Plays a wire script on an exchange, step by step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fake_workers.net.messages import LAST_CHUNK, chunk_bytes, head_bytes, may_have_body
from fake_workers.script import Chunk, Close, Drip, End, Head, Hold, Pause, Raw, Reset, Stall

if TYPE_CHECKING:
    from fake_workers.book import ScriptBook
    from fake_workers.net.exchange import Exchange
    from fake_workers.script import Step, Wire


class Player:
    """Plays the steps of one answer; remembers how the body is framed and how much of it was sent."""

    def __init__(self, exchange: Exchange, book: ScriptBook, marker: str) -> None:
        """Prepare to answer one exchange."""
        self._exchange = exchange
        self._book = book
        self._marker = marker
        self._chunked = False
        self._declared: int | None = None
        self._until_close = False
        self._body_bytes = 0
        self._head_sent = False

    async def play(self, wire: Wire) -> None:
        """Play all steps; running out of them is the end of the body."""
        for step in wire.steps:
            await self._step(step)
            if self._exchange.finished:
                return
        self._end()

    async def _step(self, step: Step) -> None:  # noqa: C901, PLR0912 - one arm a kind of step reads best
        match step:
            case Head():
                self._head(step)
            case Chunk(data=data, times=times):
                for _ in range(times):
                    await self._body(data)
                    if self._exchange.finished:
                        return
            case Raw(data=data):
                self._body_bytes += len(data) if self._head_sent else 0
                self._exchange.send(data)
                await self._exchange.ready()
            case Hold(name=name, max_s=max_s):
                if not await self._book.held(self._marker, name, max_s):
                    self._exchange.hang_up("hold_expired")
            case Pause(seconds=seconds):
                await asyncio.sleep(seconds)
            case Drip():
                await self._drip(step)
            case End():
                self._end()
            case Reset():
                await self._exchange.flushed()
                self._exchange.reset()
            case Close():
                self._exchange.hang_up("closed")
            case Stall(max_s=max_s):
                await asyncio.sleep(max_s)
                self._exchange.hang_up("stalled")

    def _head(self, step: Head) -> None:
        headers = list(step.headers)
        names = {name.lower(): value for name, value in headers}
        if step.framing == "auto" and "content-length" not in names and "transfer-encoding" not in names:
            if may_have_body(step.status):
                headers.append(("transfer-encoding", "chunked"))
                self._chunked = True
        else:
            self._chunked = "chunked" in names.get("transfer-encoding", "").lower()
        length = names.get("content-length", "").strip()
        self._declared = int(length) if length.isdecimal() else None
        self._until_close = not self._chunked and self._declared is None and may_have_body(step.status)
        self._head_sent = step.status >= 200  # noqa: PLR2004 - an interim answer is followed by the real head
        self._exchange.send(head_bytes(step.status, headers, step.reason))

    async def _body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        self._exchange.send(chunk_bytes(data) if self._chunked else data)
        await self._exchange.ready()

    async def _drip(self, step: Drip) -> None:
        for start in range(0, len(step.data), step.size):
            if start:
                await asyncio.sleep(step.every_s)
            await self._body(step.data[start : start + step.size])

    def _end(self) -> None:
        if self._chunked:
            self._exchange.send(LAST_CHUNK)
        short = self._declared is not None and not self._chunked and self._body_bytes < self._declared
        self._exchange.finish(keep_alive=not (self._until_close or short))
