"""Questions asked of a gateway when the load is over.

Requests held at the worker show how many it lets in, and in which order.

Order is made by holds and by waiting for what was sent to be seen, so a probe depends on no machine's speed.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from conformance.harness import bodies
from conformance.harness.client import Live
from conformance.harness.errors import TargetError
from fake_workers.control import Control
from fake_workers.markers import new_marker
from fake_workers.script import Reply, Script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conformance.harness.environment import Environment
    from conformance.harness.exchange import Exchange

CHAT = "/v1/chat/completions"
GATE = "gate"
REACH_S = 5.0
ARRIVAL_GAP_S = 0.05  # between two arrivals whose order matters
WITHIN_S = 30.0


@dataclass
class Asked:
    """A request of a probe, held at the worker as soon as it gets there."""

    marker: str
    live: Live
    task: asyncio.Task[Exchange]

    @property
    def answer(self) -> Exchange:
        """What has come so far."""
        return self.live.exchange


class Prober:
    """Asks one gateway; everything asked is over when the context ends."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._control = Control(environment.control_url)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        self._stack.push_async_callback(self._control.aclose)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._stack.aclose()

    async def ask(self, *headers: tuple[str, str]) -> Asked:
        """Send one request whose answer is held before its first byte."""
        environment = self._environment
        marker = new_marker()
        await self._control.put_script(marker, Script.of(Reply(hold_before={-1: GATE})))
        self._stack.push_async_callback(self._control.forget, marker)
        parts = urlsplit(environment.gateway_url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        body = bodies.body_for(CHAT, environment.workers[0].model, f"Hold {marker}", {"stream": True})
        fields: list[tuple[str, str | None]] = list(headers)
        if environment.default_key:
            fields.append(("authorization", f"Bearer {environment.default_key}"))
        pieces = bodies.request("POST", CHAT, body, fields, host=f"{host}:{port}")
        live = Live((host, port), pieces, method="POST", target=CHAT, within_s=WITHIN_S)
        await self._stack.enter_async_context(live)
        task = asyncio.create_task(live.rest())
        self._stack.callback(task.cancel)
        return Asked(marker, live, task)

    async def ask_many(self, number: int, *headers: tuple[str, str]) -> list[Asked]:
        """Send so many requests, one after the other, each after the gateway had time to take the one before."""
        found = []
        for _ in range(number):
            found.append(await self.ask(*headers))
            await asyncio.sleep(ARRIVAL_GAP_S)
        return found

    async def at_worker(self, asked: list[Asked], within_s: float = REACH_S) -> list[Asked]:
        """Those that reach the worker in time."""
        reached = await asyncio.gather(*(self._control.reached(each.marker, GATE, within_s) for each in asked))
        return [each for each, there in zip(asked, reached, strict=True) if there]

    async def release(self, *asked: Asked) -> list[Exchange]:
        """Let the worker answer these; returns the answers."""
        for each in asked:
            await self._control.release(each.marker, GATE)
        return [await each.task for each in asked]

    async def answered(self, asked: Asked, within_s: float) -> Exchange | None:
        """The whole answer if it comes in time."""
        done, _ = await asyncio.wait({asked.task}, timeout=within_s)
        return asked.task.result() if done else None

    async def first_at_worker(self, asked: list[Asked], within_s: float) -> Asked | None:
        """The one of these that comes to the worker first; None when none does in time."""
        waits = {asyncio.create_task(self._control.reached(each.marker, GATE, within_s)): each for each in asked}
        try:
            pending = set(waits)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.result():
                        return waits[task]
            return None
        finally:
            for task in waits:
                task.cancel()

    async def room_for(self, number: int, within_s: float) -> int:
        """How many of so many requests are at the worker at once, asked again until all are or the time is up."""
        deadline = time.monotonic() + within_s
        best = 0
        while True:
            asked = await self.ask_many(number)
            there = await self.at_worker(asked, REACH_S / 2)
            best = max(best, len(there))
            await self.release(*there)
            for each in asked:
                if each not in there:
                    each.live.abort()
            if best == number or time.monotonic() >= deadline:
                return best
            await asyncio.sleep(ARRIVAL_GAP_S)


@asynccontextmanager
async def prober(environment: Environment) -> AsyncIterator[Prober]:
    """A prober; TargetError when the gateway cannot be reached any more."""
    try:
        async with Prober(environment) as found:
            yield found
    except TargetError as problem:
        raise TargetError(f"the gateway could not be asked after the load: {problem}") from None
