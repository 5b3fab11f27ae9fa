"""A front whose workers wait where a test says, and clients that can leave at any moment."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest

from reference_server.admission.configuration import (
    BUILT_IN_CLASSES,
    AdmissionSettings,
    ClassSettings,
    SchedulerSettings,
)
from reference_server.admission.priority import PriorityClass
from reference_server.app import create_app
from reference_server.settings import Settings
from reference_server.state import ServerState
from reference_server.workers.exchange import ModelCard, Readiness, UpstreamBodyError
from tests.reference_server.front import CHAT, WORKER_URL, Reply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from reference_server.workers.exchange import UpstreamRequest

WAIT_S = 30.0  # a bound, not an expectation: the first request of a process compiles schemas
SSE = (("content-type", "text/event-stream"),)
EVENT = b"data: 1\n\n"


@dataclass
class Plan:
    """What a worker does with one request.

    Attributes:
        answers: set when the response head may come.
        pieces: the body; before piece n the worker waits for `holds[n]`, if it is there.
        breaks: the body breaks off behind the pieces.
    """

    pieces: Sequence[bytes] = (EVENT,)
    stream: bool = True
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    holds: dict[int, asyncio.Event] = field(default_factory=dict)
    breaks: bool = False


class PlannedResponse:
    """A response that follows its plan; `closed` counts."""

    status = 200
    worker_url = WORKER_URL

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.closed = 0
        self.headers = list(SSE) if plan.stream else [("content-type", "application/json")]
        self.is_event_stream = plan.stream

    async def body(self) -> AsyncGenerator[bytes]:
        """The pieces of the plan."""
        for number, piece in enumerate(self._plan.pieces):
            if number in self._plan.holds:
                await self._plan.holds[number].wait()
            yield piece
        if len(self._plan.pieces) in self._plan.holds:
            await self._plan.holds[len(self._plan.pieces)].wait()
        if self._plan.breaks:
            raise UpstreamBodyError("cut", WORKER_URL)

    async def read(self, limit_bytes: int) -> bytes:
        """The whole body."""
        del limit_bytes
        return b"".join([piece async for piece in self.body()])

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1


class PlannedWorkers:
    """Workers that follow a plan for each request, by the name that stands in its messages."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self.began: list[str] = []  # names, in the order in which they reached a worker
        self.cancelled: list[str] = []  # asked a worker and were cancelled before the head
        self.responses: dict[str, PlannedResponse] = {}

    def models(self) -> list[ModelCard]:
        """One model."""
        return [ModelCard("m")]

    def readiness(self) -> Readiness:
        """One worker."""
        return Readiness(1, 1)

    def require(self, model: str) -> None:
        """Every model is served."""

    async def dispatch(self, request: UpstreamRequest) -> Any:
        """Remember the request; answer when the plan says so."""
        name = json.loads(request.body)["messages"][0]["content"]
        plan = self.plans[name]
        self.began.append(name)
        try:
            await plan.answers.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        self.responses[name] = PlannedResponse(plan)
        return self.responses[name]


class Client:
    """One request under way: `task` ends with the reply; `leave` makes the client go away."""

    def __init__(self, app: Any, name: str, headers: Sequence[tuple[str, str]], *, stream: bool) -> None:
        self.name = name
        self.reply = Reply()
        self.left = asyncio.Event()
        self.reading = asyncio.Event()  # cleared: the client does not read
        self.reading.set()
        fields = {"model": "m", "messages": [{"role": "user", "content": name}], "stream": stream}
        self._arriving: list[dict[str, Any]] = [
            {"type": "http.request", "body": json.dumps(fields).encode(), "more_body": False}
        ]
        sent = [(b"content-type", b"application/json")]
        sent += [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": CHAT, "raw_path": CHAT.encode(), "query_string": b"", "root_path": "", "headers": sent,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {}, "extensions": {},
        }  # fmt: skip
        self.task: asyncio.Task[None] = asyncio.ensure_future(app(scope, self._receive, self._send))

    def leave(self) -> None:
        """Go away."""
        self.left.set()

    async def done(self) -> Reply:
        """The reply, when all is over."""
        await asyncio.wait_for(self.task, WAIT_S)
        return self.reply

    async def _receive(self) -> Any:
        if self._arriving:
            return self._arriving.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.reply.status = message["status"]
            self.reply.headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in message["headers"]]
            return
        self.reply.body += message["body"]
        self.reply.ended = not message["more_body"]


class Stage:
    """A front with planned workers and the admission of some settings."""

    def __init__(self, admission: AdmissionSettings) -> None:
        self.workers = PlannedWorkers()
        self.state = ServerState(Settings(admission=admission), self.workers)
        self._app = create_app(self.state)

    def send(self, name: str, level: str | None = None, plan: Plan | None = None, *, stream: bool = True) -> Client:
        """A chat request of this name; without a plan its worker never answers."""
        self.workers.plans[name] = plan or Plan()
        headers = [] if level is None else [("x-smg-priority", level)]
        return Client(self._app, name, headers, stream=stream)

    def metric(self, name: str, **labels: str) -> float:
        """The present value of a metric; 0 while nothing was counted."""
        return self.state.metrics.registry.get_sample_value(name, labels) or 0.0

    def metrics_text(self) -> str:
        """All metrics."""
        return generate_latest(self.state.metrics.registry).decode()


async def rest(turns: int = 40) -> None:
    """Let everything go on that can go on by itself."""
    for _ in range(turns):
        await asyncio.sleep(0)


def scheduler(
    classes: Mapping[PriorityClass, ClassSettings] | None = None,
    *,
    slots: int = 1,
    per_second: int = 0,
    **fields: Any,
) -> AdmissionSettings:
    """A scheduler without reservations, of a few slots, in which every tenant may ask for every class."""
    bare = {
        level: ClassSettings(
            0, each.queue_size, each.queue_timeout_s, each.starvation_threshold_s, can_preempt=each.can_preempt
        )
        for level, each in BUILT_IN_CLASSES.items()
    }
    fields.setdefault("default_max_class", PriorityClass.SYSTEM)
    settings = SchedulerSettings(classes={**bare, **(classes or {})}, **fields)
    return AdmissionSettings(max_concurrent_requests=slots, requests_per_s=per_second, scheduler=settings)
