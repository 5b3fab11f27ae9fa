"""Chat Completions: when a client leaves a stream, its worker feels it, and nobody else does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from conformance.checks.stream_support import (
    DISCONNECT_BOUND_S,
    broken_stream,
    chunk,
    content_of,
    felt_after_s,
    stream_of,
)
from conformance.harness import clause
from fake_workers import wire
from fake_workers.script import Hold, Pause, Wire

if TYPE_CHECKING:
    from conformance.harness import Gateway, Noise, Worker

ONE = wire.event(chunk("one"))
MANY = 20


@clause("chat.stream.disconnect.mid_stream")
async def test_leaving_while_events_flow(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the reader of its running stream has gone."""
    flow = [step for _ in range(500) for step in (wire.event(chunk("more")), Pause(seconds=0.02))]
    script = worker.script(stream_of(ONE, *flow, wire.DONE))
    async with gateway.open_chat(script, stream=True) as live:
        for _ in range(3):
            await live.event()
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("chat.stream.disconnect.silent_worker")
async def test_leaving_while_the_worker_is_silent(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels it within 100 ms also while it has nothing to send."""
    script = worker.script(broken_stream(ONE, Hold(name="silent")))
    async with gateway.open_chat(script, stream=True) as live:
        await live.event()
        assert await script.reached("silent")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("chat.stream.disconnect.before_first")
async def test_leaving_before_the_first_event(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels it within 100 ms also between its head and its first event."""
    script = worker.script(broken_stream(Hold(name="first-event")))
    async with gateway.open_chat(script, stream=True) as live:
        assert await script.reached("first-event")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("chat.stream.disconnect.before_head")
async def test_leaving_before_any_answer(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels it within 100 ms also before it has answered at all."""
    script = worker.script(Wire(steps=[Hold(name="head")]))
    async with gateway.open_chat(script, stream=True) as live:
        assert await script.reached("head")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("chat.stream.disconnect.many")
async def test_many_leave_at_once(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Twenty readers of silent streams leave together, and the worker is rid of all twenty within a second."""
    scripts = [worker.script(broken_stream(ONE, Hold(name="silent"))) for _ in range(MANY)]
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(gateway.open_chat(script, stream=True)) for script in scripts]
        for live in streams:
            await live.event()
        left_at = [live.abort() for live in streams][-1]
        entries = [await script.peer_left() for script in scripts]
    assert max(felt_after_s(entry, left_at) for entry in entries) <= noise.allow(1.0)


@clause("chat.stream.end.staying_clients")
async def test_staying_clients_are_left_alone(gateway: Gateway, worker: Worker) -> None:
    """Twenty streams, all silent at once, are all carried to their end, and none was broken off at the worker."""
    scripts = [
        worker.script(wire.sse(chunk("one"), chunk("two", finish="stop"), hold_before={1: "two"})) for _ in range(MANY)
    ]
    chats = [asyncio.create_task(gateway.chat(script, stream=True)) for script in scripts]
    for script in scripts:
        assert await script.reached("two", within_s=10.0)
    await asyncio.sleep(0.5)  # a silence as short as this must not count as leaving
    for script in scripts:
        await script.release("two")
    for script, chat in zip(scripts, await asyncio.gather(*chats), strict=True):
        assert chat.ended_with_done, chat.brief()
        assert (await script.only()).peer_closed_at is None


@clause("chat.stream.disconnect.others_live")
async def test_leaving_disturbs_nobody_else(gateway: Gateway, worker: Worker) -> None:
    """Of two streams of one worker, one goes on and ends well after the reader of the other has left."""
    leaving = worker.script(broken_stream(ONE, Hold(name="silent")))
    staying = worker.script(wire.sse(chunk("one "), chunk("two", finish="stop"), hold_before={1: "second"}))
    async with gateway.open_chat(staying, stream=True) as stays:
        await stays.event()
        async with gateway.open_chat(leaving, stream=True) as leaves:
            await leaves.event()
            leaves.abort()
            await leaving.peer_left()
        await staying.release("second")
        chat = await stays.rest()
    assert content_of(chat.chunks) == "one two"
    assert chat.ended_with_done
    assert (await staying.only()).peer_closed_at is None
