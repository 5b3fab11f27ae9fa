"""The vLLM dialect. Source: vLLM 0.33 (docs/fake-workers.md says what is faithful and what is not)."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import calls, metrics, rules, vllm_rules
from fake_workers.dialects import vllm_shapes as shapes
from fake_workers.dialects.base import Answered, Delayed, Dialect, Generation, Kind, Refusal, dumps, vector_form
from fake_workers.dialects.vllm_stream import ChatStream, completion_events
from fake_workers.engine import tokens
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.engine.outcome import Call, Event, Outcome
    from fake_workers.net.exchange import Request
    from fake_workers.spec import WorkerSpec


_MOST_PROBLEMS = 10


class VLLM(Dialect):
    """vLLM's OpenAI server."""

    name = "vllm"
    early_head = True

    def __init__(self, spec: WorkerSpec) -> None:
        """Set up the routes this configuration has."""
        super().__init__(spec)
        self.version = spec.version or shapes.VERSION
        self.fingerprint = shapes.fingerprint(spec.model, self.version)
        self.route("GET", "/health", self.health)
        self.route("GET,POST", "/ping", self.health)
        self.route("GET", "/version", lambda _: Response(200, dumps({"version": self.version})))
        self.route("GET", "/v1/models", self.models)
        self.route("POST", "/tokenize", self.tokenize)
        self.route("POST", "/detokenize", self.detokenize)
        self.route("GET", "/load", lambda _: Response(200, dumps({"server_load": 0})))
        if spec.metrics is not False:
            self.route("GET", "/metrics", lambda _: metrics.vllm(self.engine, spec.model))
        if spec.dev_mode:
            self.route("GET", "/server_info", self.server_info)
            self.route("POST", "/reset_prefix_cache", self.reset_prefix_cache)
        if "generate" in spec.tasks:
            self.route("POST", "/v1/chat/completions", lambda request: self.generate("chat", request))
            self.route("POST", "/v1/completions", lambda request: self.generate("completion", request))
        if "embed" in spec.tasks:
            self.route("POST", "/v1/embeddings", self.embeddings)

    # information -----------------------------------------------------------------------------------------------------

    def health(self, request: Request) -> Answered:
        """Answer 200 with nothing."""
        del request
        response = Response(200, b"", None)
        return Delayed(response, self.spec.health_delay_s) if self.spec.health_delay_s else response

    def names(self) -> list[str]:
        """Return the served names, the first being the one reported."""
        return [self.spec.model, *self.spec.aliases]

    def models(self, request: Request) -> Response:
        """List a card per served name."""
        del request
        now = int(time.time())
        cards = [shapes.model_card(name, self.spec.path, self.spec.max_model_len, now) for name in self.names()]
        return Response(200, dumps({"object": "list", "data": cards}))

    def server_info(self, request: Request) -> Response:
        """Describe the configuration; exists in development mode only, and has nothing a gateway can use."""
        del request
        return Response(200, dumps({"vllm_config": f"model='{self.spec.path}'", "vllm_env": {}, "system_env": {}}))

    def reset_prefix_cache(self, request: Request) -> Response:
        """Empty the prefix cache (development mode)."""
        del request
        self.engine.cache.clear()
        return Response(200, b"", None)

    def tokenize(self, request: Request) -> Response:
        """Count and list tokens of a prompt or of messages."""
        body = calls.load(request.body)
        text = body["prompt"] if isinstance(body.get("prompt"), str) else calls.render_chat(body)
        ids = tokens.encode(text)
        shape = {"count": len(ids), "max_model_len": self.spec.max_model_len, "tokens": ids, "token_strs": None}
        return Response(200, dumps(shape))

    def detokenize(self, request: Request) -> Response:
        """Turn token ids into text."""
        ids = calls.load(request.body).get("tokens")
        if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
            raise Refusal(
                self.error(
                    400, "1 validation error(s): tokens must be a list of integers", "Bad Request", "body.tokens"
                )
            )
        return Response(200, dumps({"prompt": tokens.decode(ids)}))

    # errors ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def error(status: int, message: str, kind: str, param: str | None = None) -> Response:
        """Return vLLM's nested error object."""
        return Response(status, dumps({"error": {"message": message, "type": kind, "param": param, "code": status}}))

    def body_of(self, request: Request) -> dict[str, Any]:
        """Return the JSON object of a request; raises :class:`Refusal` for another type, syntax or value."""
        if not rules.is_json_type(request.header(b"content-type")):
            message = "1 validation error(s):\n  body: Unsupported Media Type: Only 'application/json' is allowed"
            raise Refusal(self.error(400, message, "Bad Request", "body"))
        body, problem = rules.parse_object(request.body)
        if body is None:
            raise Refusal(self.error(400, f"1 validation error(s):\n  body: {problem}", "Bad Request", "body"))
        return body

    def judge(self, kind: Kind, request: Request) -> dict[str, Any]:
        """Return the body if vLLM would take it; raises :class:`Refusal`."""
        body = self.body_of(request)
        wrong = vllm_rules.schema_problems(kind, body)
        if wrong:
            lines = "".join(f"\n  body.{field}: {message}" for field, message in wrong[:_MOST_PROBLEMS])
            message = f"{len(wrong)} validation error(s):{lines}"
            raise Refusal(self.error(400, message, "Bad Request", f"body.{wrong[0][0]}"))
        problem = rules.first(vllm_rules.semantic_problems(kind, body, self.spec))
        if problem is not None:
            raise Refusal(self.error(400, problem[1], "BadRequestError", problem[0]))
        self.check_model(body)
        return body

    def check_model(self, body: dict[str, Any]) -> None:
        """Refuse a model nobody serves; an absent or empty one is the default."""
        model = body.get("model")
        if model and model not in self.names():
            message = f"The model `{model}` does not exist. Served: {', '.join(self.names())}"
            raise Refusal(self.error(404, message, "NotFoundError", "model"))

    def fit(self, call: Call) -> None:
        """Refuse a prompt over the context length; clamp max_tokens to the room that is left."""
        most = self.spec.max_model_len
        for count in call.prompt_tokens:
            if count >= most:
                message = (
                    f"This model's maximum context length is {most} tokens, but the prompt has {count} tokens. "
                    f"(parameter=input_tokens, value={count})"
                )
                raise Refusal(self.error(400, message, "BadRequestError", "input_tokens"))
        if call.max_tokens is not None and call.max_tokens > most:
            message = f"max_tokens={call.max_tokens} is greater than the maximum context length {most}"
            raise Refusal(self.error(400, message, "BadRequestError", "max_tokens"))
        room = most - max(call.prompt_tokens, default=0)
        call.max_tokens = room if call.max_tokens is None else min(call.max_tokens, room)

    def queue_full(self, work: Generation) -> Response:
        """Refuse with a JSON 503, streaming or not: admission comes before the stream."""
        del work
        return self.error(503, "The request queue is full.", "Service Unavailable")

    # wording ---------------------------------------------------------------------------------------------------------

    def _id(self, prefix: str, call: Call) -> str:
        own = call.body.get("request_id")
        return f"{prefix}-{call.request_id or (own if isinstance(own, str) else None) or uuid.uuid4().hex}"

    def _model(self, outcome: Outcome) -> str:
        return outcome.model or self.spec.model

    def chat_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a chat completion: every key present, null by default."""
        shape = {
            "id": self._id("chatcmpl", call),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._model(outcome),
            "choices": [shapes.chat_choice(call, choice) for choice in outcome.choices],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
            "usage": shapes.usage(outcome, with_nulls=True, reasoning_parser=self.spec.reasoning),
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
        return Response(200, dumps(shape))

    def completion_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a completion."""
        shape = {
            "id": self._id("cmpl", call),
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._model(outcome),
            "choices": [
                shapes.completion_choice(call, choice, call.prompts[choice.index // call.n] if call.echo else "")
                for choice in outcome.choices
            ],
            "service_tier": None,
            "system_fingerprint": self.fingerprint,
            "usage": shapes.usage(outcome, with_nulls=True, reasoning_parser=False),
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
        return Response(200, dumps(shape))

    def chat_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a chat completion as a stream."""
        stream = ChatStream(
            call,
            outcome,
            chat_id=self._id("chatcmpl", call),
            model=self._model(outcome),
            system_fingerprint=self.fingerprint,
            thinks=self.spec.reasoning,
        )
        return stream.events()

    def completion_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a completion as a stream."""
        return completion_events(
            call,
            outcome,
            completion_id=self._id("cmpl", call),
            model=self._model(outcome),
            system_fingerprint=self.fingerprint,
        )

    def embeddings(self, request: Request) -> Response:
        """Answer an embeddings request."""
        body = self.body_of(request)
        self.check_model(body)
        if body.get("input") in (None, "", []):
            raise Refusal(
                self.error(400, "1 validation error(s):\n  body.input: Field required", "Bad Request", "body.input")
            )
        if body.get("encoding_format", "float") not in ("float", "base64", "bytes"):  # noqa: PLR6201 - a list has no hash
            message = "1 validation error(s):\n  body.encoding_format: Input should be 'float', 'base64' or 'bytes'"
            raise Refusal(self.error(400, message, "Bad Request", "body.encoding_format"))
        if body.get("normalize") is not None:
            raise Refusal(self.error(400, "normalize is not supported", "BadRequestError", "normalize"))
        return self.embed(body)

    def embeddings_whole(self, body: dict[str, Any], vectors: list[list[float]], prompt_tokens: int) -> Response:
        """Word an embeddings answer: id embd-..., created, index before object before embedding."""
        encoding = body.get("encoding_format")
        shape = {
            "id": f"embd-{uuid.uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": self.spec.model,
            "data": [
                {"index": index, "object": "embedding", "embedding": vector_form(vector, encoding)}
                for index, vector in enumerate(vectors)
            ],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "total_tokens": prompt_tokens,
                "completion_tokens": 0,
                "prompt_tokens_details": None,
            },
        }
        return Response(200, dumps(shape))
