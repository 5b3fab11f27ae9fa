"""The raw client: answers of one connection told apart however they are cut, and an end to every conversation."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.harness.answer import AnswersReader
from conformance.harness.errors import Disproved, TargetError
from conformance.harness.raw import Answered, Conversation, Fin, Pause, Step, converse, slowly

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ONE = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none"
TWO = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
THREE = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@given(st.lists(st.integers(1, len(ONE + TWO + THREE) - 1), max_size=12))
def test_answers_are_told_apart(cuts: list[int]) -> None:
    """Three answers on one connection are the same three wherever the reads end, and every byte belongs to one."""
    data = ONE + TWO + THREE
    reader = AnswersReader(b"request", ["POST"], 0.0)
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        reader.feed(data[begin:end], 1.0)
    assert [each.status for each in reader.exchanges] == [200, 200, 404]
    assert [each.body for each in reader.exchanges] == [b"one", b"two", b""]
    assert [each.raw for each in reader.exchanges] == [ONE, TWO, THREE]
    assert reader.exchanges[2].informational == [100]
    assert (reader.complete, reader.begun) == (3, 3)


def test_a_head_has_no_body() -> None:
    """The answer to a HEAD ends with its head, so that the next answer is not taken for its body."""
    reader = AnswersReader(b"", ["HEAD", "GET"], 0.0)
    reader.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n" + ONE, 1.0)
    assert [each.body for each in reader.exchanges] == [b"", b"one"]


@pytest.mark.parametrize(
    ("data", "outcome", "seen"),
    [
        (b"", "cut", "cut"),
        (ONE[:-1], "cut", "cut"),
        (ONE[:-1], "reset", "reset"),
        (ONE, "reset", "complete"),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", "cut", "complete"),
        (b"nonsense\r\n\r\n", "cut", "garbage"),
    ],
)
def test_how_the_last_answer_ends(data: bytes, outcome: Any, seen: str) -> None:
    """A FIN may be the end of an answer or cut it; what was complete stays complete; garbage stays garbage."""
    reader = AnswersReader(b"", ["POST"], 0.0)
    reader.feed(data, 1.0)
    reader.finish(outcome, 2.0)
    assert [each.outcome for each in reader.exchanges] == [seen]


class _Worker:
    async def flush(self) -> None:
        """Nothing is pending."""


@asynccontextmanager
async def server(serve: Any) -> AsyncIterator[Any]:
    """Something like a gateway: a URL, and a place for evidence."""
    tasks: set[asyncio.Task[None]] = set()

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(guarded, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield SimpleNamespace(base_url=f"http://127.0.0.1:{port}", exchanges=[])
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def talk(gateway: Any, *steps: Step, **options: Any) -> Conversation:
    """A conversation with that."""
    return await converse(gateway, cast("Any", _Worker()), *steps, **options)


async def test_whoever_answers_and_waits_left_it_open() -> None:
    """An answer and then silence: the connection counts as open, and the answer is evidence."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ONE)
        await reader.read()

    async with server(serve) as gateway:
        said = await talk(gateway, b"GET / HTTP/1.1\r\n\r\n")
    assert (said.end, said.statuses, said.first.body) == ("open", [200], b"one")
    assert gateway.exchanges == said.answers
    assert said.first.request == b"GET / HTTP/1.1\r\n\r\n"


async def test_what_comes_after_the_last_answer_is_seen() -> None:
    """A second answer that comes only when the client half-closes is still seen: nothing stays hidden behind it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ONE)
        await reader.read()
        writer.write(TWO)

    async with server(serve) as gateway:
        said = await talk(gateway, b"GET / HTTP/1.1\r\n\r\n")
    assert (said.end, [each.body for each in said.answers]) == ("open", [b"one", b"two"])


async def test_whoever_closes_closed_it() -> None:
    """A connection that ends without an answer has one exchange without a status."""

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with server(serve) as gateway:
        said = await talk(gateway, b"GET / HTTP/1.1\r\n\r\n")
    assert (said.end, said.status, said.first.outcome) == ("closed", None, "cut")


async def test_silence_is_ended() -> None:
    """A server that waits for more is told that no more comes; one that then says nothing either is disproved."""

    async def polite(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(ONE)

    async def deaf(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with server(polite) as gateway:
        assert (await talk(gateway, b"GET", patience_s=0.3)).status == 200
    began = time.monotonic()
    async with server(deaf) as gateway:
        with pytest.raises(Disproved, match="neither an answer nor the end"):
            await talk(gateway, b"GET", patience_s=0.2, within_s=1.0)
    assert time.monotonic() - began < 8
    assert len(gateway.exchanges) == 1  # the evidence is there nevertheless


async def test_steps_are_written_in_order() -> None:
    """Pauses, half-closes and waiting for an answer lie where they stand between the bytes."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readexactly(1))
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        seen.append(await reader.readexactly(1))
        writer.write(ONE)
        seen.append(await reader.readexactly(2))
        seen.append(await reader.read())
        writer.write(TWO)

    async with server(serve) as gateway:
        said = await talk(
            gateway,
            *(b"a", Answered(informational=True), b"b", Answered(1), *slowly(b"cd", every_s=0.01), Pause(0.01), Fin()),
            methods=["POST", "POST"],
        )
    assert seen == [b"a", b"b", b"cd", b""]
    assert said.sent_all
    assert (said.first.informational, said.statuses) == ([100], [200, 200])


async def test_nobody_there_is_the_targets_fault() -> None:
    """A refused connection is told as such, and not as a verdict."""
    async with server(None) as gateway:
        pass
    with pytest.raises(TargetError, match="cannot connect"):
        await talk(gateway, b"x")
