"""The front of the reference server without sockets: stub workers behind it, an ASGI client before it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reference_server.app import create_app
from reference_server.errors import GatewayError
from reference_server.settings import Settings
from reference_server.stages.admit import OpenDoor
from reference_server.state import ServerState
from reference_server.workers.exchange import ModelCard, Readiness

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from quart import Quart

    from reference_server.workers.exchange import UpstreamRequest

WORKER_URL = "http://worker.example:8000"
CHAT = "/v1/chat/completions"
JSON_TYPE = (("content-type", "application/json"),)
WAIT_S = 5.0
NO_WORKER = ("model_not_found", "no_available_workers", "worker_overload_protection_shed")
HI = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


class StubResponse:
    """A worker's response: pieces, and what happens after the last one (an exception, or a wait that never ends)."""

    def __init__(
        self,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),),
        pieces: Sequence[bytes] = (b"{}",),
        *,
        then: BaseException | None = None,
        hang: bool = False,
    ) -> None:
        self.status = status
        self.headers = list(headers)
        self.worker_url = WORKER_URL
        self.closed = 0
        self._pieces = pieces
        self._then = then
        self._hang = hang

    @property
    def is_event_stream(self) -> bool:
        """Whether the content type says so."""
        return dict(self.headers).get("content-type", "").startswith("text/event-stream")

    async def body(self) -> AsyncGenerator[bytes]:
        """The pieces, then the end that was asked for."""
        for piece in self._pieces:
            yield piece
        if self._hang:
            await asyncio.Event().wait()
        if self._then is not None:
            raise self._then

    async def read(self, limit_bytes: int) -> bytes:
        """The whole body; the limit is the business of the real one."""
        del limit_bytes
        return b"".join([piece async for piece in self.body()])

    async def aclose(self) -> None:
        """Count how often it was closed."""
        self.closed += 1


@dataclass
class StubWorkers:
    """Workers that answer what a test says and remember what they were sent."""

    answer: StubResponse | BaseException = field(default_factory=StubResponse)
    cards: list[ModelCard] = field(default_factory=lambda: [ModelCard("m")])
    healthy: int = 1
    hang: bool = False
    seen: list[UpstreamRequest] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def models(self) -> list[ModelCard]:
        """The cards."""
        return self.cards

    def readiness(self) -> Readiness:
        """One worker, healthy or not."""
        return Readiness(self.healthy, 1)

    def require(self, model: str) -> None:
        """A worker that serves the model, unless the answer is to be that there is none."""
        del model
        if isinstance(self.answer, GatewayError) and self.answer.code in NO_WORKER:
            raise self.answer

    async def dispatch(self, request: UpstreamRequest) -> Any:
        """Remember the request; answer, raise or never come back."""
        self.seen.append(request)
        self.asked.set()
        if self.hang:
            await asyncio.Event().wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    @property
    def only(self) -> UpstreamRequest:
        """The one request that came."""
        (request,) = self.seen
        return request


@dataclass
class Reply:
    """What the client got. `ended`: the response was finished properly."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    ended: bool = False

    def header(self, name: str) -> str | None:
        """The only value of a header; `None` without one."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The `error` object of the body."""
        error: dict[str, Any] = self.json["error"]
        return error


class Front:
    """One front with its stub workers. `leave` makes the client of the request under way go away."""

    def __init__(self, settings: Settings | None = None, workers: StubWorkers | None = None) -> None:
        self.workers = workers or StubWorkers()
        self.door = OpenDoor()
        self.state = ServerState(settings or Settings(), self.workers, self.door)
        self.app: Quart = create_app(self.state)
        self.leave = asyncio.Event()
        self.first_chunk = asyncio.Event()

    async def chat(self, headers: Sequence[tuple[str, str]] = (), **fields: Any) -> Reply:
        """A chat request with these fields besides model and messages."""
        return await self.post(CHAT, {**HI, **fields}, headers)

    async def post(self, path: str, body: Any, headers: Sequence[tuple[str, str]] = ()) -> Reply:
        """A POST; anything but bytes is written as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", path, (*JSON_TYPE, *headers), raw)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes | Sequence[bytes] | None = b"",
    ) -> Reply:
        """One request through the ASGI interface; a body in pieces has no announced length, and `None` never comes."""
        pieces = [body] if isinstance(body, bytes) else list(body or ())
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        if isinstance(body, bytes) and body:
            sent.append((b"content-length", str(len(body)).encode()))
        arriving = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        if body is not None:
            arriving.append({"type": "http.request", "body": b"", "more_body": False})
        reply = Reply()

        async def receive() -> Any:
            if arriving:
                return arriving.pop(0)
            await self.leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in message["headers"]]
                return
            reply.body += message["body"]
            self.first_chunk.set()
            reply.ended = not message["more_body"]

        bare, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": bare, "raw_path": bare.encode("latin-1"), "query_string": query.encode(), "root_path": "",
            "headers": sent, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {}, "extensions": {},
        }  # fmt: skip
        await asyncio.wait_for(self.app(scope, receive, send), WAIT_S)  # type: ignore[arg-type]  # plain callables
        return reply
