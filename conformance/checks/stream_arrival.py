"""Chat Completions: a stream is handed over while it is written.

The worker is held between its events, so nothing here depends on luck or on sleeping.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from conformance.checks.stream_support import chunk, content_of, stream_of
from conformance.harness import clause
from fake_workers import wire
from fake_workers.script import Chunk, Hold

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker

ARRIVAL_BOUND_S = 5.0
"""How long a check waits for an event that the worker has sent: it fails after that, it never passes by it."""


@clause("chat.stream.relay.as_it_arrives")
async def test_first_event_before_the_second_is_written(gateway: Gateway, worker: Worker) -> None:
    """The client has the first event while the worker is held before the second."""
    script = worker.script(wire.sse(chunk("one"), chunk("two"), hold_before={1: "second"}))
    async with gateway.open_chat(script, stream=True) as live:
        first = await live.event(within_s=ARRIVAL_BOUND_S)
        assert first.json == chunk("one")
        assert await script.reached("second")
        await script.release("second")
        chat = await live.rest()
    assert content_of(chat.chunks) == "onetwo"


@clause("chat.stream.relay.every_event_as_it_arrives")
async def test_each_event_before_the_next_is_written(gateway: Gateway, worker: Worker) -> None:
    """Five times over, the client has event k while the worker is held before event k + 1."""
    count = 5
    holds = {number: f"before-{number}" for number in range(1, count)}
    script = worker.script(wire.sse(*(chunk(f"{number}") for number in range(count)), hold_before=holds))
    async with gateway.open_chat(script, stream=True) as live:
        for number in range(count):
            if number:
                await script.release(holds[number])
            assert (await live.event(within_s=ARRIVAL_BOUND_S)).json == chunk(f"{number}")
        chat = await live.rest()
    assert chat.ended_with_done


@clause("chat.stream.relay.small_events")
async def test_few_bytes_are_not_saved_up(gateway: Gateway, worker: Worker) -> None:
    """An event of nine bytes arrives while the worker is held behind it, and so does the next."""
    script = worker.script(stream_of(b"data: 1\n\n", Hold(name="more"), b"data: 2\n\n", Hold(name="end"), wire.DONE))
    async with gateway.open_chat(script, stream=True) as live:
        assert (await live.event(within_s=ARRIVAL_BOUND_S)).data == "1"
        await script.release("more")
        assert (await live.event(within_s=ARRIVAL_BOUND_S)).data == "2"
        await script.release("end")
        assert (await live.rest()).ended_with_done


@clause("chat.stream.relay.done_as_it_arrives")
async def test_done_before_the_body_ends(gateway: Gateway, worker: Worker) -> None:
    """The client has [DONE] while the worker keeps its body open."""
    script = worker.script(stream_of(wire.event(chunk("one", finish="stop")), wire.DONE, Hold(name="open")))
    async with gateway.open_chat(script, stream=True) as live:
        await live.event(within_s=ARRIVAL_BOUND_S)
        assert (await live.event(within_s=ARRIVAL_BOUND_S)).is_done
        await script.release("open")
        assert (await live.rest()).closed_cleanly


@clause("chat.stream.relay.half_event_held")
async def test_half_an_event(gateway: Gateway, worker: Worker) -> None:
    """An event whose two halves the worker sends with a halt between them arrives as one whole event, unchanged."""
    event = wire.event(chunk("a longer piece of text"))
    middle = len(event) // 2
    script = worker.script(stream_of(event[:middle], Hold(name="half"), event[middle:], wire.DONE))
    async with gateway.open_chat(script, stream=True) as live:
        assert await script.reached("half")
        await asyncio.sleep(0.1)  # so that the gateway, however busy, reads the first half for itself
        await script.release("half")
        chat = await live.rest()
    assert chat.chunks == [chunk("a longer piece of text")]
    assert chat.ended_with_done


@clause("chat.stream.relay.own_events")
async def test_streams_do_not_mix(gateway: Gateway, worker: Worker) -> None:
    """Four streams of one worker, advanced in turns, each receive their own events and no other's."""
    names = ["red", "green", "blue", "black"]
    scripts = [
        worker.script(wire.sse(*(chunk(f"{name}{number} ") for number in range(3)), hold_before={1: "one", 2: "two"}))
        for name in names
    ]
    streams = [asyncio.create_task(gateway.chat(script, stream=True)) for script in scripts]
    for hold, order in (("one", scripts), ("two", scripts[::-1])):
        for script in order:
            assert await script.reached(hold)
        for script in order:
            await script.release(hold)
    texts = [content_of(chat.chunks) for chat in await asyncio.gather(*streams)]
    assert texts == [f"{name}0 {name}1 {name}2 " for name in names]


@clause("chat.stream.relay.byte_by_byte")
async def test_one_byte_a_chunk(gateway: Gateway, worker: Worker) -> None:
    """A stream that the worker sends one byte a chunk arrives complete."""
    body = wire.event(chunk("é😀")) + wire.event(chunk(finish="stop")) + wire.DONE
    script = worker.script(stream_of(*(Chunk(data=bytes([byte])) for byte in body)))
    chat = await gateway.chat(script, stream=True)
    assert chat.body == body
    assert chat.ended_with_done


@clause("chat.stream.relay.coalesced")
async def test_several_events_in_one_write(gateway: Gateway, worker: Worker) -> None:
    """Five events and [DONE] in one write arrive as five events and [DONE]."""
    body = b"".join(wire.event(chunk(f"{number}")) for number in range(5)) + wire.DONE
    chat = await gateway.chat(worker.script(stream_of(body)), stream=True)
    assert content_of(chat.chunks) == "01234"
    assert chat.ended_with_done
