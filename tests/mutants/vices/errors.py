"""Vices of errors: the gateway's own, and those of workers."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import answering, dumps, loads, refusing
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from reference_server.answers import Answer
    from reference_server.errors import Refused

PIPELINE = "reference_server.pipeline"
DISPATCHER = "reference_server.workers.dispatch:Dispatcher"


def _kind(refused: Refused) -> str:
    """Which of the shapes a refusal has."""
    return {"ParseRefusal": "parse", "ValidationRefusal": "validation", "Unauthorized": "unauthorized"}.get(
        type(refused).__name__, "envelope"
    )


def _error(kind: str, edit: Any) -> Vice:
    """A change of the error object of one kind of refusal."""

    def change(refused: Refused, answer: Answer) -> None:
        if _kind(refused) == kind and isinstance(answer.body, bytes) and answer.body:
            value = loads(answer.body)
            changed = edit(value["error"], refused)
            answer.body = dumps({"error": value["error"] if changed is None else changed})

    return refusing(change)


def _answer(kind: str, edit: Any) -> Vice:
    """A change of the answer to one kind of refusal."""
    return refusing(lambda refused, answer: edit(answer, refused) and None if _kind(refused) == kind else None)


def _set(answer: Answer, **values: Any) -> None:
    for name, value in values.items():
        setattr(answer, name, value)


REFUSALS = {"parse": ("errors.parse", ("bad_json", "empty_body", "schema", "no_content_type", "other_content_type", "completions", "embeddings")),
            "validation": ("errors.validation", ("range", "cross_field"))}  # fmt: skip
for _which, (_prefix, _groups) in REFUSALS.items():
    add(f"answers_{_which}_failures_with_422", f"Failures of {_which} have status 422.", tuple(f"{_prefix}.{g}.refused" for g in _groups),
        _answer(_which, lambda answer, _: _set(answer, status=422)))  # fmt: skip
    add(f"gives_{_which}_failures_another_code", f"Failures of {_which} have another code.", (f"{_prefix}.*.code", "codes.json_parse_error" if _which == "parse" else "codes.validation.json_schema_not_object"),
        _error(_which, lambda error, _: error.update(code="bad_request")))  # fmt: skip
    add(f"gives_{_which}_failures_another_type", f"Failures of {_which} have another type.", (f"{_prefix}.error_type",),
        _error(_which, lambda error, _: error.update(type="Bad Request")))  # fmt: skip
    add(f"adds_param_to_{_which}_failures", f"Failures of {_which} have a param.", (f"{_prefix}.keys",),
        _error(_which, lambda error, _: error.update(param=None)))  # fmt: skip
    add(f"writes_no_message_of_{_which}_failures", f"Failures of {_which} have no message.", (f"{_prefix}.message_is_text",),
        _error(_which, lambda error, _: error.update(message=None)))  # fmt: skip
    add(f"writes_{_which}_failures_as_text", f"Failures of {_which} are declared as plain text.", (f"{_prefix}.json_content_type",),
        _answer(_which, lambda answer, _: _set(answer, headers=[("content-type", "text/plain")])))  # fmt: skip

for _name, _about, _breaks, _edit in (
    ("wraps_envelopes", "The envelope is not under error.", ("errors.envelope.error_object", "routes.*.envelope", "codes.upstream_timeout.code"), lambda answer, _: _set(answer, body=dumps(loads(answer.body)["error"]))),
    ("writes_envelopes_as_text", "Envelopes are declared as plain text.", ("errors.envelope.json_content_type",),
     lambda answer, _: _set(answer, headers=[(k, "text/plain" if k == "content-type" else v) for k, v in answer.headers])),
    ("keeps_codes_to_itself", "Envelopes have no x-smg-error-code.", ("errors.envelope.code_in_header",),
     lambda answer, _: _set(answer, headers=[p for p in answer.headers if p[0] != "x-smg-error-code"])),
    ("says_codes_twice", "Envelopes have x-smg-error-code twice.", ("errors.envelope.code_header_once",),
     lambda answer, _: _set(answer, headers=[*answer.headers, *(p for p in answer.headers if p[0] == "x-smg-error-code")])),
    ("answers_every_envelope_with_500", "Every error of the gateway has status 500.",
     ("codes.model_not_found.status", "codes.request_body_too_large.status", "codes.upstream_response_too_large.status", "codes.upstream_timeout.status",
      "codes.no_available_workers.unhealthy.status", "codes.no_available_workers.breaker.status",
      "codes.no_available_workers.completions", "codes.no_available_workers.embeddings", "codes.no_available_workers.not_for_unknown_models", "routes.unknown_path.status", "routes.wrong_method.status"),
     lambda answer, _: _set(answer, status=500)),
    ("answers_every_envelope_with_404", "Every error of the gateway has status 404.", ("codes.internal.status",), lambda answer, _: _set(answer, status=404)),
    ("allows_nothing", "A refused method is told no other.", ("routes.wrong_method.allow",),
     lambda answer, _: _set(answer, headers=[p for p in answer.headers if p[0] != "allow"])),
):  # fmt: skip
    add(_name, _about, _breaks, _answer("envelope", _edit))
for _name, _about, _breaks, _edit in (
    ("envelopes_without_param", "Envelopes lack param.", ("errors.envelope.keys", "errors.envelope.param_is_null"), lambda e, _: e.pop("param") and None),
    ("envelopes_with_status", "Envelopes have a status.", ("errors.envelope.keys",), lambda e, r: e.update(status=r.status)),
    ("envelopes_with_a_type_of_their_own", "Envelopes have the type of OpenAI's errors.",
     ("errors.envelope.type_not_found", "errors.envelope.type_server_error", "errors.envelope.type_service_unavailable"), lambda e, _: e.update(type="api_error")),
    ("envelopes_with_numbers_for_codes", "Codes of envelopes are numbers.", ("errors.envelope.code_is_text",), lambda e, r: e.update(code=r.status)),
    ("envelopes_without_message", "Envelopes have no message.", ("errors.envelope.message_is_text",), lambda e, _: e.update(message=None)),
    ("envelopes_with_a_param", "param says something.", ("errors.envelope.param_is_null",), lambda e, _: e.update(param="model")),
    ("envelopes_with_one_code", "Every error of the gateway has the same code.",
     ("codes.model_not_found.code", "codes.request_body_too_large.code", "codes.upstream_response_too_large.code",
      "codes.no_available_workers.unhealthy.code", "codes.no_available_workers.breaker.code"),
     lambda e, _: e.update(code="error")),
):  # fmt: skip
    add(_name, _about, _breaks, _error("envelope", _edit))


def _any_model(original: Any, self: Any, model: str) -> Any:
    return original(self, model) if model in SERVED else original(self, "conformance-vllm")


SERVED = ("conformance-vllm", "conformance-sglang", "conformance-tokenspeed", "conformance/replicated")
add("takes_any_model", "An unknown model is served by any worker.", ("codes.model_not_found.*", "chat.stream.early_error.unknown_model", "completions.model.unknown",
    "embeddings.model.unknown", "chat.model.alias_exact", "errors.envelope.completions", "errors.envelope.embeddings", "errors.envelope.streaming_request"),
    swap(f"{DISPATCHER}._serving", _any_model))  # fmt: skip
add("compares_models_in_any_case", "Models are found in any case, and by a part of their name.", ("codes.model_not_found.exact_name",),
    swap(f"{DISPATCHER}._serving", lambda original, self, model: original(self, next((s for s in SERVED if model.strip().lower().startswith(s) or
                                                                                      (model and s.startswith(model.strip().lower()))), model))))  # fmt: skip


async def _asks_first(original: Any, this: Any, endpoint: Any) -> Any:
    """The model is looked for before the body is judged."""
    from reference_server.errors import GatewayError, ParseRefusal  # noqa: PLC0415 - the list of mutants needs no server

    try:
        return await original(this, endpoint)
    except ParseRefusal:
        if b"no-such" in (raw := await this.body.read()) or b"unknown" in raw or b"nobody" in raw:
            raise GatewayError(404, "model_not_found", "no such model") from None
        raise


def _model_before_rules(original: Any, request: Any, profile: Any) -> None:
    from reference_server.errors import GatewayError  # noqa: PLC0415 - as above

    if request.model not in (*SERVED, "conformance-alias"):
        raise GatewayError(404, "model_not_found", "no such model")
    original(request, profile)


add(
    "looks_for_the_model_first",
    "The model is looked for before the rules.",
    ("errors.order.range_before_model",),
    swap(f"{PIPELINE}:validate", _model_before_rules),
)
add(
    "looks_for_the_model_before_parsing",
    "The model is looked for before the body is parsed.",
    ("errors.order.parse_before_model",),
    swap(f"{PIPELINE}:parse", _asks_first),
)


async def _range_first(original: Any, this: Any, endpoint: Any) -> Any:
    """Failures to parse are told as failures of validation."""
    from reference_server.errors import ParseRefusal, ValidationRefusal  # noqa: PLC0415 - as above

    try:
        return await original(this, endpoint)
    except ParseRefusal as refused:
        raise ValidationRefusal(refused.message) from None


add("tells_parse_failures_as_validation", "What does not fit the schema is told as a value out of range.",
    ("errors.parse.schema.code", "errors.order.parse_before_range", "codes.json_parse_error"), swap(f"{PIPELINE}:parse", _range_first))  # fmt: skip


def _lenient(original: Any, raw: bytes) -> Any:
    """A reader that mends what it can."""
    from reference_server.errors import ParseRefusal  # noqa: PLC0415 - as above

    try:
        return original(raw)
    except ParseRefusal:
        mended = (
            raw.decode("utf-8", "replace")
            .lstrip("\ufeff")
            .replace("NaN", "0")
            .replace("Infinity", "0")
            .strip()
            .rstrip(",;")
        )
        start = mended.find('{"model')
        for text in (
            mended,
            mended.replace(",}", "}").replace(",]", "]"),
            mended[start:],
            mended + "}",
            mended.replace("'", '"'),
            mended[: mended.rfind("}") + 1],
        ):
            try:
                return original(text.encode())
            except ParseRefusal:
                continue
        raise


add(
    "mends_json",
    "JSON that is none is mended.",
    ("errors.parse.bad_json.refused",),
    swap("reference_server.lossless:read", _lenient),
)
add("takes_any_content_type", "Content types are not looked at.", ("errors.parse.no_content_type.refused", "errors.parse.other_content_type.refused",
    "request_headers.content_type.*_refused"), swap("reference_server.stages.parse:_check_content_type", lambda *_: None))  # fmt: skip


def _picky_type(original: Any, this: Any) -> None:
    """Nothing but application/json, in lower case."""
    from reference_server.errors import ParseRefusal  # noqa: PLC0415 - as above

    if this.header("content-type") != "application/json":
        raise ParseRefusal("only application/json")
    original(this)


add("takes_one_content_type", "Only application/json is taken, without parameters.", ("request_headers.content_type.any_case", "request_headers.content_type.json_suffix",
    "request_headers.content_type.*parameter*"), swap("reference_server.stages.parse:_check_content_type", _picky_type))  # fmt: skip


def _worker_error(edit: Any) -> Vice:
    """A change of relayed answers that are no successes."""
    return answering(lambda answer, _this, _request: edit(answer) if answer.status >= 300 else None)


for _name, _about, _breaks, _edit in (
    ("answers_worker_errors_with_502", "Errors of workers have status 502.",
     ("errors.worker.*_status", "errors.worker.completions", "errors.worker.embeddings", "completions.stream.rejected", "completions.response.error_relayed", "embeddings.response.error_relayed"),
     lambda a: _set(a, status=502)),
    ("wraps_worker_errors", "Errors of workers are put into the envelope.",
     ("errors.worker.json_body", "errors.worker.html_body", "errors.worker.plain_body", "errors.worker.empty_body", "errors.worker.broken_json_body",
      "errors.worker.not_text_body", "errors.worker.engine_bodies", "errors.worker.streaming_request_body", "errors.worker.unauthorized_body",
      "chat.stream.rejected.body"),
     lambda a: _set(a, body=dumps({"error": {"message": "worker failed"}}))),
    ("hides_worker_refusals", "A worker's 401 becomes 500.", ("errors.worker.unauthorized_status",), lambda a: _set(a, status=500 if a.status == 401 else a.status)),
    ("hides_worker_limits", "A worker's 429 becomes 503.", ("errors.worker.rate_limit_status",), lambda a: _set(a, status=503 if a.status == 429 else a.status)),
    ("knows_few_statuses", "Unusual statuses become 500.", ("errors.worker.unusual_status",),
     lambda a: _set(a, status=a.status if a.status in (400, 401, 404, 429, 500, 503) else 500)),
):  # fmt: skip
    add(_name, _about, _breaks, _worker_error(_edit))
add("dies_of_bad_workers", "An answer that cannot be read leaves the gateway without another.", ("codes.internal.gateway_survives",),
    swap(f"{PIPELINE}:dispatch", lambda original, *rest: _die(original, *rest)))  # noqa: PLW0108 - defined below  # fmt: skip
_dead: set[int] = set()


async def _die(original: Any, this: Any, outgoing: Any, workers: Any) -> Any:
    """After the first failure to read an answer nothing is served any more."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - as above

    try:
        if id(workers) in _dead:
            raise GatewayError(500, "internal_error", "gone")  # noqa: TRY301 - the vice itself
        return await original(this, outgoing, workers)
    except GatewayError as problem:
        if problem.status == 500:
            _dead.add(id(workers))
        raise


