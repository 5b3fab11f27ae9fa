"""Chat Completions: a reader that stops holds the worker back, and loses nothing by it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from conformance.checks.stream_support import chunk, stream_of
from conformance.harness import CHAT, clause
from fake_workers import wire
from fake_workers.script import Chunk

if TYPE_CHECKING:
    from conformance.harness import Gateway, Scripted, Worker

MIB = 1 << 20
EVENT = wire.event(chunk("0123456789abcdef" * 8192))
SOCKET_BUFFERS_BYTES = 64 * MIB
"""More than the socket buffers of both connections hold on a generously tuned machine: what goes beyond is hoarded."""
STILL_FOR_S = 1.0
PATIENCE_S = 15.0
SMALL_BUFFER_BYTES = 64 << 10


async def taken_until_still(script: Scripted, limit_bytes: int) -> int:
    """Return how many bytes the worker got rid of when nothing more is taken, or as soon as they pass the limit."""
    taken, since, deadline = -1, time.monotonic(), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        now = sum(size for _, size in (await script.only()).sent)
        if now > limit_bytes or (now == taken and time.monotonic() - since >= STILL_FOR_S):
            return now
        if now != taken:
            taken, since = now, time.monotonic()
        await asyncio.sleep(0.1)
    return taken


@clause("chat.stream.backpressure")
async def test_worker_is_held_back(gateway: Gateway, worker: Worker) -> None:
    """A client that reads one event and stops lets the worker send no more than socket buffers hold."""
    script = worker.script(stream_of(Chunk(data=EVENT, times=4 * SOCKET_BUFFERS_BYTES // len(EVENT))))
    body = gateway.chat_body(script, stream=True)
    async with gateway.open("POST", CHAT, body, receive_buffer=SMALL_BUFFER_BYTES) as live:
        await live.event()
        taken = await taken_until_still(script, SOCKET_BUFFERS_BYTES)
    assert taken <= SOCKET_BUFFERS_BYTES, f"the gateway took {taken // MIB} MiB for a client that does not read"


@clause("chat.stream.backpressure.resumes")
async def test_reading_on_gets_everything(gateway: Gateway, worker: Worker) -> None:
    """A client that pauses until the worker is held back, and then reads on, gets every byte."""
    times = 24 * MIB // len(EVENT)
    script = worker.script(stream_of(Chunk(data=EVENT, times=times), wire.DONE))
    body = gateway.chat_body(script, stream=True)
    async with gateway.open("POST", CHAT, body, receive_buffer=SMALL_BUFFER_BYTES) as live:
        await live.event()
        await taken_until_still(script, SOCKET_BUFFERS_BYTES)
        answer = await live.rest()
    assert answer.closed_cleanly
    assert answer.body == EVENT * times + wire.DONE
