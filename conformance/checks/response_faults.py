"""Chat Completions: a non-streaming answer that fails on its way, or that nobody waits for any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.stream_support import DISCONNECT_BOUND_S, completion_answer, felt_after_s
from conformance.harness import clause
from fake_workers import wire
from fake_workers.script import Chunk, Close, Head, Hold, Raw, Reply, Reset, Wire

if TYPE_CHECKING:
    from conformance.harness import Gateway, Noise, Worker

JSON = "application/json"
ANSWER = wire.compact(completion_answer())


@clause("chat.response.truncated")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_chunked_answer_breaks_off(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """A chunked answer without its last chunk is an error to the client, or a transfer that breaks."""
    script = worker.script(Wire(steps=[Head(headers=[("content-type", JSON)]), Chunk(data=ANSWER[:60]), end]))
    chat = await gateway.chat(script)
    await script.received()
    assert not chat.succeeded or not chat.closed_cleanly, chat.brief()


@clause("chat.response.truncated_length")
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["closed", "reset"])
async def test_answer_shorter_than_announced(gateway: Gateway, worker: Worker, end: Close | Reset) -> None:
    """An answer that ends before its announced length is an error to the client, or a transfer that breaks."""
    head = Head(headers=[("content-type", JSON), ("content-length", str(len(ANSWER) + 50))])
    script = worker.script(Wire(steps=[head, Raw(data=ANSWER), end]))
    chat = await gateway.chat(script)
    await script.received()
    assert not chat.succeeded or not chat.closed_cleanly, chat.brief()


@clause("chat.response.one_dispatch")
async def test_success_is_dispatched_once(gateway: Gateway, worker: Worker) -> None:
    """A request answered with success reached a worker once, and no second time after its answer."""
    script = worker.script(Reply(pieces=["once"]))
    chat = await gateway.chat(script)
    assert chat.succeeded
    # A later request has come and gone meanwhile: whatever else the gateway had to send has been sent.
    await gateway.chat(worker.script(Reply(pieces=["later"])))
    assert len(await script.received()) == 1


@clause("chat.response.disconnect.waiting")
async def test_client_leaves_while_the_worker_thinks(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the client of a non-streaming request has gone."""
    script = worker.script(
        Wire(steps=[Hold(name="thinking"), Head(headers=[("content-type", JSON)]), Chunk(data=ANSWER)])
    )
    async with gateway.open_chat(script) as live:
        assert await script.reached("thinking")
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)