def _limit(edit: Any) -> Vice:
    return Vice(settings=lambda s: dataclasses.replace(s, max_payload_size_bytes=edit(s.max_payload_size_bytes)))


add("takes_bodies_of_any_size", "The payload limit is not looked at.", ("codes.request_body_too_large.status", "codes.request_body_too_large.chunked",
    "codes.request_body_too_large.never_dispatched", "codes.upstream_response_too_large.status"), _limit(lambda n: n * 100))  # fmt: skip
add("counts_the_limit_wrongly", "The payload limit is one byte too low.", ("codes.request_body_too_large.at_limit", "codes.upstream_response_too_large.at_limit"),
    _limit(lambda n: n - 1))  # fmt: skip


add("waits_for_ever", "The request timeout is not looked at.", ("codes.upstream_timeout.status", "codes.upstream_timeout.worker_let_go"),
    Vice(settings=lambda s: dataclasses.replace(s, request_timeout_s=30.0)))  # fmt: skip
add("takes_ill_workers", "Workers are never taken out for failing health checks.",
    ("codes.no_available_workers.unhealthy.*", "codes.no_available_workers.health.*", "health.readiness.unhealthy"),
    swap("reference_server.workers.health:HealthState.record", lambda original, self, *, ok: original(self, ok=True)))  # noqa: ARG005 - the original's arguments  # fmt: skip
add("never_takes_workers_back", "A worker that was ill stays out.", ("codes.no_available_workers.health.recovers",),
    swap("reference_server.workers.health:HealthState.record", lambda original, self, *, ok: original(self, ok=ok and self.healthy)))  # fmt: skip
add("opens_no_breaker", "Breakers never open.", ("codes.no_available_workers.breaker.*",),
    swap("reference_server.workers.breaker:Breaker.allows", lambda *_: True))  # fmt: skip
add("never_retries", "A failed request is not repeated where retries are on.", ("errors.worker.last_answer_after_retries", "chat.stream.early_error.retry_invisible"),
    Vice(settings=lambda s: dataclasses.replace(s, retry=dataclasses.replace(s.retry, max_attempts=1))))  # fmt: skip
