"""Vices of connection timers: none, others, or for those who keep nobody waiting."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import RELAY
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.answers import Answer
    from reference_server.call import Call

BUSY_S = 2.0


def _clauses(*words: str) -> tuple[str, ...]:
    return tuple(f"transport.timers.{word}" for word in words)


def _timed(settings: Any) -> bool:
    """Whether the timers are set so short that a check waits for them."""
    return bool(settings.idle_connection_timeout_s == BUSY_S)


def _timers(**seconds: float) -> Vice:
    """Other times than the configured ones, where these are short."""
    return Vice(settings=lambda s: dataclasses.replace(s, **seconds) if _timed(s) else s)


add("waits_for_heads", "Half a head is waited for without end.", _clauses("head"), _timers(header_read_timeout_s=0.0))
add(
    "loses_patience_with_heads",
    "A head has 0.3 s to be complete.",
    _clauses("head"),
    _timers(header_read_timeout_s=0.3),
)
add("keeps_idle_connections", "Idle connections are kept.", _clauses("idle"), _timers(idle_connection_timeout_s=0.0))
add(
    "drops_idle_connections",
    "Idle connections are closed after 0.3 s.",
    _clauses("idle", "in_time"),
    _timers(idle_connection_timeout_s=0.3),
)


async def _never_silent(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream that is silent for two seconds ends."""
    source = aiter(pieces)
    while True:
        try:
            yield await asyncio.wait_for(anext(source), BUSY_S)
        except (TimeoutError, StopAsyncIteration):
            return


async def _cut_streams(original: Any, this: Call, request: Any, response: Any, settings: Any) -> Answer:
    """A silent stream is taken for an idle connection."""
    answer: Answer = await original(this, request, response, settings)
    if _timed(settings) and not isinstance(answer.body, bytes):
        answer.body = _never_silent(answer.body)
    return answer


async def _bounded(original: Any, this: Call, endpoint: Any, state: Any) -> Answer:
    """A request that is not answered for two seconds is taken for an idle connection."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    answering = asyncio.ensure_future(original(this, endpoint, state))
    try:
        await asyncio.wait({answering}, timeout=BUSY_S if _timed(state.settings) else None)
        if not answering.done():
            raise GatewayError(408, "idle_connection", "idle for too long")
        found: Answer = answering.result()
        return found
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


add(
    "takes_silent_streams_for_idle",
    "A silent stream is cut like an idle connection.",
    _clauses("silent_stream"),
    swap(RELAY, _cut_streams),
)
add(
    "takes_slow_answers_for_idle",
    "A slow answer is cut like an idle connection.",
    _clauses("slow_worker"),
    swap("reference_server.pipeline:serve", _bounded),
)
