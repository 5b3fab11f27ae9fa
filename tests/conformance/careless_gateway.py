"""A gateway that reads HTTP wrongly, for the checks of raw bytes to notice.

It believes everything: the length before the chunks, any digits anywhere, any line end, a field in a fold, a body that
stops early. It leaves every connection open, and does not read what it does not want. Honest requests it relays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.on_a_thread import listening

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

CHAT = "/v1/chat/completions"
BROKEN_AT_BYTES = 1 << 17
WORKER_BOUND_S = 20.0


@dataclass
class Read:
    """A request as such a gateway understood it."""

    method: str
    target: str
    lines: list[bytes]
    body: bytes = b""
    fields: dict[str, bytes] = field(default_factory=dict)


class Careless:
    """A gateway for `on_a_thread`.

    Args:
        workers: model → URL of the worker that serves it.
    """

    def __init__(self, workers: Mapping[str, str]) -> None:
        self.workers = dict(workers)

    def hosting(self) -> AbstractAsyncContextManager[str]:
        """Listen; gives the URL."""
        return listening(self._connection, limit=1 << 26)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering: set[asyncio.Task[None]] = set()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while (request := await self.read(reader)) is not None:
                # Each answer is written when it is ready, whoever asked first.
                answering.add(asyncio.create_task(self._answer(request, writer)))
        if any(not task.done() for task in answering) and reader.at_eof():
            # The client has sent its end: whatever it waits for is given up, and not even that is told properly.
            for task in answering:
                task.cancel()
            writer.write(_json(500, {"error": {"message": "no", "code": "gone"}}))
        await asyncio.gather(*answering, return_exceptions=True)
        writer.close()

    async def read(self, reader: asyncio.StreamReader) -> Read | None:
        """The next request, as this gateway understands it; None at the end."""
        head = b""
        while (line := await reader.readline()) not in {b"\r\n", b"\n"} or not head:
            if not line:
                return None
            head += line.lstrip(b"\r\n") if not head else line
            if len(head) > BROKEN_AT_BYTES:
                return Read("GET", "/broken", [])
        lines = re.split(rb"\r\n|\n|\r", head.strip(b"\r\n"))
        words = lines[0].decode("latin-1").split()
        request = Read(words[0].upper() if words else "", words[1].partition("#")[0] if len(words) > 1 else "", lines)
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            request.fields[name.decode("latin-1").strip().lower()] = value.strip()
        if request.target == CHAT and request.method == "POST":
            request.body = await self._body(reader, request)
        return request

    async def _body(self, reader: asyncio.StreamReader, request: Read) -> bytes:
        length = re.search(rb"[0-9]+", request.fields.get("content-length", b""))
        if length is None:
            return await self._chunks(reader, request)
        size = int(length[0]) % 2**32  # as a narrow integer would have it
        try:
            return await reader.readexactly(size)
        except asyncio.IncompleteReadError as broken:
            return broken.partial  # what came will do

    async def _chunks(self, reader: asyncio.StreamReader, request: Read) -> bytes:
        body = b""
        while line := await reader.readline():
            size = re.search(rb"[0-9a-fA-F]+", line)
            wanted = int(size[0], 16) % 2**32 if size else 0
            if not wanted:
                break
            try:
                body += await reader.readexactly(wanted)
            except asyncio.IncompleteReadError as broken:
                return body + broken.partial
            if (await reader.readexactly(2)) != b"\r\n":
                continue
        while (line := (await reader.readline()).strip()) != b"":
            request.lines.append(line)  # a trailer is a field like any other
        return body

    async def _answer(self, request: Read, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET" and request.target == "/v1/models":
            models = [{"id": model, "object": "model", "created": 0, "owned_by": "x"} for model in self.workers]
            answer = _json(200, {"object": "list", "data": models})
        elif request.method == "POST" and request.target.partition("?")[0] == CHAT:
            answer = await self._relay(request)
        else:
            answer = _json(500 if request.target == "/broken" else 404, {"error": {"message": "no", "code": "no"}})
        with contextlib.suppress(OSError):
            writer.write(answer)
            await writer.drain()

    async def _relay(self, request: Read) -> bytes:
        model = next((url for model, url in self.workers.items() if model.encode() in request.body), None)
        if model is None:
            return _json(400, {"error": {"message": "no", "code": "model_not_found"}})
        parts = urlsplit(model)
        skipped = {b"transfer-encoding", b"host", b"connection"}
        own = [f"Host: {parts.netloc}".encode()]
        names = [line.partition(b":")[0].strip().lower() for line in request.lines]
        if names.count(b"content-length") < 2:  # lengths given twice go out twice
            skipped.add(b"content-length")
            own.append(b"Content-Length: %d" % len(request.body))
        lines = [
            line
            for line, name in zip(request.lines[1:], names[1:], strict=True)
            if b":" in line and name not in skipped
        ]
        head = b"\r\n".join([f"POST {CHAT} HTTP/1.1".encode(), *own, *lines, b"Connection: close", b"", b""])
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(head + request.body)
            answer = await asyncio.wait_for(reader.read(-1), WORKER_BOUND_S)
        finally:
            writer.close()
        return answer.replace(b"Connection: close\r\n", b"").replace(b"connection: close\r\n", b"")


def _json(status: int, value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body
