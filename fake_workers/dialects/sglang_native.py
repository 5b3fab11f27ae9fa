"""SGLang's own routes: /generate, tokenise, abort, cache. Source: SGLang 0.5.23 http_server and io_struct."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.dialects import calls, rules, sglang_rules
from fake_workers.dialects import sglang_shapes as shapes
from fake_workers.dialects.base import DONE, Generation, Refusal, data_event, dumps, outcome_of, query
from fake_workers.engine import model as fake_model
from fake_workers.engine import tokens
from fake_workers.engine.outcome import Call, Choice, Event, Outcome
from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_workers.dialects.sglang import SGLang
    from fake_workers.net.exchange import Request
    from fake_workers.script import Reply

_DEFAULT_NEW_TOKENS = 128


def add_routes(dialect: SGLang) -> None:
    """Serve the native routes."""
    native = _Native(dialect)
    dialect.route("POST,PUT", "/generate", native.generate)
    dialect.reply_to["/generate"] = native.scripted
    for path in ("/tokenize", "/v1/tokenize"):
        dialect.route("POST", path, native.tokenize)
    for path in ("/detokenize", "/v1/detokenize"):
        dialect.route("POST", path, native.detokenize)
    dialect.route("GET,POST", "/flush_cache", native.flush_cache)
    dialect.route("POST", "/abort_request", lambda _: Response(200, b"", None))
    for path in ("/pause_generation", "/continue_generation"):
        dialect.route("POST", path, lambda _: Response(200, dumps({"message": "Done.", "status": "ok"})))


def _native_error(message: str) -> Response:
    return Response(400, dumps({"error": {"message": message}}))


class _Native:
    """The handlers; a class only to keep the dialect they belong to."""

    def __init__(self, dialect: SGLang) -> None:
        self._dialect = dialect

    # /generate -------------------------------------------------------------------------------------------------------

    def generate(self, request: Request) -> Generation:
        """Judge a native request and work out its answer."""
        body, problem = rules.parse_object(request.body)
        if body is None:
            raise Refusal(_native_error(problem))
        given = [name for name in ("text", "input_ids", "input_embeds") if body.get(name) is not None]
        if len(given) != 1:
            raise Refusal(_native_error("Provide exactly one of text, input_ids or input_embeds."))
        params = body.get("sampling_params") or {}
        for one in params if isinstance(params, list) else [params]:
            self._judge_params(one)
        call = self._call(body)
        self._dialect.fit(call)
        return self._generation(call, fake_model.generate(call, self._dialect.spec.seed))

    @staticmethod
    def _judge_params(params: Any) -> None:
        if not isinstance(params, dict):
            raise Refusal(_native_error("sampling_params must be an object."))
        unknown = sorted(set(params) - sglang_rules.SAMPLING_KEYS)
        if unknown:
            raise Refusal(Response(400, dumps({"error": f"Unknown sampling_params: {', '.join(unknown)}"})))
        problem = rules.first(sglang_rules.sampling_problems(params))
        if problem is not None:
            raise Refusal(_native_error(problem[1]))

    def scripted(self, request: Request, reply: Reply) -> Generation:
        """Word a scripted reply as a native answer."""
        call = self._call(calls.load(request.body))
        return self._generation(call, outcome_of(reply, call))

    def _call(self, body: dict[str, Any]) -> Call:
        params = body.get("sampling_params")
        params = params[0] if isinstance(params, list) and params else params
        params = params if isinstance(params, dict) else {}
        prompts, counts = calls.read_prompts(
            body.get("text") if body.get("text") is not None else body.get("input_ids")
        )
        limit = calls.whole_number(params.get("max_new_tokens"))
        schema = params.get("json_schema")
        return Call(
            kind="generate",
            body=body,
            model=self._dialect.spec.model,
            prompts=prompts,
            prompt_tokens=counts,
            n=max(calls.whole_number(params.get("n")) or 1, 1),
            max_tokens=_DEFAULT_NEW_TOKENS if limit is None else limit,
            min_tokens=calls.whole_number(params.get("min_new_tokens")) or 0,
            stop=rules.stops(params.get("stop")),
            ignore_eos=params.get("ignore_eos") is True,
            keep_stop=params.get("no_stop_trim") is True,
            stream=body.get("stream") is True,
            logprobs=calls.whole_number(body.get("top_logprobs_num")) or 0 if body.get("return_logprob") else None,
            schema=calls.load(schema.encode()) if isinstance(schema, str) else schema,
            seed=calls.whole_number(params.get("sampling_seed")) or 0,
        )

    def _generation(self, call: Call, outcome: Outcome) -> Generation:
        return Generation(call, outcome, whole=self._whole, events=self._events, early_head=True)

    def _is_batch(self, call: Call) -> bool:
        text, ids = call.body.get("text"), call.body.get("input_ids")
        listed = isinstance(text, list) or (isinstance(ids, list) and bool(ids) and isinstance(ids[0], list))
        return listed or call.n > 1

    def _item(self, call: Call, choice: Choice, outcome: Outcome, rid: str, done: int | None = None) -> dict[str, Any]:
        """Return one answer; ``done`` pieces of it while it streams (text and ids are cumulative)."""
        pieces = choice.pieces if done is None else choice.pieces[:done]
        finish: dict[str, Any] | None = None
        if done is None or done >= len(choice.pieces):
            finish = self._finish(choice)
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": finish,
            "prompt_tokens": call.prompt_tokens[choice.index // call.n] if done is None else outcome.prompt_tokens,
            "weight_version": "default",
            "num_retractions": 0,
        }
        if call.logprobs is not None:
            wants_text = call.body.get("return_text_in_logprobs") is True
            meta["output_token_logprobs"] = [
                [fake_model.logprob_of(piece), tokens.encode(piece)[0], piece if wants_text else None]
                for piece in pieces
            ]
        meta["reasoning_tokens"] = 0
        meta["completion_tokens"] = len(pieces) if done is not None else choice.tokens
        meta["cached_tokens"] = outcome.cached_tokens or 0
        meta["e2e_latency"] = 0.0
        meta["response_sent_to_client_ts"] = time.time()
        ids = [token for piece in pieces for token in tokens.encode(piece)]
        return {"text": "".join(pieces), "output_ids": ids, "meta_info": meta}

    @staticmethod
    def _finish(choice: Choice) -> dict[str, Any]:
        if choice.finish_reason == "length":
            return {"type": "length", "length": choice.tokens}
        if choice.finish_reason == "abort":
            return {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        return {"type": "stop", "matched": choice.matched if choice.matched is not None else shapes.EOS_TOKEN_ID}

    def _whole(self, call: Call, outcome: Outcome) -> Response:
        rid = call.body.get("rid")
        items = [
            self._item(call, choice, outcome, rid if isinstance(rid, str) else uuid.uuid4().hex)
            for choice in outcome.choices
        ]
        return Response(200, dumps(items if self._is_batch(call) else items[0]))

    def _events(self, call: Call, outcome: Outcome) -> Iterator[Event]:
        rid = call.body.get("rid")
        ids = [rid if isinstance(rid, str) else uuid.uuid4().hex for _ in outcome.choices]
        batch = self._is_batch(call)
        longest = max((len(choice.pieces) for choice in outcome.choices), default=0)
        for step in range(1, max(longest, 1) + 1):
            for choice in outcome.choices:
                if step > max(len(choice.pieces), 1):
                    continue
                item = self._item(call, choice, outcome, ids[choice.index], step)
                if batch:
                    item["index"] = choice.index
                yield Event(data_event(item), step, step - 1)
        yield Event(DONE, longest)

    # the rest --------------------------------------------------------------------------------------------------------

    def tokenize(self, request: Request) -> Response:
        """Return the tokens of a prompt, of several, or of messages."""
        body = calls.load(request.body)
        prompt = body.get("prompt")
        length = self._dialect.spec.max_model_len
        if isinstance(prompt, list):
            many = [tokens.encode(str(one)) for one in prompt]
            return Response(200, dumps({"tokens": many, "count": [len(ids) for ids in many], "max_model_len": length}))
        if not isinstance(prompt, str) and not isinstance(body.get("messages"), list):
            raise Refusal(self._dialect.error(400, "Provide prompt or messages.", "BadRequest"))
        ids = tokens.encode(prompt if isinstance(prompt, str) else calls.render_chat(body))
        return Response(200, dumps({"tokens": ids, "count": len(ids), "max_model_len": length}))

    def detokenize(self, request: Request) -> Response:
        """Return the text of tokens, or the texts of lists of tokens."""
        ids = calls.load(request.body).get("tokens")
        if isinstance(ids, list) and all(isinstance(one, int) for one in ids):
            return Response(200, dumps({"text": tokens.decode(ids)}))
        if isinstance(ids, list) and all(isinstance(one, list) for one in ids):
            texts = [tokens.decode([token for token in one if isinstance(token, int)]) for one in ids]
            return Response(200, dumps({"text": texts}))
        raise Refusal(self._dialect.error(400, "tokens must be a list of integers, or of such lists.", "BadRequest"))

    def flush_cache(self, request: Request) -> Response:
        """Empty the prefix cache; refused while requests run or wait."""
        engine = self._dialect.engine
        timeout = query(request).get("timeout", ["0"])[0]
        if (number := rules.as_number(timeout)) is None or number < 0:
            return Response(400, b"timeout must be a number of seconds, 0 or more\n", "text/plain; charset=utf-8")
        if engine.running or engine.waiting:
            text = f"Cache not flushed: {engine.running} requests run and {engine.waiting} wait.\n"
            return Response(400, text.encode(), "text/plain; charset=utf-8")
        engine.cache.clear()
        return Response(200, b"Cache flushed.\n", "text/plain; charset=utf-8")
