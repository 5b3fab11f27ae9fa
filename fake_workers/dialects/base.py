"""What all dialects share: routes, refusals, from a request to events, from a scripted reply to an outcome."""

from __future__ import annotations

import base64
import json
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs

from fake_workers.dialects import calls
from fake_workers.engine import model as fake_model
from fake_workers.engine.outcome import Call, Choice, Event, Outcome
from fake_workers.engine.run import Engine
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_workers.net.exchange import Request
    from fake_workers.script import Reply
    from fake_workers.spec import WorkerSpec


_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def dumps(value: Any) -> bytes:
    """Return compact JSON, as engines send it."""
    return _ENCODE(value).encode("utf-8", "surrogatepass")


def data_event(value: Any) -> bytes:
    """Return one SSE data event."""
    return b"data: " + dumps(value) + b"\n\n"


_MOST_DIMENSIONS = 16384
DONE = b"data: [DONE]\n\n"


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error of this program
    """The engine refuses a request; carries the answer."""

    def __init__(self, response: Response) -> None:
        """Keep the answer."""
        super().__init__(response.status)
        self.response = response


@dataclass(slots=True)
class Generation:
    """A judged request the engine now works on; the worker runs it through the latency model and answers."""

    call: Call
    outcome: Outcome
    whole: Callable[[Call, Outcome], Response]
    events: Callable[[Call, Outcome], Iterator[Event]]
    early_head: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Delayed:
    """An answer that takes its time (a slow health check, for instance)."""

    response: Response
    delay_s: float


Answered = Response | Generation | Delayed
Kind = Literal["chat", "completion"]


class Dialect:
    """An engine's HTTP surface. Subclasses fill :attr:`routes` and word the answers."""

    name = ""
    server_name: str | None = "uvicorn"
    early_head = False

    def __init__(self, spec: WorkerSpec) -> None:
        """Belong to one worker."""
        self.spec = spec
        self.started = int(time.time())
        self.loading_until = 0.0
        self.engine = Engine(spec)  # the worker puts its own here
        self.routes: dict[tuple[str, str], Callable[[Request], Answered]] = {}
        self.paths: dict[str, str] = {}  # path -> allowed methods, for 405
        self.reply_to: dict[str, Callable[[Request, Reply], Generation | Response]] = {
            "/v1/chat/completions": lambda request, reply: self._reply(request, reply, "chat"),
            "/v1/completions": lambda request, reply: self._reply(request, reply, "completion"),
            "/v1/embeddings": self._reply_embeddings,
        }

    @property
    def loading(self) -> bool:
        """Whether the engine is still starting up."""
        return time.monotonic() < self.loading_until

    def route(self, method: str, path: str, handler: Callable[[Request], Answered]) -> None:
        """Serve a path; ``method`` may name several, comma separated."""
        for one in method.split(","):
            self.routes[one, path] = handler
        known = self.paths.get(path)
        self.paths[path] = f"{known}, {method}" if known else method.replace(",", ", ")

    def answer(self, request: Request) -> Answered:
        """Answer in engine mode."""
        path = request.path
        handler = self.routes.get((request.method, path))
        if handler is None:
            return self.no_route(request, path)
        refused = self.authorize(request)
        if refused is not None:
            return refused
        try:
            return handler(request)
        except Refusal as refusal:
            return refusal.response

    def answer_scripted(self, request: Request, reply: Reply) -> Answered:
        """Word a scripted reply; a path that generates nothing is answered in engine mode."""
        handler = self.reply_to.get(request.path)
        if handler is None or request.method != "POST":
            return self.answer(request)
        return handler(request, reply)

    def no_route(self, request: Request, path: str) -> Response:
        """Answer a path or method nobody serves, as FastAPI does."""
        allowed = self.paths.get(path)
        if allowed is None:
            return Response(404, b'{"detail":"Not Found"}')
        del request
        return Response(405, b'{"detail":"Method Not Allowed"}', headers=[("allow", allowed)])

    def authorize(self, request: Request) -> Response | None:
        """Refuse a request without the engine's key, if it has one."""
        if not self.spec.api_key or not self.is_protected(request.path):
            return None
        if request.header(b"authorization") == f"Bearer {self.spec.api_key}":
            return None
        return Response(401, b'{"error":"Unauthorized"}')

    def is_protected(self, path: str) -> bool:
        """Say whether a path asks for the engine's key."""
        return path.startswith(("/v1", "/v2", "/inference"))

    # requests that generate ------------------------------------------------------------------------------------------

    def judge(self, kind: Kind, request: Request) -> dict[str, Any]:
        """Return the body of an acceptable request; raises :class:`Refusal`."""
        raise NotImplementedError

    def thinks(self, body: dict[str, Any]) -> bool:
        """Say whether the answer to this chat starts with reasoning."""
        if not self.spec.reasoning:
            return False
        kwargs = body.get("chat_template_kwargs")
        kwargs = kwargs if isinstance(kwargs, dict) else {}
        switched_off = kwargs.get("enable_thinking") is False or kwargs.get("thinking") is False
        return not (switched_off or body.get("reasoning_effort") == "none")

    def read(self, kind: Kind, request: Request, body: dict[str, Any]) -> Call:
        """Read a body into a call."""
        call = calls.read_call(
            kind,
            body,
            default_model=self.spec.model,
            request_id=request.header(b"x-request-id"),
            thinks=self.thinks,
        )
        if self.spec.force_include_usage:
            call.include_usage = True
        return call

    def generate(self, kind: Kind, request: Request) -> Generation:
        """Judge a request and work out its answer in engine mode."""
        body = self.judge(kind, request)
        call = self.read(kind, request, body)
        self.fit(call)
        return self.generation(call, fake_model.generate(call, self.spec.seed))

    def fit(self, call: Call) -> None:
        """Apply the context length; raises :class:`Refusal`."""

    def generation(self, call: Call, outcome: Outcome) -> Generation:
        """Pair a call and its outcome with this dialect's wording."""
        chat = call.kind == "chat"
        return Generation(
            call,
            outcome,
            whole=self.chat_whole if chat else self.completion_whole,
            events=self.chat_events if chat else self.completion_events,
            early_head=self.early_head,
        )

    def chat_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a chat completion."""
        raise NotImplementedError

    def completion_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a completion."""
        raise NotImplementedError

    def chat_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a chat completion as a stream."""
        raise NotImplementedError

    def completion_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a completion as a stream."""
        raise NotImplementedError

    def begun(self, call: Call) -> None:
        """Learn that a request is being answered."""

    def ended(self, call: Call) -> None:
        """Learn that a request is over, however it ended."""

    def queue_full(self, work: Generation) -> Response | bytes:
        """Refuse a request the queue has no room for: an answer, or the chunked body of an event stream."""
        raise NotImplementedError

    def embeddings_whole(self, body: dict[str, Any], vectors: list[list[float]], prompt_tokens: int) -> Response:
        """Word an embeddings answer."""
        raise NotImplementedError

    # scripted replies ------------------------------------------------------------------------------------------------

    def _reply(self, request: Request, reply: Reply, kind: Kind) -> Generation:
        call = self.read(kind, request, calls.load(request.body))
        if reply.model is not None:
            call.model = reply.model
        return self.generation(call, outcome_of(reply, call))

    def _reply_embeddings(self, request: Request, reply: Reply) -> Response:
        body = calls.load(request.body)
        inputs, _ = calls.read_prompts(body.get("input"))
        vector = reply.embedding
        vectors = [
            vector if vector is not None else fake_model.embedding_of(text, self.spec.dimensions, self.spec.seed)
            for text in inputs
        ]
        if reply.model is not None:
            body = {**body, "model": reply.model}
        return self.embeddings_whole(body, vectors, reply.prompt_tokens)

    def embed(self, body: dict[str, Any]) -> Response:
        """Answer an acceptable embeddings request in engine mode."""
        inputs, counts = calls.read_prompts(body.get("input"))
        size = min(max(calls.whole_number(body.get("dimensions")) or self.spec.dimensions, 1), _MOST_DIMENSIONS)
        vectors = [fake_model.embedding_of(text, size, self.spec.seed) for text in inputs]
        return self.embeddings_whole(body, vectors, sum(counts))


