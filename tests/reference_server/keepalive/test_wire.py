"""Pings as a client sees them: the program between a scripted worker and HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import asyncio
import sys

import httpx
import pytest

from fake_workers import Control
from fake_workers.script import Chunk, End, Head, Hold, Script, Wire
from reference_server.keepalive.core import PING
from tests.reference_server.test_process import CHAT, gateway
from tests.support import running

MARKER = "igc-00000000000000aa"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": MARKER}], "stream": True}
EVENTS = b"data: {}\n\ndata: [DONE]\n\n"
HALF = len(b"data: {}")
SEVERAL_INTERVALS_S = 0.3
WITHIN_S = 5.0
HELD = Wire(
    steps=[
        Hold(name="head", max_s=WITHIN_S), Head(headers=[("content-type", "text/event-stream")]),
        Hold(name="event", max_s=WITHIN_S), Chunk(data=EVENTS[:HALF]),
        Hold(name="rest", max_s=WITHIN_S), Chunk(data=EVENTS[HALF:]),
        Hold(name="end", max_s=WITHIN_S), End(),
    ]
)  # fmt: skip


@pytest.mark.parametrize("http2", [False, True], ids=["http/1.1", "http/2"])
def test_pings_come_where_they_may(http2: bool) -> None:
    """None before the worker's head, some before its first event and behind its last, none inside of one."""
    engine = [sys.executable, "-m", "fake_workers.cli", "--engine", "vllm", "--port", "0", "--model", "m"]
    with (
        running(engine) as fleet,
        gateway("--worker-urls", fleet["workers"][0]["url"], "--sse-keepalive-secs", "0.1") as server,
    ):
        got = asyncio.run(_talk(server.url, fleet["control"], http2=http2))
    before, after = got.split(EVENTS)
    assert before == PING * (len(before) // len(PING))
    assert after == PING * (len(after) // len(PING))
    assert min(len(before), len(after)) >= 2 * len(PING)


async def _talk(url: str, control_url: str, *, http2: bool) -> bytes:
    """Everything the client gets while the worker is held for several intervals at each point."""
    async with Control(control_url) as control, httpx.AsyncClient(http1=not http2, http2=http2) as client:
        await control.put_script(MARKER, Script(answers=[HELD]))
        request = client.build_request("POST", url + CHAT, json=REQUEST, timeout=WITHIN_S)
        asking = asyncio.ensure_future(client.send(request, stream=True))
        assert await control.reached(MARKER, "head")
        await asyncio.sleep(SEVERAL_INTERVALS_S)
        assert not asking.done()
        await control.release(MARKER, "head")
        answer = await asking
        assert answer.status_code == 200
        got = b""
        async for piece in answer.aiter_raw():
            got += piece
            if got.endswith(EVENTS[:HALF]):
                await asyncio.sleep(SEVERAL_INTERVALS_S)
                await control.release(MARKER, "rest")
            elif got.endswith(PING * 2):
                await control.release(MARKER, "end" if EVENTS in got else "event")
        await answer.aclose()
        return got
