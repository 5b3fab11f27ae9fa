"""Chat Completions: a stream that its worker breaks off never looks complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.stream_support import broken_stream, chunk, tells_of_the_break
from conformance.harness import clause
from fake_workers import wire
from fake_workers.script import Close, Hold, Reset

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker
    from fake_workers.script import Step

ONE, TWO = wire.event(chunk("one")), wire.event(chunk("two"))


async def broken(gateway: Gateway, worker: Worker, *parts: bytes | Step) -> Exchange:
    """Let the worker break off its stream, and return what the client got."""
    script = worker.script(broken_stream(*parts))
    chat = await gateway.chat(script, stream=True)
    await script.received()
    return chat


@clause("chat.stream.broken.visible")
async def test_connection_closed_between_events(gateway: Gateway, worker: Worker) -> None:
    """A worker that closes between two events leaves the client with a broken transfer or an error event."""
    chat = await broken(gateway, worker, ONE, TWO, Close())
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.broken.visible")
async def test_connection_closed_after_the_finish_reason(gateway: Gateway, worker: Worker) -> None:
    """Also a stream that breaks off between its finish reason and its end is not passed off as one that ended well."""
    chat = await broken(gateway, worker, ONE, wire.event(chunk(finish="stop")), Close())
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.broken.reset")
async def test_connection_reset(gateway: Gateway, worker: Worker) -> None:
    """A worker whose connection is reset leaves the client with a broken transfer or an error event."""
    chat = await broken(gateway, worker, ONE, TWO, Reset())
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.broken.in_event")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_break_inside_an_event(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A break in the middle of an event leaves the client with a broken transfer, an error event or half an event."""
    chat = await broken(gateway, worker, ONE, TWO[: len(TWO) // 2], end)
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.broken.before_first_event")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_break_before_the_first_event(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A stream that is opened and broken off before any event is not passed off as an empty one that ended well."""
    chat = await broken(gateway, worker, end)
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.broken.prefix_delivered")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_what_came_before_the_break_arrives(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """The client holds the events from before the break; the worker breaks only after the client has them."""
    script = worker.script(broken_stream(ONE, TWO, Hold(name="break"), end))
    async with gateway.open_chat(script, stream=True) as live:
        assert (await live.event()).json == chunk("one")
        assert (await live.event()).json == chunk("two")
        await script.release("break")
        chat = await live.rest()
    assert chat.body.startswith(ONE + TWO)


@clause("chat.stream.broken.not_retried")
async def test_no_second_attempt_in_mid_stream(gateway: Gateway, worker: Worker) -> None:
    """After a part of a stream was relayed and the worker broke off, no worker gets the request again."""
    script = worker.script(
        broken_stream(ONE, Hold(name="break"), Reset()), wire.sse(chunk("again"), chunk(finish="stop"))
    )
    async with gateway.open_chat(script, stream=True) as live:
        await live.event()
        await script.release("break")
        chat = await live.rest()
    assert len(await script.received()) == 1
    assert b"again" not in chat.body