def outcome_of(reply: Reply, call: Call) -> Outcome:
    """Turn a scripted reply into an outcome: every choice of every prompt says the same."""
    count = max(len(call.prompts), 1) * call.n
    choices = [
        Choice(
            index=index,
            pieces=list(reply.pieces) if not reply.tool_calls or "pieces" in reply.model_fields_set else [],
            reasoning=list(reply.reasoning),
            tool_calls=list(reply.tool_calls),
            finish_reason=reply.finish_reason,
        )
        for index in range(count)
    ]
    if reply.tool_calls and "finish_reason" not in reply.model_fields_set:
        for choice in choices:
            choice.finish_reason = "tool_calls"
    counted = sum(choice.tokens for choice in choices)
    return Outcome(
        choices=choices,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=counted if reply.completion_tokens is None else reply.completion_tokens,
        cached_tokens=reply.cached_tokens,
        reasoning_tokens=reply.reasoning_tokens if reply.reasoning_tokens is not None else len(reply.reasoning) * count,
        holds=dict(reply.hold_before),
        hold_max_s=reply.hold_max_s,
        pauses=dict(reply.pause_before),
        every_s=reply.every_s,
        model=reply.model,
    )


def query(request: Request) -> dict[str, list[str]]:
    """Return the parsed query string."""
    return parse_qs(request.target.partition("?")[2], keep_blank_values=True)


def vector_form(vector: list[float], encoding: Any) -> list[float] | str:
    """Return a vector as floats, or as base64 of little-endian float32."""
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    return vector


def steps_of(choice: Choice) -> int:
    """Return how many generation steps a choice takes."""
    return max(choice.tokens, 1)
