"""Chat Completions: the end of a stream is the worker's end, neither more nor less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.stream_support import chunk, stream_of
from conformance.harness import clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker

TEXT, FINISH = wire.event(chunk("one")), wire.event(chunk(finish="stop"))


async def ended(gateway: Gateway, worker: Worker, *parts: bytes) -> Exchange:
    """Let the worker stream these parts and end its body well; the worker must have got rid of everything."""
    script = worker.script(stream_of(*parts))
    chat = await gateway.chat(script, stream=True)
    await script.completed()
    assert chat.succeeded, chat.brief()
    assert chat.events, "a stream without an event proves nothing"
    return chat


@clause("chat.stream.done.not_invented")
async def test_missing_done_stays_missing(gateway: Gateway, worker: Worker) -> None:
    """A stream that ends without [DONE] arrives without [DONE]."""
    chat = await ended(gateway, worker, TEXT, FINISH)
    assert not any(event.is_done for event in chat.events)
    assert chat.body == TEXT + FINISH


@clause("chat.stream.done.finish_not_invented")
async def test_missing_finish_reason_stays_missing(gateway: Gateway, worker: Worker) -> None:
    """A stream that ends in the middle of the text, properly framed, gets neither a finish reason nor a [DONE]."""
    chat = await ended(gateway, worker, TEXT)
    assert chat.chunks == [chunk("one")]
    assert not any(event.is_done for event in chat.events)


@clause("chat.stream.done.doubled_kept")
async def test_doubled_done(gateway: Gateway, worker: Worker) -> None:
    """A worker's second [DONE] does not bring forth a third."""
    chat = await ended(gateway, worker, TEXT, FINISH, wire.DONE, wire.DONE)
    assert chat.body == TEXT + FINISH + wire.DONE + wire.DONE


@clause("chat.stream.done.spelling")
async def test_done_as_the_worker_spelt_it(gateway: Gateway, worker: Worker) -> None:
    """[DONE] without a blank and with CRLF arrives just so."""
    chat = await ended(gateway, worker, TEXT, FINISH, b"data:[DONE]\r\n\r\n")
    assert chat.body == TEXT + FINISH + b"data:[DONE]\r\n\r\n"


@clause("chat.stream.end.nothing_after")
async def test_nothing_is_added(gateway: Gateway, worker: Worker) -> None:
    """The body the client gets ends with the worker's last byte, even if that ends no line."""
    for tail in (b"", b": the last word\n\n", b"data: no line end"):
        chat = await ended(gateway, worker, TEXT, FINISH, wire.DONE, tail)
        assert chat.body == TEXT + FINISH + wire.DONE + tail
        assert chat.closed_cleanly
        assert chat.trailing == b""
