"""A fleet with one worker of each engine, its control client, and a client that shows every byte."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

import pytest

from fake_workers import Control, Fleet, WorkerSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

BOUND_S = 10.0


class RawClient:
    """One TCP connection to a worker; everything read is kept as it came."""

    def __init__(self, url: str) -> None:
        """Take the worker's base URL."""
        host, _, port = url.removeprefix("http://").partition(":")
        self.host, self.port = host, int(port)
        self.reads: list[bytes] = []

    async def __aenter__(self) -> Self:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect."""
        self.writer.close()

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, path: str, body: bytes, *headers: str, content_type: str = "application/json") -> None:
        """Write a POST request."""
        lines = [f"POST {path} HTTP/1.1", "host: w", f"content-type: {content_type}", f"content-length: {len(body)}"]
        await self.send("\r\n".join([*lines, *headers, "", ""]).encode() + body)

    async def chunk(self) -> bytes:
        """Return the next bytes, empty at the end."""
        data = await asyncio.wait_for(self.reader.read(65536), BOUND_S)
        if data:
            self.reads.append(data)
        return data

    async def all(self) -> bytes:
        """Return everything until the other side closes; raises ``ConnectionResetError`` on a reset."""
        while await self.chunk():
            pass
        return b"".join(self.reads)

    async def message(self) -> tuple[bytes, bytes]:
        """Return head and body of one answer with a declared or chunked body (framing removed)."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), BOUND_S)
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            body = b""
            while True:
                size = int(await asyncio.wait_for(self.reader.readline(), BOUND_S), 16)
                body += await asyncio.wait_for(self.reader.readexactly(size), BOUND_S)
                await asyncio.wait_for(self.reader.readline(), BOUND_S)
                if not size:
                    return head, body
        at = lowered.find(b"content-length:")
        size = int(lowered[at + 15 : lowered.index(b"\r\n", at)]) if at >= 0 else 0
        return head, await asyncio.wait_for(self.reader.readexactly(size), BOUND_S)

    async def message_head_and(self, size: int) -> bytes:
        """Return a head and so many bytes after it."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), BOUND_S)
        return head + await asyncio.wait_for(self.reader.readexactly(size), BOUND_S)

    async def gone(self) -> bool:
        """Say whether the other side has closed (or reset) the connection."""
        try:
            return not await self.chunk()
        except ConnectionResetError:
            return True


def events_of(body: bytes) -> list[Any]:
    """Return the data events of an SSE body, parsed as JSON where they are JSON."""
    events = []
    for block in body.split(b"\n\n"):
        if block.startswith(b"data: "):
            text = block[6:].decode()
            events.append(text if text == "[DONE]" else json.loads(text))
    return events


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """A running fleet: w0 vllm, w1 sglang, w2 tokenspeed, all with model ``m``."""
    specs = [WorkerSpec(engine=engine, model="m") for engine in ("vllm", "sglang", "tokenspeed")]
    async with Fleet(specs) as running:
        yield running


@pytest.fixture
async def control(fleet: Fleet) -> AsyncIterator[Control]:
    """The fleet's control client."""
    async with Control(fleet.control_url) as client:
        yield client


@pytest.fixture
def raw() -> Callable[[str], RawClient]:
    """Makes a client that shows every byte."""
    return RawClient


@pytest.fixture
def sse() -> Callable[[bytes], list[Any]]:
    """Parses SSE bodies."""
    return events_of
