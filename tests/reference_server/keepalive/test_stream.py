"""The keepalive's shell, in virtual time: a scripted worker behind it, a client of any pace before it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from reference_server.errors import GatewayError
from reference_server.keepalive.core import PING
from reference_server.keepalive.stream import with_pings
from tests.virtual_time import run_virtually

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

INTERVAL_S = 15.0
EVENT = b"data: a\n\n"
DONE = b"data: [DONE]\n\n"
Received = list[tuple[float, bytes]]


class Body:
    """A worker's body: pauses and pieces, then an end, an exception, or silence for ever (`hangs`)."""

    def __init__(self, *script: float | bytes, breaks: Exception | None = None, hangs: bool = False) -> None:
        self._script = script
        self._breaks = breaks
        self._hangs = hangs
        self.given = 0
        self.closed = False
        self.cancelled = False

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The pieces in their time."""
        try:
            for step in self._script:
                if isinstance(step, bytes):
                    self.given += 1
                    yield step
                else:
                    await asyncio.sleep(step)
            if self._hangs:
                await asyncio.Event().wait()
            if self._breaks is not None:
                raise self._breaks
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            self.closed = True


def relayed(body: Body, *, until_s: float = 1e6, pace_s: Sequence[float] = ()) -> Received:
    """What a client gets that takes each piece only after its pace (0 when there is none), and leaves at `until_s`."""

    async def client() -> Received:
        loop = asyncio.get_running_loop()
        received: Received = []
        pauses = iter(pace_s)
        async with aclosing(with_pings(body.pieces(), INTERVAL_S)) as pieces:
            try:
                async with asyncio.timeout_at(until_s):
                    async for piece in pieces:
                        received.append((round(loop.time(), 6), piece))
                        await asyncio.sleep(next(pauses, 0.0))
            except TimeoutError:
                pass
            except GatewayError:
                received.append((round(loop.time(), 6), b"broken"))
        return received

    return run_virtually(client())


def test_silence_is_broken_by_pings_until_the_worker_speaks() -> None:
    """Before the first byte, between events and behind `[DONE]` a ping comes every fifteen seconds of silence."""
    body = Body(40.0, EVENT, 16.0, DONE, 31.0)
    assert relayed(body) == [
        (15.0, PING), (30.0, PING), (40.0, EVENT), (55.0, PING), (56.0, DONE), (71.0, PING), (86.0, PING),
    ]  # fmt: skip
    assert body.closed


def test_a_busy_stream_is_left_as_it_is() -> None:
    """Events that come faster than the interval leave no room for a ping."""
    script: list[float | bytes] = [14.9, EVENT] * 20
    assert [piece for _, piece in relayed(Body(*script))] == [EVENT] * 20


def test_no_ping_comes_inside_of_an_event() -> None:
    """However long the rest of an event takes, it is waited for; the silence behind it counts from its end."""
    body = Body(b"data: a", 100.0, b"\n", 100.0, b"\n", 15.5)
    assert relayed(body) == [(0.0, b"data: a"), (100.0, b"\n"), (200.0, b"\n"), (215.0, PING)]


def test_nothing_comes_behind_the_end() -> None:
    """The stream ends with its body, and so does every timer."""
    assert relayed(Body(EVENT)) == [(0.0, EVENT)]


def test_a_broken_body_stays_broken() -> None:
    """What broke the body reaches the client's side as it is, with no ping after it."""
    body = Body(EVENT, 16.0, breaks=GatewayError(500, "read_response_body_failed", "cut"))
    assert relayed(body) == [(0.0, EVENT), (15.0, PING), (16.0, b"broken")]
    assert body.closed


def test_a_client_that_does_not_read_holds_up_its_worker() -> None:
    """While a client does not take a piece no ping is made and one further piece is asked for at most."""
    body = Body(*[EVENT] * 10)
    received = relayed(body, until_s=500.0, pace_s=[1000.0])
    assert received == [(0.0, EVENT)]
    assert body.given <= 2


def test_pings_do_not_pile_up_behind_a_slow_client() -> None:
    """A client that takes a ping late gets the next one an interval after that, not all that it missed."""
    body = Body(100.0, EVENT)
    assert relayed(body, pace_s=[50.0]) == [(15.0, PING), (80.0, PING), (95.0, PING), (100.0, EVENT)]


def test_a_piece_that_came_goes_before_a_ping() -> None:
    """A client that comes back from a long pause finds the worker's piece, not a ping."""
    body = Body(20.0, EVENT)
    assert relayed(body, pace_s=[60.0]) == [(15.0, PING), (75.0, EVENT)]


@pytest.mark.parametrize("leaves_at_s", [0.0, 1.0, 15.0, 20.0, 29.9])
def test_a_client_that_leaves_ends_the_body(leaves_at_s: float) -> None:
    """Whenever the client goes, the body is closed at once and what waited for it is cancelled."""
    body = Body(EVENT, hangs=True)
    relayed(body, until_s=leaves_at_s)
    assert body.closed


def test_cancelling_in_a_silence_cancels_the_wait_for_the_body() -> None:
    """The cancellation reaches the worker's side before it is seen on the client's."""
    body = Body(hangs=True)

    async def cancelled_at_once() -> None:
        pieces = with_pings(body.pieces(), INTERVAL_S)
        waiting = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        assert (body.cancelled, body.closed) == (True, True)
        await pieces.aclose()

    run_virtually(cancelled_at_once())


def test_closing_while_the_client_has_a_piece_closes_the_body() -> None:
    """A client may leave while its last piece is on its way: the body is closed before anything else happens."""
    body = Body(EVENT, hangs=True)

    async def closed_at_a_piece() -> None:
        pieces = with_pings(body.pieces(), INTERVAL_S)
        assert await anext(pieces) == EVENT
        await pieces.aclose()
        assert body.closed

    run_virtually(closed_at_a_piece())


def test_closing_before_the_first_piece_is_asked_for_is_nothing() -> None:
    """A response that is given up before its body was touched has nothing to wait for."""

    async def closed() -> None:
        await with_pings(Body(hangs=True).pieces(), INTERVAL_S).aclose()

    run_virtually(closed())


def test_a_second_cancellation_is_not_swallowed() -> None:
    """A body that takes its time to be given up holds up nobody who asks a second time."""
    cleaned: list[float] = []

    async def reluctant() -> AsyncGenerator[bytes]:
        try:
            await asyncio.Event().wait()
            yield EVENT
        finally:
            await asyncio.sleep(5.0)
            cleaned.append(asyncio.get_running_loop().time())

    async def cancelled_twice() -> None:
        loop = asyncio.get_running_loop()
        pieces = with_pings(reluctant(), INTERVAL_S)
        waiting = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.sleep(1.0)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert (waiting.cancelled(), loop.time()) == (True, 2.0)
        await pieces.aclose()
        await asyncio.sleep(100.0)
        assert cleaned == [6.0]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtually(cancelled_twice())
