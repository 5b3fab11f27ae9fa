"""The SGLang dialect. Source: SGLang 0.5.23 (docs/fake-workers.md says what is faithful and what is not)."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import metrics, rules, sglang_native, sglang_rules
from fake_workers.dialects import sglang_shapes as shapes
from fake_workers.dialects.base import (
    DONE,
    Answered,
    Delayed,
    Dialect,
    Generation,
    Kind,
    Refusal,
    dumps,
    query,
    vector_form,
)
from fake_workers.dialects.sglang_stream import ChatStream, completion_events
from fake_workers.engine.run import CAPACITY_IN_CONTEXTS
from fake_workers.net.messages import LAST_CHUNK, Response, chunk_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_workers.engine.outcome import Call, Choice, Event, Outcome
    from fake_workers.net.exchange import Request
    from fake_workers.spec import WorkerSpec


class SGLang(Dialect):
    """SGLang's HTTP server."""

    name = "sglang"

    def __init__(self, spec: WorkerSpec) -> None:
        """Set up the routes this configuration has."""
        super().__init__(spec)
        self.version = spec.version or shapes.VERSION
        self.in_flight: set[str] = set()
        self.capacity = spec.max_model_len * CAPACITY_IN_CONTEXTS
        for path in ("/health", "/health_generate", "/ready", "/ping"):
            self.route("GET", path, self.health)
        self.route("GET,HEAD", "/", lambda _: Response(200, b'"SGLang is running"'))
        self.route("GET", "/v1/models", self.models)
        self.route("GET", f"/v1/models/{spec.model}", lambda _: Response(200, dumps(self.card())))
        for path in ("/model_info", "/get_model_info"):
            self.route("GET", path, self.model_info)
        for path in ("/server_info", "/get_server_info"):
            self.route("GET", path, self.server_info)
        self.route("GET", "/v1/loads", self.loads)
        if spec.metrics:
            self.route("GET", "/metrics", lambda _: metrics.sglang(self.engine, spec.model, self.capacity))
        if "generate" in spec.tasks:
            self.route("POST", "/v1/chat/completions", lambda request: self.generate("chat", request))
            self.route("POST", "/v1/completions", lambda request: self.generate("completion", request))
        if "embed" in spec.tasks:
            self.route("POST", "/v1/embeddings", self.embeddings)
        sglang_native.add_routes(self)

    # information -----------------------------------------------------------------------------------------------------

    def health(self, request: Request) -> Answered:
        """Answer 200 with nothing, after the configured delay; 503 while the warm-up request runs."""
        del request
        if self.loading:
            return Response(503, b"", None)
        response = Response(200, b"", None)
        return Delayed(response, self.spec.health_delay_s) if self.spec.health_delay_s else response

    def no_route(self, request: Request, path: str) -> Response:
        """Answer an unknown model in OpenAI's shape, everything else as FastAPI does."""
        if path.startswith("/v1/models/") and request.method == "GET":
            name = path.removeprefix("/v1/models/")
            error = {
                "message": f"The model '{name}' does not exist",
                "type": "invalid_request_error",
                "param": "model",
                "code": "model_not_found",
            }
            return Response(404, dumps({"error": error}))
        return super().no_route(request, path)

    def is_protected(self, path: str) -> bool:
        """Everything but health and metrics asks for the key."""
        return not path.startswith(("/health", "/ready", "/metrics"))

    def models(self, request: Request) -> Response:
        """List the served model."""
        del request
        return Response(200, dumps({"object": "list", "data": [self.card()]}))

    def card(self) -> dict[str, Any]:
        """Return the entry of the models list: root is the served name, there is no permission."""
        return {
            "id": self.spec.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": self.spec.model,
            "parent": None,
            "max_model_len": self.spec.max_model_len,
        }

    def model_info(self, request: Request) -> Response:
        """Describe the model."""
        del request
        shape = {
            "model_path": self.spec.path,
            "served_model_name": self.spec.model,
            "tokenizer_path": self.spec.path,
            "is_generation": "generate" in self.spec.tasks,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "load_format": "auto",
            "reasoning_parser": "fake" if self.spec.reasoning else None,
            "tool_call_parser": "fake" if self.spec.tool_parser else None,
            "disaggregation_mode": "null",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
        }
        return Response(200, dumps(shape))

    def server_info(self, request: Request) -> Response:
        """Describe the server: arguments, scheduler, states, version."""
        del request
        spec = self.spec
        slots = spec.slots or 256
        shape = {
            "model_path": spec.path,
            "tokenizer_path": spec.path,
            "tokenizer_mode": "auto",
            "load_format": "auto",
            "trust_remote_code": False,
            "context_length": spec.max_model_len,
            "is_embedding": "generate" not in spec.tasks,
            "host": "127.0.0.1",
            "served_model_name": spec.model,
            "weight_version": "default",
            "tp_size": 1,
            "pp_size": 1,
            "dp_size": 1,
            "load_balance_method": "round_robin",
            "max_running_requests": slots,
            "max_total_tokens": None,
            "schedule_policy": "fcfs",
            "reasoning_parser": "fake" if spec.reasoning else None,
            "tool_call_parser": "fake" if spec.tool_parser else None,
            "disaggregation_mode": "null",
            "enable_metrics": bool(spec.metrics),
            "enable_cache_report": spec.cache_report,
            "max_total_num_tokens": self.capacity,
            "max_req_input_len": spec.max_model_len - 1,
            "startup_time": 0.0,
            "internal_states": [{"last_gen_throughput": 0.0, "max_running_requests": slots}],
            "version": self.version,
            "frontend": "python",
        }
        return Response(200, dumps(shape))

    def loads(self, request: Request) -> Response:
        """Report the load of the one data-parallel rank; the sections a query asks for, core always."""
        wanted = {part for text in query(request).get("include", ["core"]) for part in text.split(",")}
        unknown = wanted - shapes.LOAD_SECTIONS
        if unknown:
            message = f"Invalid include: {', '.join(sorted(unknown))}"
            return Response(400, dumps({"detail": message}))
        entry = shapes.load_of_one_rank(
            time.time(),
            running=self.engine.running,
            waiting=self.engine.waiting,
            usage=self.engine.kv_usage,
            total=self.capacity,
            slots=self.spec.slots or 256,
            hit_rate=self.engine.cache_hit_rate,
        )
        entry.update(shapes.load_sections(wanted, self.engine.waiting))
        shape = {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": self.version,
            "accelerator": "fake",
            "num_accelerators": 1,
            "loads": [entry],
        }
        return Response(200, dumps(shape))

    # errors ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def error(status: int, message: str, kind: str = "BadRequestError") -> Response:
        """Return SGLang's flat error object."""
        shape = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        return Response(status, dumps(shape))

    def body_of(self, request: Request) -> dict[str, Any]:
        """Return the JSON object of a request; raises :class:`Refusal` for another type, syntax or value."""
        if not rules.is_json_type(request.header(b"content-type")):
            message = "Unsupported Media Type: Only 'application/json' is allowed"
            raise Refusal(self.error(400, message, sglang_rules.SCHEMA))
        body, problem = rules.parse_object(request.body)
        if body is None:
            message = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': ('body',), 'msg': '{problem}'}}"
            raise Refusal(self.error(400, message, sglang_rules.SCHEMA))
        return body

    def judge(self, kind: Kind, request: Request) -> dict[str, Any]:
        """Return the body if SGLang would take it; raises :class:`Refusal`. Any model name is served."""
        body = self.body_of(request)
        rank = request.header(b"x-data-parallel-rank")
        if rank is not None and not rank.strip().lstrip("-").isdecimal():
            raise Refusal(self.error(400, f"Invalid X-Data-Parallel-Rank: {rank!r} is no integer", "BadRequest"))
        problem = rules.first(sglang_rules.problems(kind, body))
        if problem is not None:
            raise Refusal(self.error(400, problem[1], problem[0]))
        model = body.get("model")
        if isinstance(model, str) and ":" in model and model != self.spec.model:
            adapter = model.partition(":")[2]
            raise Refusal(
                self.error(400, f"LoRA is not enabled, so the adapter {adapter!r} cannot be used", "BadRequest")
            )
        rid = body.get("rid")
        if isinstance(rid, str) and rid in self.in_flight:
            raise Refusal(self.error(400, f"Duplicate request ID detected: {rid}"))
        return body

    def fit(self, call: Call) -> None:
        """Refuse what does not fit the context: the prompt alone, or with max_tokens."""
        most = self.spec.max_model_len
        for count in call.prompt_tokens:
            if count >= most:
                message = f"The input ({count} tokens) is longer than the model's context length ({most} tokens)."
                raise Refusal(self.error(400, message))
            if call.max_tokens is not None and count + call.max_tokens > most:
                message = (
                    f"Requested token count exceeds the model's maximum context length of {most} tokens. "
                    f"You requested {count + call.max_tokens}: {count} of input and {call.max_tokens} of completion."
                )
                raise Refusal(self.error(400, message))
        if not call.max_tokens:
            call.max_tokens = most - max(call.prompt_tokens, default=0)

    def begun(self, call: Call) -> None:
        """Remember the request id, so that a second one with the same is refused."""
        if isinstance(call.body.get("rid"), str):
            self.in_flight.add(call.body["rid"])

    def ended(self, call: Call) -> None:
        """Forget it again."""
        self.in_flight.discard(str(call.body.get("rid")))

    def queue_full(self, work: Generation) -> Response | bytes:
        """Refuse: a 503 without stream, but a 200 with an error event for a stream."""
        message = "The request queue is full."
        if not work.call.stream:
            shape = {"object": "error", "message": message, "type": "503", "param": None, "code": 503}
            return Response(503, dumps(shape))
        shape = {"object": "error", "message": message, "type": "SERVICE_UNAVAILABLE", "param": None, "code": 503}
        event = f"data: {json.dumps({'error': shape})}\n\n".encode()
        return chunk_bytes(event) + chunk_bytes(DONE) + LAST_CHUNK

    # wording ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _id(call: Call) -> str:
        rid = call.body.get("rid")
        return rid if isinstance(rid, str) and rid else uuid.uuid4().hex

    def chat_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a chat completion; the model is the request's own, whatever it was."""
        return self._whole(
            "chat.completion",
            call,
            outcome,
            lambda choice: {
                "message": shapes.chat_message(choice),
                "logprobs": shapes.chat_logprobs(choice.pieces, call.logprobs),
            },
        )

    def completion_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a completion."""
        return self._whole(
            "text_completion",
            call,
            outcome,
            lambda choice: {
                "text": (call.prompts[choice.index // call.n] if call.echo else "") + choice.text,
                "logprobs": shapes.completion_logprobs(choice.pieces, call.logprobs),
            },
        )

    def _whole(self, kind: str, call: Call, outcome: Outcome, said: Callable[[Choice], dict[str, Any]]) -> Response:
        shape = {
            "id": self._id(call),
            "object": kind,
            "created": int(time.time()),
            "model": call.model,
            "choices": [
                {
                    "index": choice.index,
                    **said(choice),
                    "finish_reason": choice.finish_reason,
                    "matched_stop": shapes.matched_stop(choice, stream=False),
                }
                for choice in outcome.choices
            ],
            "usage": shapes.usage(outcome),
            "metadata": {"weight_version": "default"},
        }
        return Response(200, dumps(shape))

    def chat_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a chat completion as a stream."""
        return ChatStream(call, outcome, chat_id=self._id(call), model=call.model).events()

    def completion_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a completion as a stream."""
        return completion_events(call, outcome, completion_id=self._id(call), model=call.model)

    def embeddings(self, request: Request) -> Response:
        """Answer an embeddings request."""
        body = self.body_of(request)
        if body.get("input") in (None, "", []):
            raise Refusal(self.error(400, "Input cannot be empty", "BadRequest"))
        return self.embed(body)

    def embeddings_whole(self, body: dict[str, Any], vectors: list[list[float]], prompt_tokens: int) -> Response:
        """Word an embeddings answer: embedding before index before object, model = model path."""
        encoding = "float" if body.get("encoding_format", "float") == "float" else "base64"
        shape = {
            "data": [
                {"embedding": vector_form(vector, encoding), "index": index, "object": "embedding"}
                for index, vector in enumerate(vectors)
            ],
            "model": self.spec.path,
            "object": "list",
            "usage": {
                "prompt_tokens": prompt_tokens,
                "total_tokens": prompt_tokens,
                "completion_tokens": 0,
                "prompt_tokens_details": None,
                "reasoning_tokens": 0,
                "completion_tokens_details": None,
            },
        }
        return Response(200, dumps(shape))
