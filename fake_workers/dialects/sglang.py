"""The SGLang dialect. Source: SGLang 0.5.23 (docs/fake-workers.md says what is faithful and what is not)."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import calls
from fake_workers.dialects import sglang_shapes as shapes
from fake_workers.dialects.base import Answered, Delayed, Dialect, Kind, Refusal, dumps, vector_form
from fake_workers.dialects.sglang_stream import ChatStream, completion_events
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.engine.outcome import Call, Event, Outcome
    from fake_workers.net.exchange import Request
    from fake_workers.spec import WorkerSpec


class SGLang(Dialect):
    """SGLang's HTTP server."""

    name = "sglang"

    def __init__(self, spec: WorkerSpec) -> None:
        """Set up the routes this configuration has."""
        super().__init__(spec)
        self.version = spec.version or shapes.VERSION
        self.route("GET", "/health", self.health)
        self.route("GET", "/health_generate", self.health)
        self.route("GET", "/v1/models", self.models)
        for path in ("/model_info", "/get_model_info"):
            self.route("GET", path, self.model_info)
        for path in ("/server_info", "/get_server_info"):
            self.route("GET", path, self.server_info)
        self.route("GET", "/v1/loads", self.loads)
        self.route("POST", "/v1/chat/completions", lambda request: self.generate("chat", request))
        self.route("POST", "/v1/completions", lambda request: self.generate("completion", request))
        self.route("POST", "/v1/embeddings", self.embeddings)

    # information -----------------------------------------------------------------------------------------------------

    def health(self, request: Request) -> Answered:
        """Answer 200 with nothing, after the configured delay."""
        del request
        response = Response(200, b"", None)
        return Delayed(response, self.spec.health_delay_s) if self.spec.health_delay_s else response

    def models(self, request: Request) -> Response:
        """List the served model; root is the served name, there is no permission."""
        del request
        card = {
            "id": self.spec.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": self.spec.model,
            "parent": None,
            "max_model_len": self.spec.max_model_len,
        }
        return Response(200, dumps({"object": "list", "data": [card]}))

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
        total = spec.max_model_len * 16
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
            "max_total_num_tokens": total,
            "max_req_input_len": spec.max_model_len - 1,
            "startup_time": 0.0,
            "internal_states": [{"last_gen_throughput": 0.0, "max_running_requests": slots}],
            "version": self.version,
            "frontend": "python",
        }
        return Response(200, dumps(shape))

    def loads(self, request: Request) -> Response:
        """Report the load of the one data-parallel rank."""
        del request
        load = self.load
        entry = shapes.load_of_one_rank(
            time.time(),
            running=load.running if load else 0,
            waiting=load.waiting if load else 0,
            used=int((load.kv_usage if load else 0.0) * self.spec.max_model_len * 16),
            total=self.spec.max_model_len * 16,
            slots=self.spec.slots or 256,
        )
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

    def judge(self, kind: Kind, request: Request) -> dict[str, Any]:
        """Return the body if SGLang would take it; raises :class:`Refusal`."""
        del kind
        body = calls.load(request.body)
        if not body:
            raise Refusal(self.error(400, "Invalid JSON body", "Bad Request"))
        return body

    # wording ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _id(call: Call) -> str:
        rid = call.body.get("rid")
        return rid if isinstance(rid, str) and rid else uuid.uuid4().hex

    def chat_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a chat completion; the model is the request's own, whatever it was."""
        shape = {
            "id": self._id(call),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": call.model,
            "choices": [
                {
                    "index": choice.index,
                    "message": shapes.chat_message(choice),
                    "logprobs": shapes.chat_logprobs(choice.pieces, call.logprobs),
                    "finish_reason": choice.finish_reason,
                    "matched_stop": shapes.matched_stop(choice, stream=False),
                }
                for choice in outcome.choices
            ],
            "usage": shapes.usage(outcome),
            "metadata": {"weight_version": "default"},
        }
        return Response(200, dumps(shape))

    def completion_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a completion."""
        shape = {
            "id": self._id(call),
            "object": "text_completion",
            "created": int(time.time()),
            "model": call.model,
            "choices": [
                {
                    "index": choice.index,
                    "text": (call.prompts[choice.index // call.n] if call.echo else "") + choice.text,
                    "logprobs": shapes.completion_logprobs(choice.pieces, call.logprobs),
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
        body = self.judge("completion", request)
        if body.get("input") in (None, "", []):
            raise Refusal(self.error(400, "Input cannot be empty"))
        return self.embed(body)

    def embeddings_whole(self, body: dict[str, Any], vectors: list[list[float]], prompt_tokens: int) -> Response:
        """Word an embeddings answer: embedding before index before object, model = model path."""
        encoding = "float" if body.get("encoding_format", "float") == "float" else "base64"
        shape = {
            "data": [
                {"embedding": vector_form(vector, encoding), "index": index, "object": "embedding"}
                for index, vector in enumerate(vectors)
            ],
            "model": body.get("model") if isinstance(body.get("model"), str) and body["model"] else self.spec.path,
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
