"""Connections that keep a gateway waiting, and those that only seem to.

The configuration `timers` gives a request head one second to be complete and a connection two seconds between requests.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from conformance.checks.keepalive_support import LAST, ONE, PING
from conformance.checks.routes_support import COMPLETION
from conformance.checks.stream_support import stream_of
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from conformance.harness.raw import Answered, Pause, converse
from fake_workers import wire
from fake_workers.script import Hold, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.raw import Step
    from conformance.harness.worker import Scripted, Worker

HEAD_S, IDLE_S = 1.0, 2.0
LATE_S = 3.0
"""How late a gateway may close: only another time than the configured one, or none, fails."""
EARLY_S = 0.05
SILENCE_S = IDLE_S + 0.6


def whole(gateway: Gateway, script: Scripted, *, stream: bool = False) -> bytes:
    """An ordinary chat completion as bytes."""
    return b"".join(gateway.written("POST", CHAT, gateway.chat_body(script, stream=stream)))


def expect_closed_after(elapsed_s: float, limit_s: float, noise: Noise) -> None:
    """The connection ended when its time was up; Disproved otherwise."""
    if not limit_s - EARLY_S <= elapsed_s <= noise.allow(limit_s + LATE_S):
        raise Disproved("closed at another time", f"closed after {elapsed_s:.2f} s, where {limit_s:g} s are configured")


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat/comp", b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX-A"])
@clause("transport.timers.head")
async def test_half_a_head(gateway: Gateway, worker: Worker, noise: Noise, sent: bytes) -> None:
    """A connection on which no head, or half of one, has come for the time of a head is closed."""
    patience_s = noise.allow(HEAD_S + LATE_S)
    began = time.monotonic()
    steps: tuple[Step, ...] = (sent,) if sent else ()
    talk = await converse(gateway, worker, *steps, patience_s=patience_s)
    assert talk.closed, talk.brief()
    expect_closed_after(time.monotonic() - began, HEAD_S, noise)
    # Who says why before it closes may: 408 is what HTTP has for it.
    assert talk.status in {None, 408}, talk.brief()


@clause("transport.timers.idle")
async def test_an_idle_connection(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A connection that nobody uses after its answer is closed when the time between requests is up."""
    talk = await converse(gateway, worker, whole(gateway, worker.script()), quiet_s=noise.allow(IDLE_S + LATE_S))
    assert talk.statuses == [200], talk.brief()
    assert talk.closed, talk.brief()
    assert talk.first.times.ended is not None
    expect_closed_after(time.monotonic() - talk.first.times.ended, IDLE_S, noise)


@clause("transport.timers.in_time")
async def test_a_connection_used_in_time(gateway: Gateway, worker: Worker) -> None:
    """A connection that is used again before its time is up serves again, three times over in more than that time."""
    scripts = [worker.script() for _ in range(4)]
    steps: list[Step] = []
    for number, script in enumerate(scripts, start=1):
        steps += [whole(gateway, script), Answered(number), Pause(IDLE_S * 0.4)]
    talk = await converse(gateway, worker, *steps, methods=["POST"] * len(scripts))
    assert talk.statuses == [200] * len(scripts), talk.brief()


@clause("transport.timers.silent_stream")
async def test_a_silent_stream_is_not_idle(gateway: Gateway, worker: Worker) -> None:
    """A stream that is silent for longer than either time goes on behind its silence."""
    script = worker.script(stream_of(ONE, Hold(name="silence"), LAST, wire.DONE))
    async with gateway.open_chat(script, stream=True) as live:
        assert await script.reached("silence")
        await live.listen(SILENCE_S)
        await script.release("silence")
        chat = await live.rest()
    assert chat.closed_cleanly, chat.brief()
    assert chat.body.replace(PING, b"") == ONE + LAST + wire.DONE


@clause("transport.timers.slow_worker")
async def test_a_slow_answer_is_not_idle(gateway: Gateway, worker: Worker) -> None:
    """A request whose worker thinks for longer than either time is answered."""
    script = worker.script(Wire(steps=[Hold(name="thinking"), *wire.json(200, COMPLETION).steps]))
    async with gateway.open_chat(script) as live:
        assert await script.reached("thinking")
        await live.listen(SILENCE_S)
        await script.release("thinking")
        chat = await live.rest()
    assert chat.status == 200, chat.brief()
    assert chat.json == COMPLETION
