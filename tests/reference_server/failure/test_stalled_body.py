"""A request body whose rest does not come is answered with 408, in virtual time and on the wire."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest

from reference_server.call import InboundBody
from reference_server.errors import GatewayError
from reference_server.settings import Settings
from tests.reference_server.front import CHAT, JSON_TYPE, Front
from tests.reference_server.test_process import Worker, gateway
from tests.virtual_time import run_virtually


async def _fed(*script: float | bytes, timeout_s: float = 10.0, reads_at_s: float = 0.0) -> tuple[float, object]:
    """When reading a body ended that comes like this, and how: its bytes or the code of a refusal."""
    loop = asyncio.get_running_loop()
    body = InboundBody(100, timeout_s, clock=loop.time)

    async def client() -> None:
        for step in script:
            if isinstance(step, bytes):
                body.feed(step)
            else:
                await asyncio.sleep(step)
        if script and script[-1] == b"":
            body.finish()

    feeding = asyncio.ensure_future(client())
    await asyncio.sleep(reads_at_s)
    try:
        result: object = await asyncio.wait_for(body.read(), 1000)
    except GatewayError as refused:
        result = (refused.status, refused.code)
    except TimeoutError:
        result = "waits on"
    feeding.cancel()
    return loop.time(), result


STALLED = (408, "request_body_stalled")


@pytest.mark.parametrize(
    ("script", "ends_at_s", "result"),
    [
        ([], 10.0, STALLED),
        ([b"a"], 10.0, STALLED),
        ([9.0, b"a", 9.0, b"b", 9.0, b"c", b""], 27.0, b"abc"),
        ([9.0, b"a", 11.0, b"b", b""], 19.0, STALLED),
        ([9.0, b"", 9.0, b"a", b""], 10.0, STALLED),
        ([3.0, b"a" * 101], 3.0, (413, "request_body_too_large")),
    ],
    ids=["nothing comes", "the rest does not come", "slow but steady", "a long pause", "empty pieces", "too large"],
)
def test_a_pause_decides_and_not_the_whole(script: list[float | bytes], ends_at_s: float, result: object) -> None:
    """A body may take for ever as long as bytes come; one pause of the timeout's length ends it."""
    # An empty piece in the middle is no byte; `_fed` takes only the last one for the end.
    assert run_virtually(_fed(*script)) == (ends_at_s, result)


def test_without_a_timeout_it_is_waited_for() -> None:
    """0 switches the timeout off."""
    assert run_virtually(_fed(b"a", timeout_s=0.0)) == (1000.0, "waits on")


def test_a_body_that_is_complete_never_stalls() -> None:
    """However late a stage reads it: a request may have waited for admission meanwhile."""
    assert run_virtually(_fed(b"ab", b"", reads_at_s=500.0)) == (500.0, b"ab")


def test_a_body_that_stalled_before_it_is_read_is_refused_at_once() -> None:
    """The time runs from the last byte on, not from the moment somebody reads."""
    assert run_virtually(_fed(b"a", reads_at_s=500.0)) == (500.0, STALLED)


async def test_the_answer_is_the_envelope_and_no_worker_is_asked() -> None:
    """408 request_body_stalled in the envelope, and the permit is given back."""
    front = Front(Settings(body_stall_timeout_s=0.05))
    reply = await front.ask("POST", CHAT, JSON_TYPE, None)
    assert (reply.status, reply.error["code"]) == STALLED
    assert reply.error["type"] == "Request Timeout"
    assert reply.header("x-smg-error-code") == "request_body_stalled"
    assert front.workers.seen == []
    assert front.door.inside == 0


FRAMINGS = {
    "with its length": (b"Content-Length: 500", b'{"model":'),
    "in chunks": (b"Transfer-Encoding: chunked", b"3\r\n{  \r\n"),
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_on_the_wire_it_is_answered_and_closed(framing: str) -> None:
    """The client gets 408 in the timeout and the end of the connection soon after, whatever it still owes."""
    announced, part = FRAMINGS[framing]
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n" % (CHAT.encode(), announced)
    with (
        Worker() as worker,
        gateway("--worker-urls", worker.url, "--stream-body-stall-timeout-secs", "0.5") as server,
        socket.create_connection(server.address, timeout=10) as connection,
    ):
        began = time.monotonic()
        connection.sendall(head + part)
        got = connection.recv(65536)
        answered_s = time.monotonic() - began
        while data := connection.recv(65536):
            got += data
    assert got.startswith(b"HTTP/1.1 408 ")
    assert json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "request_body_stalled"
    assert got.lower().count(b"\r\nconnection: close\r\n") == 1
    assert 0.45 <= answered_s < 3
