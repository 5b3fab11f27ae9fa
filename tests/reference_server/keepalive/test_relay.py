"""Which answers get pings, from the request to the last byte; the worker is a stub, the client an ASGI one."""

from __future__ import annotations

import asyncio

import pytest

from reference_server.keepalive.core import PING
from reference_server.settings import Settings
from reference_server.workers.exchange import UpstreamBodyError
from tests.reference_server.front import WORKER_URL, Front, StubResponse
from tests.virtual_time import run_virtually

SSE = (("content-type", "text/event-stream"),)
EVENT = b"data: 1\n\n"
FAST = Settings(sse_keepalive_s=0.02)
QUIET_S = 0.2


async def _wait(front: Front, answer: StubResponse, *, stream: bool) -> bytes:
    front.workers.answer = answer
    asking = asyncio.ensure_future(front.chat(stream=stream))
    await asyncio.sleep(QUIET_S)
    assert not asking.done()
    front.leave.set()
    return (await asking).body


def _after_a_silence(front: Front, answer: StubResponse, *, stream: bool = True) -> bytes:
    """The body a client has got when the worker has been silent for ten intervals, in virtual time."""
    return run_virtually(_wait(front, answer, stream=stream))


@pytest.mark.parametrize("content_type", ["text/event-stream", "text/event-stream; charset=utf-8"])
@pytest.mark.parametrize("stream", [True, False])
def test_an_event_stream_gets_pings(content_type: str, stream: bool) -> None:
    """The worker's content type decides, not the request, and the first ping may come before any event."""
    answer = StubResponse(200, (("content-type", content_type),), [], hang=True)
    body = _after_a_silence(Front(FAST), answer, stream=stream)
    assert body.startswith(PING * 2)
    assert body == PING * (len(body) // len(PING))


@pytest.mark.parametrize(
    "headers",
    [
        (("content-type", "application/json"),),
        (),
        (*SSE, ("content-encoding", "gzip")),
    ],
    ids=["json", "no type", "compressed"],
)
def test_other_answers_are_left_alone(headers: tuple[tuple[str, str], ...]) -> None:
    """An answer that is no event stream, or one into which no comment can be put, gets none."""
    body = _after_a_silence(Front(FAST), StubResponse(200, headers, [EVENT], hang=True))
    assert body == EVENT


def test_pings_can_be_turned_off() -> None:
    """With an interval of 0 a silent stream stays silent."""
    body = _after_a_silence(Front(Settings(sse_keepalive_s=0)), StubResponse(200, SSE, [EVENT], hang=True))
    assert body == EVENT


def test_identity_is_no_encoding() -> None:
    """A body that is said to be encoded as itself gets pings like any other."""
    answer = StubResponse(200, (*SSE, ("content-encoding", "identity")), [], hang=True)
    assert _after_a_silence(Front(FAST), answer)


def test_a_client_that_leaves_in_a_silence_closes_the_worker() -> None:
    """The connection to the worker is given up, and the place with it."""
    front = Front(FAST)
    answer = StubResponse(200, SSE, [EVENT], hang=True)
    _after_a_silence(front, answer)
    assert answer.closed == 1
    assert front.door.inside == 0


async def test_a_stream_that_breaks_after_pings_is_left_without_its_end() -> None:
    """Pings promise nothing: what breaks afterwards looks broken, and nothing is sent behind it."""
    front = Front(FAST)
    front.workers.answer = StubResponse(200, SSE, [EVENT], then=UpstreamBodyError("cut", WORKER_URL))
    reply = await front.chat(stream=True)
    assert (reply.body, reply.ended) == (EVENT, False)
