"""The TokenSpeed dialect: its inference port is a nested gateway, so this words answers as such a gateway does.

Source: TokenSpeed 0.1.1 has no HTTP server of its own for inference; it starts a bundled gateway before its engine.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import calls
from fake_workers.dialects.base import (
    DONE,
    Answered,
    Dialect,
    Generation,
    Kind,
    Refusal,
    data_event,
    dumps,
    vector_form,
)
from fake_workers.engine.outcome import Event, count_call
from fake_workers.net.messages import Response, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.engine.outcome import Call, Choice, Outcome
    from fake_workers.net.exchange import Request
    from fake_workers.script import ToolCall
    from fake_workers.spec import WorkerSpec


class TokenSpeed(Dialect):
    """The gateway in front of a TokenSpeed engine."""

    name = "tokenspeed"
    server_name = None

    def __init__(self, spec: WorkerSpec) -> None:
        """Set up the nested gateway's routes."""
        super().__init__(spec)
        for path in ("/health", "/liveness"):
            self.route("GET", path, lambda _: Response(200, b"OK", "text/plain; charset=utf-8"))
        self.route("GET", "/readiness", self.readiness)
        self.route("GET", "/v1/models", self.models)
        self.route("GET", "/get_model_info", self.model_info)
        self.route("GET", "/get_server_info", self.server_info)
        self.route("POST", "/v1/chat/completions", lambda request: self.generate("chat", request))
        self.route("POST", "/v1/completions", lambda request: self.generate("completion", request))
        self.route("POST", "/v1/embeddings", self.embeddings)

    def readiness(self, request: Request) -> Answered:
        """Answer as a gateway with its one engine up, or still loading."""
        del request
        if self.loading:
            return Response(503, dumps({"status": "not ready", "reason": "insufficient healthy workers"}))
        return Response(200, dumps({"status": "ready", "healthy_workers": 1, "total_workers": 1}))

    def models(self, request: Request) -> Response:
        """List the model as a self-hosted one, without root, length or permission."""
        del request
        card = {"id": self.spec.model, "object": "model", "created": 0, "owned_by": "self_hosted"}
        return Response(200, dumps({"object": "list", "data": [card]}))

    def model_info(self, request: Request) -> Response:
        """Describe the model."""
        del request
        shape = {"model_path": self.spec.path, "tokenizer_path": self.spec.path, "is_generation": True}
        return Response(200, dumps(shape))

    def server_info(self, request: Request) -> Response:
        """Describe the server."""
        del request
        shape = {
            "model_path": self.spec.path,
            "served_model_name": self.spec.model,
            "max_model_len": self.spec.max_model_len,
        }
        return Response(200, dumps(shape))

    def no_route(self, request: Request, path: str) -> Response:
        """Answer an unknown path or method with an empty body."""
        del request
        allowed = self.paths.get(path)
        if allowed is None:
            return Response(404, b"", None)
        return Response(405, b"", None, [("allow", allowed)])

    @staticmethod
    def gateway_error(status: int, code: str, message: str) -> Response:
        """Return the gateway's own envelope, with its code in a header."""
        error = {"type": reason_of(status), "code": code, "message": message, "param": None}
        return Response(status, dumps({"error": error}), headers=[("x-smg-error-code", code)])

    @staticmethod
    def request_error(message: str, code: Any) -> Response:
        """Return the shape of requests that do not parse or validate."""
        return Response(400, dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}}))

    def judge(self, kind: Kind, request: Request) -> dict[str, Any]:
        """Return the body if the nested gateway would take it; raises :class:`Refusal`."""
        body = calls.load(request.body)
        if not body:
            raise Refusal(self.request_error("Failed to parse the request body as JSON", "json_parse_error"))
        needed = "messages" if kind == "chat" else "prompt"
        if needed not in body and "input" not in body:
            raise Refusal(self.request_error(f"missing field `{needed}`", "json_parse_error"))
        model = body.get("model")
        if model != self.spec.model:
            raise Refusal(self.gateway_error(404, "model_not_found", f"No worker serves the model '{model}'"))
        return body

    def fit(self, call: Call) -> None:
        """Refuse a prompt over the context length."""
        most = self.spec.max_model_len
        for count in call.prompt_tokens:
            if count + (call.max_tokens or 0) > most:
                message = f"The prompt has {count} tokens, the context length is {most} tokens"
                raise Refusal(self.gateway_error(400, "context_length_exceeded", message))
        if call.max_tokens is None:
            call.max_tokens = most - max(call.prompt_tokens, default=0)

    def queue_full(self, work: Generation) -> Response:
        """Refuse as a gateway whose engine is overloaded."""
        del work
        return self.gateway_error(503, "upstream_unavailable", "The engine's queue is full")

    # wording ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _usage(outcome: Outcome) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": outcome.completion_tokens,
            "total_tokens": outcome.prompt_tokens + outcome.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": outcome.cached_tokens or 0},
        }
        if outcome.reasoning_tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": outcome.reasoning_tokens}
        return usage

    @staticmethod
    def _tool_id(call: ToolCall) -> str:
        return f"call_{uuid.uuid4().hex[:24]}" if call.id is None else call.id

    def _message(self, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        if choice.text:
            message["content"] = choice.text
        if choice.tool_calls:
            message["tool_calls"] = [
                {
                    "id": self._tool_id(call),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in choice.tool_calls
            ]
        if choice.reasoning:
            message["reasoning_content"] = "".join(choice.reasoning)
        return message

    def chat_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a chat completion."""
        shape = {
            "id": f"chatcmpl-{uuid.uuid4().hex[:24]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": call.model,
            "choices": [
                {
                    "index": choice.index,
                    "message": self._message(choice),
                    "finish_reason": choice.finish_reason,
                    **({"matched_stop": choice.matched} if choice.matched is not None else {}),
                }
                for choice in outcome.choices
            ],
            "usage": self._usage(outcome),
            "system_fingerprint": "default",
        }
        return Response(200, dumps(shape))

    def completion_whole(self, call: Call, outcome: Outcome) -> Response:
        """Word a completion."""
        shape = {
            "id": f"cmpl_{uuid.uuid4().hex[:24]}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": call.model,
            "choices": [
                {
                    "text": (call.prompts[choice.index // call.n] if call.echo else "") + choice.text,
                    "index": choice.index,
                    "finish_reason": choice.finish_reason,
                }
                for choice in outcome.choices
            ],
            "usage": self._usage(outcome),
            "system_fingerprint": "default",
        }
        return Response(200, dumps(shape))

    def chat_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a chat stream: a role chunk, deltas, an empty finish delta, usage, [DONE]."""
        head = {
            "id": f"chatcmpl-{uuid.uuid4().hex[:24]}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": call.model,
        }
        tail = {"system_fingerprint": "default"}

        def chunk(
            index: int, delta: dict[str, Any], step: int, finish: str | None = None, piece: int | None = None
        ) -> Event:
            choice = {"index": index, "delta": delta, "finish_reason": finish}
            return Event(data_event({**head, **tail, "choices": [choice]}), step, piece)

        last = 0
        for choice in outcome.choices:
            step = 0
            yield chunk(choice.index, {"role": "assistant"}, 0)
            for text in choice.reasoning:
                step += 1
                yield chunk(choice.index, {"role": "assistant", "reasoning_content": text}, step)
            for number, text in enumerate(choice.pieces):
                step += 1
                delta = {"role": "assistant", "content": text, "reasoning_content": None}
                yield chunk(choice.index, delta, step, piece=number)
            for number, tool in enumerate(choice.tool_calls):
                step += count_call(tool)
                started = {"name": tool.name, "arguments": tool.arguments}
                entry = {"index": number, "id": self._tool_id(tool), "type": "function", "function": started}
                yield chunk(choice.index, {"role": "assistant", "tool_calls": [entry]}, step)
            yield chunk(choice.index, {}, step, choice.finish_reason, piece=len(choice.pieces))
            last = max(last, step)
        if call.include_usage:
            yield Event(data_event({**head, **tail, "choices": [], "usage": self._usage(outcome)}), last)
        yield Event(DONE, last)

    def completion_events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        """Word a completion stream."""
        head = {
            "id": f"cmpl_{uuid.uuid4().hex[:24]}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": call.model,
        }
        last = 0
        for choice in outcome.choices:
            for number, text in enumerate(choice.pieces):
                piece = {"text": text, "index": choice.index, "finish_reason": None}
                yield Event(data_event({**head, "choices": [piece]}), number + 1, number)
            final = {"text": "", "index": choice.index, "finish_reason": choice.finish_reason}
            yield Event(data_event({**head, "choices": [final]}), choice.tokens, len(choice.pieces))
            last = max(last, choice.tokens)
        if call.include_usage:
            yield Event(data_event({**head, "choices": [], "usage": self._usage(outcome)}), last)
        yield Event(DONE, last)

    def embeddings(self, request: Request) -> Response:
        """Answer an embeddings request."""
        return self.embed(self.judge("completion", request))

    def embeddings_whole(self, body: dict[str, Any], vectors: list[list[float]], prompt_tokens: int) -> Response:
        """Word an embeddings answer in OpenAI's order."""
        shape = {
            "object": "list",
            "data": [
                {"object": "embedding", "embedding": vector_form(vector, body.get("encoding_format")), "index": index}
                for index, vector in enumerate(vectors)
            ],
            "model": self.spec.model,
            "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
        }
        return Response(200, dumps(shape))
