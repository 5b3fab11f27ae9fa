"""What the checks of keepalives share: streams that fall silent, and what may come of the silence.

Everything is in units of `INTERVAL_S`, the interval that the configuration `keepalive` sets. Nothing here is a check.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from conformance.checks.stream_support import chunk, stream_of, text_chunk
from conformance.harness import CHAT, Disproved
from fake_workers import wire
from fake_workers.script import Hold

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from conformance.harness import Gateway, Live, Noise, Scripted, Worker
    from conformance.harness.exchange import Exchange

INTERVAL_S = 1.0
DEFAULT_INTERVAL_S = 15.0
LATE_S = 1.5
"""How late a keepalive may be: over an interval, so that only another interval than the configured one fails."""
PATIENCE_S = 4.0
"""How much later it may be where the check is not about the time, and none before it means none at all."""
WINDOW_S = 1.7 * INTERVAL_S
"""A silence in which a keepalive is due, wherever none must come."""
EARLY_S = 0.02
"""What timers that count in whole milliseconds, or in ticks of a few, may be early by."""

PING = wire.comment("ping")
BOUNDARIES = (b"\n\n", b"\r\n\r\n", b"\r\r")
ONE = wire.event(chunk("one"))
TWO = wire.event(chunk("two"))
LAST = wire.event(chunk(finish="stop"))
TEXT_ONE = wire.event(text_chunk("one"))


def quiet(worker: Worker, first: bytes = ONE) -> Scripted:
    """A stream that falls silent behind its first event, until `quiet` is released."""
    return worker.script(stream_of(first, Hold(name="quiet"), LAST, wire.DONE))


def patience(noise: Noise, intervals: int = 1) -> float:
    """How long to wait for the last of so many keepalives, in seconds."""
    return noise.allow(intervals * INTERVAL_S + PATIENCE_S)


async def pinged(live: Live, noise: Noise, behind: bytes = ONE) -> None:
    """Wait for a keepalive directly behind these bytes; Disproved when none comes."""
    await live.until(behind + PING, within_s=patience(noise))


async def proof_of_pings(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """See that this gateway sends keepalives where they are due; what must bring none may then be judged."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise)
        await script.release("quiet")
        await live.rest()


def expect_between_events(exchange: Exchange) -> None:
    """Every keepalive follows the end of an event or is the first thing of the body; Disproved otherwise."""
    body = exchange.body
    at = body.find(PING)
    while at >= 0:
        if at and not body[:at].endswith(BOUNDARIES):
            raise Disproved("keepalive inside an event", f"a keepalive follows {body[max(0, at - 60) : at]!r}")
        at = body.find(PING, at + 1)


def expect_only_pings_added(exchange: Exchange, sent: bytes) -> None:
    """The body is what the worker sent, with keepalives between events and nothing else; Disproved otherwise."""
    expect_between_events(exchange)
    if exchange.body.replace(PING, b"") != sent:
        raise Disproved(
            "stream changed", f"without its keepalives the body is not what the worker sent: {exchange.brief()}"
        )


def expect_none_too_soon(exchange: Exchange, sent_at: list[float], interval_s: float = INTERVAL_S) -> None:
    """No keepalive came within the interval after a byte the worker had sent; Disproved otherwise.

    What the worker sends reaches the client later, so the silence that the client saw was shorter still than what is
    measured here: noise of the machine cannot make a gateway look too eager.
    """
    for comment in exchange.comments:
        before = [at for at in sent_at if at <= comment.at]
        if before and comment.at - before[-1] < interval_s - EARLY_S:
            raise Disproved(
                "keepalive too soon", f"a keepalive came {comment.at - before[-1]:.3f} s after the worker's last byte"
            )


async def cut_in_two(
    gateway: Gateway, worker: Worker, noise: Noise, event: bytes, at: int, *, path: str = CHAT
) -> None:
    """Let an event arrive in two halves with a silence between them, and judge where keepalives came.

    They must be missing between the halves, and come behind the whole event, which proves that they were due.
    """
    script = worker.script(stream_of(ONE, event[:at], Hold(name="half"), event[at:], Hold(name="whole"), LAST))
    body = gateway.chat_body(script, stream=True) if path == CHAT else gateway.completion_body(script, stream=True)
    async with gateway.open("POST", path, body) as live:
        assert await script.reached("half")
        await live.listen(WINDOW_S)
        await script.release("half")
        await live.until(event[at:] + PING, within_s=patience(noise))
        await script.release("whole")
        exchange = await live.rest()
    expect_only_pings_added(exchange, ONE + event + LAST)


async def together(*silences: Coroutine[Any, Any, None]) -> None:
    """Wait through several silences at once; the first that is disproved ends the others."""
    tasks = [asyncio.ensure_future(each) for each in silences]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
