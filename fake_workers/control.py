"""The client of a control port: what tests use to script workers and read their journal from another process.

A small HTTP/1.1 client on asyncio streams with kept connections; every call has a bound. An instance may be used
from several event loops one after the other (connections of a loop that has ended are dropped), and by several
tasks at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote, urlencode, urlsplit

from fake_workers.errors import ControlGone, ControlRefused, ControlTimeout
from fake_workers.journal import Entry
from fake_workers.script import Script

if TYPE_CHECKING:
    from types import TracebackType

    from fake_workers.script import Reply, Wire

_CALL_BOUND_S = 10.0
_TIMED_OUT = 408
_OK = 200
_READ_LIMIT = 1 << 20

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Stale(Exception):  # noqa: N818 - internal: a kept connection had been closed meanwhile
    pass


class Control:
    """Client of one control port."""

    def __init__(self, url: str) -> None:
        """Take the URL of the ready line; nothing is connected before the first call."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError(f"{url!r} is no control URL; it looks like http://127.0.0.1:PORT")
        self.url = url
        self._host, self._port = parts.hostname, parts.port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[_Connection] = []

    # calls -----------------------------------------------------------------------------------------------------------

    async def describe(self) -> dict[str, Any]:
        """Return the ready line: control URL and workers."""
        described: dict[str, Any] = await self._call("GET", "/")
        return described

    async def put_script(self, marker: str, script: Script) -> None:
        """Register the script of a marker."""
        await self._call("PUT", f"/scripts/{quote(marker, safe='')}", script.to_json())

    async def put_template(self, kind: str, script: Script) -> None:
        """Register the one answer of all markers that start with ``kind`` (four hex digits; ``new_marker(kind)``)."""
        await self._call("PUT", f"/templates/{quote(kind, safe='')}", script.to_json())

    async def forget(self, marker: str) -> None:
        """Drop script, holds and entries of a marker."""
        await self._call("DELETE", f"/markers/{quote(marker, safe='')}")

    async def entries(self, marker: str, at_least: int = 0, within_s: float = 5.0) -> list[Entry]:
        """Return the entries of a marker, once there are ``at_least`` so many, or what there is when time is up."""
        query = urlencode({"marker": marker, "at_least": at_least, "within_s": within_s})
        found = await self._call("GET", f"/entries?{query}", wait_s=within_s)
        return [Entry.from_dict(one) for one in found]

    async def all_entries(self, since_seq: int = 0) -> list[Entry]:
        """Return all entries with a number above ``since_seq``, the gateway's own probes included."""
        found = await self._call("GET", f"/entries?{urlencode({'since_seq': since_seq})}")
        return [Entry.from_dict(one) for one in found]

    async def until_peer_closed(self, marker: str, within_s: float = 5.0) -> Entry:
        """Return the first entry whose peer left before the answer was complete; raises :class:`ControlTimeout`."""
        return await self._until(marker, "peer_closed", within_s)

    async def until_completed(self, marker: str, within_s: float = 5.0) -> Entry:
        """Return the first entry whose answer was complete; raises :class:`ControlTimeout`."""
        return await self._until(marker, "completed", within_s)

    async def _until(self, marker: str, until: str, within_s: float) -> Entry:
        query = urlencode({"marker": marker, "until": until, "within_s": within_s})
        return Entry.from_dict(await self._call("GET", f"/entries?{query}", wait_s=within_s))

    async def release(self, marker: str, hold: str) -> None:
        """Let everyone pass a hold, now and later."""
        await self._call("PUT", f"/holds/{quote(marker, safe='')}/{quote(hold, safe='')}")

    async def reached(self, marker: str, hold: str, within_s: float = 5.0) -> bool:
        """Wait until a worker has come to a hold; False when time is up."""
        path = f"/holds/{quote(marker, safe='')}/{quote(hold, safe='')}?{urlencode({'within_s': within_s})}"
        return bool((await self._call("GET", path, wait_s=within_s))["reached"])

    async def set_worker(
        self, name: str, listening: bool | None = None, health: int | Literal["hang"] | None = None
    ) -> None:
        """Refuse or accept connections (None leaves it), fail health checks (None: answer as the engine does)."""
        body = json.dumps({"listening": listening, "health": health}).encode()
        await self._call("PUT", f"/workers/{quote(name, safe='')}", body)

    async def set_load(
        self, name: str, *, running: float | None = None, waiting: float | None = None, usage: float | None = None
    ) -> None:
        """Let a worker report this load (requests running and waiting, KV use 0-1); nothing given: its real one."""
        given = {"running": running, "waiting": waiting, "usage": usage}
        load = {key: value for key, value in given.items() if value is not None}
        await self._call("PUT", f"/workers/{quote(name, safe='')}/load", json.dumps(load or None).encode())

    async def set_path(self, name: str, path: str, answer: Reply | Wire | None) -> None:
        """Answer unscripted requests to a path (probes, for instance) in this way; None: as the engine does."""
        body = b"null" if answer is None else Script.of(answer).to_json()
        await self._call("PUT", f"/workers/{quote(name, safe='')}/paths?{urlencode({'path': path})}", body)

    # transport -------------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close kept connections."""
        idle, self._idle = self._idle, []
        for _, writer in idle:
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()
                await writer.wait_closed()

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close kept connections."""
        await self.aclose()

    async def _call(self, method: str, path: str, body: bytes = b"", *, wait_s: float = 0.0) -> Any:
        request = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body
        bound = _CALL_BOUND_S + wait_s
        try:
            async with asyncio.timeout(bound):
                status, answer = await self._exchange(request)
        except TimeoutError:
            raise ControlTimeout(f"the control port {self.url} did not answer {method} {path} in {bound:g} s") from None
        except (OSError, asyncio.IncompleteReadError, _Stale) as error:
            raise ControlGone(
                f"nobody answers on the control port {self.url} ({error or type(error).__name__}): "
                "is the fleet of fake workers still running?"
            ) from None
        value = json.loads(answer)
        if status == _OK:
            return value
        if status == _TIMED_OUT:
            raise ControlTimeout(str(value["error"]))
        raise ControlRefused(status, f"{method} {path}: {value['error']}")

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._idle = []  # they belong to a loop that has ended
            self._loop = loop
        if self._idle:
            try:
                return await self._on(self._idle.pop(), request)
            except _Stale:
                pass
        return await self._on(await asyncio.open_connection(self._host, self._port, limit=_READ_LIMIT), request)

    async def _on(self, connection: _Connection, request: bytes) -> tuple[int, bytes]:
        reader, writer = connection
        try:
            writer.write(request)
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (ConnectionError, asyncio.IncompleteReadError):
                raise _Stale("the connection was closed") from None
            status = int(head[9:12])
            at = head.lower().index(b"content-length:") + 15
            length = int(head[at : head.index(b"\r\n", at)])
            answer = await reader.readexactly(length)
        except BaseException:
            writer.close()
            raise
        self._idle.append(connection)
        return status, answer
