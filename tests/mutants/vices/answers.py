"""Vices of complete answers to chat requests: not what the worker said."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import Number, answer_json, answering, containers, mapped
from tests.mutants.vice import add, swap

if TYPE_CHECKING:
    from reference_server.answers import Answer


def _without(key: str) -> Any:
    """The edit that takes a member out of every object."""

    def edit(value: Any) -> None:
        for each in list(containers(value)):
            each.pop(key, None)

    return edit


DROPPED: dict[str, tuple[str, ...]] = {
    "id": ("chat.response.id",), "object": ("chat.response.object",), "created": ("chat.response.created",),
    "model": ("chat.response.model",), "choices": ("chat.response.choices", "chat.response.shape", "shapes.chat.response"), "index": ("chat.response.choice.index",),
    "role": ("chat.response.choice.message_role",), "content": ("chat.response.choice.message_content",),
    "finish_reason": ("chat.response.choice.finish_reason", "chat.tools.finish_reason_kept"),
    "usage": ("chat.response.usage_member", "chat.usage.http.own_object"),
    "prompt_tokens": ("chat.usage.prompt_tokens",), "completion_tokens": ("chat.usage.completion_tokens",),
    "total_tokens": ("chat.usage.total_tokens",), "cached_tokens": ("chat.usage.cached_tokens",),
    "reasoning_tokens": ("chat.usage.reasoning_tokens",),
    "accepted_prediction_tokens": ("chat.usage.accepted_prediction_tokens",),
    "rejected_prediction_tokens": ("chat.usage.rejected_prediction_tokens",),
    "tool_calls": ("chat.response.relay.tool_calls",), "reasoning_content": ("chat.response.relay.reasoning", "chat.separate_reasoning.reasoning_content_returned"),
    "logprobs": ("chat.response.relay.logprobs", "chat.logprobs.returned"),
    "hidden_states": ("chat.return_hidden_states.returned",),
}  # fmt: skip
for _key, _breaks in DROPPED.items():
    add(f"answers_without_{_key}", f"Answers lack {_key}.", _breaks, answer_json(_without(_key), route="chat"))
EDITS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "reserialises_answers": ("Answers are parsed and written anew.", ("chat.response.relay.bytes",), lambda v: v),
    "answers_with_doubles": ("Numbers of answers pass through doubles.", ("chat.response.relay.number_text",),
                             lambda v: mapped(v, lambda n: float(n) if isinstance(n, Number) and not n.encoded_json.isdecimal() else
                                              int(float(n)) if isinstance(n, Number) else n)),
    "answers_without_nulls": ("Members that are null are dropped from answers.", ("chat.response.relay.nulls", "chat.response.relay.content_null", "chat.usage.http.nulls"),
                              lambda v: [e.pop(k) for e in list(containers(v)) for k in list(e) if e[k] is None] and None),
    "answers_known_keys_only": ("Members that OpenAI does not know are dropped from answers.", ("chat.response.relay.engine_keys", "chat.usage.http.extra_keys"),
                                lambda v: [e.pop(k) for e in list(containers(v)) for k in list(e) if k not in KNOWN] and None),
    "answers_in_ascii": ("Texts of answers become ASCII.", ("chat.response.relay.unicode",),
                         lambda v: mapped(v, lambda t: t.encode("ascii", "replace").decode() if isinstance(t, str) else t)),
    "answers_stop_always": ("Every choice is said to have stopped.", ("chat.response.relay.finish_reason",),
                            lambda v: [c.update(finish_reason="stop") for c in v["choices"]] and None),
    "answers_one_choice": ("Only the first choice is answered.", ("chat.response.relay.choices", "chat.n.all_choices_returned"),
                           lambda v: v.update(choices=v["choices"][:1])),
    "answers_with_the_alias": ("The model of an answer is what the client asked for.", ("chat.response.alias.model",),
                               lambda v: v.update(model="conformance-alias")),
    "recomputes_totals": ("total_tokens is computed anew.", ("chat.usage.http.not_recomputed",),
                          lambda v: v["usage"].update(total_tokens=int(float(v["usage"]["prompt_tokens"]) + float(v["usage"]["completion_tokens"])))),
    "counts_prompts_per_choice": ("Prompt tokens are counted once a choice.", ("chat.usage.n.prompt_once",),
                                  lambda v: v["usage"].update(prompt_tokens=int(float(v["usage"]["prompt_tokens"])) * len(v["choices"]))),
    "counts_the_first_choice": ("Completion tokens are those of one choice.", ("chat.usage.n.completions_summed",),
                                lambda v: v["usage"].update(completion_tokens=int(float(v["usage"]["completion_tokens"])) // len(v["choices"]))),
    "invents_usage": ("Answers without usage are given one.", ("chat.usage.http.not_invented",),
                      lambda v: v.setdefault("usage", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}) and None),
    "drops_zero_reasoning": ("Reasoning tokens that are 0 are dropped.", ("chat.usage.http.zero_reasoning",),
                             lambda v: [e.pop("reasoning_tokens") for e in list(containers(v)) if e.get("reasoning_tokens") == Number("0")] and None),
    "invents_predictions": ("Usage is given counts of predictions.", ("chat.usage.http.no_speculative",),
                            lambda v: v["usage"].update(completion_tokens_details={"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0})),
}  # fmt: skip
KNOWN = frozenset(
    [
        "id",
        "object",
        "created",
        "model",
        "choices",
        "index",
        "message",
        "role",
        "content",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "logprobs",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "type",
        "refusal",
        "system_fingerprint",
        "token",
        "bytes",
        "logprob",
        "top_logprobs",
        "prompt_tokens_details",
        "cached_tokens",
        "completion_tokens_details",
        "reasoning_tokens",
        "service_tier",
    ]
)


def _careful(edit: Any) -> Any:
    """An edit that changes nothing where it stumbles."""

    def tried(value: Any) -> Any:
        try:
            return edit(value)
        except (KeyError, TypeError, AttributeError):
            return None

    return tried


for _name, (_about, _breaks, _edit) in EDITS.items():
    add(_name, _about, _breaks, answer_json(_careful(_edit), route="chat"))


def _answer(change: Any) -> Any:
    """A change of the answers to chat requests that are complete."""

    def edit(answer: Answer, this: Any, request: Any) -> None:
        if request.endpoint.name == "chat" and isinstance(answer.body, bytes):
            change(answer, this, request)

    return answering(edit)


def _set(name: str, value: Any) -> Any:
    return lambda answer, *_: setattr(answer, name, value(getattr(answer, name)))


def _typed(text: str) -> Any:
    return lambda answer, *_: setattr(
        answer, "headers", [(k, text if k == "content-type" else v) for k, v in answer.headers]
    )


def _judge_json(answer: Answer, *_: Any) -> None:
    """Answers that are not JSON become an error."""
    import json  # noqa: PLC0415 - only here

    try:
        json.loads(answer.body if isinstance(answer.body, bytes) else b"")
    except ValueError:
        answer.status, answer.body = 502, b'{"error":"bad answer"}'


add(
    "answers_with_201",
    "Successes have status 201.",
    ("chat.response.status",),
    _answer(_set("status", lambda s: 201 if s == 200 else s)),
)
add(
    "answers_as_text",
    "Answers are declared as plain text.",
    ("chat.response.content_type",),
    _answer(_typed("text/plain")),
)
add("declares_every_answer_json", "Every answer is declared as JSON.", ("chat.response.relay.content_type", "errors.worker.content_type"),
    _answer(_typed("application/json")))  # fmt: skip
add("judges_answers", "Answers that are not JSON become 502.", ("chat.response.relay.not_json",), _answer(_judge_json))
add(
    "cuts_long_answers",
    "Answers end after 50,000 bytes.",
    ("chat.response.relay.large",),
    _answer(_set("body", lambda b: b[:50000])),
)
add("answers_with_a_new_line", "A line end is put after every answer.", ("chat.response.relay.bytes", "chat.response.relay.length"),
    _answer(_set("body", lambda b: b + b"\n")))  # fmt: skip
add("answers_as_a_stream", "Complete answers are declared as event streams.", ("chat.response.not_streamed", "chat.response.stream_false"),
    _answer(_typed("text/event-stream")))  # fmt: skip


async def _unread(original: Any, self: Any, limit: int) -> bytes:
    """What came before the body broke counts as all of it."""
    from reference_server.workers.exchange import UpstreamBodyError  # noqa: PLC0415 - the list needs no server

    pieces: list[bytes] = []
    try:
        if self._read is not None:
            return bytes(self._read)
        async for piece in self.body():
            pieces.append(piece)  # noqa: PERF401 - what came before the break counts
    except UpstreamBodyError:
        pass
    self._read = b"".join(pieces)
    return self._read


READ = "reference_server.workers.response:UpstreamResponse.read"
add("passes_cut_answers_on", "An answer that broke off is passed on as if it were whole.",
    ("chat.response.truncated", "chat.response.truncated_length", "completions.response.truncated", "embeddings.response.truncated",
     "codes.internal.worker_cut_body"), swap(READ, _unread))  # fmt: skip
