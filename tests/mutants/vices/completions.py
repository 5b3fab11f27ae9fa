"""Vices of completions and embeddings: what reaches the worker, and what of its answer reaches the client."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.edits import changes, refuses
from tests.mutants.hooks import Number, answer_json, answering, chunk_json, outgoing, streaming
from tests.mutants.vice import add

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.answers import Answer
    from reference_server.workers.exchange import UpstreamRequest

for _field, _breaks in {
    "suffix": "completions.suffix.verbatim", "echo": "completions.echo.reaches_worker", "seed": "completions.seed.digits",
    "max_tokens": "completions.max_tokens.own_name",
    "best_of": "completions.best_of.above_n", "regex": "completions.extensions.one_constraint",
    "json_schema": "completions.extensions.json_schema_text", "stop": "completions.stop.four",
}.items():  # fmt: skip
    changes(f"drops_{_field}_of_completions", f"{_field} never reaches the worker.", (_breaks,),
            lambda body, field=_field: body.pop(field, None) and None, "completions")  # fmt: skip
changes("migrates_max_tokens_of_completions", "max_tokens of completions is renamed as in chat.", ("completions.max_tokens.own_name",),
        lambda b: {"max_completion_tokens" if k == "max_tokens" else k: v for k, v in b.items()}, "completions")  # fmt: skip
changes("reverses_prompts", "Prompts of an array arrive backwards.", ("completions.prompt.array_order",),
        lambda b: b["prompt"].reverse() if isinstance(b["prompt"], list) else None, "completions")  # fmt: skip
changes("joins_prompts", "Prompts of an array are joined.", ("completions.prompt.array_one_request", "completions.prompt.array_order"),
        lambda b: b.update(prompt="".join(b["prompt"])), "completions")  # fmt: skip
changes("unpacks_single_prompts", "An array of one prompt becomes a text.", ("completions.prompt.array_of_one",),
        lambda b: b.update(prompt=b["prompt"][0]) if isinstance(b["prompt"], list) and len(b["prompt"]) == 1 else None, "completions")  # fmt: skip
changes("fills_defaults_of_completions", "Fields left out are filled in.", ("completions.absent.not_filled",),
        lambda b: {"temperature": 1, "n": 1, "max_tokens": 16, "echo": False, **b}, "completions")  # fmt: skip
changes("keeps_the_alias_of_completions", "An alias reaches the worker.", ("completions.model.alias",),
        lambda b: b.update(model="conformance-alias"), "completions")  # fmt: skip
changes("keeps_the_alias_of_embeddings", "An alias reaches the worker.", ("embeddings.model.alias",),
        lambda b: b.update(model="conformance-alias"), "embeddings")  # fmt: skip
changes("trims_inputs", "Texts of inputs lose their white space.", ("embeddings.input.text",),
        lambda b: b.update(input=b["input"].strip().lower()), "embeddings")  # fmt: skip
changes("sends_the_first_input", "Only the first input is sent.", ("embeddings.input.texts", "embeddings.input.tokens", "embeddings.input.token_lists"),
        lambda b: b.update(input=b["input"][:1]) if isinstance(b["input"], list) else None, "embeddings")  # fmt: skip
refuses("refuses_texts_of_embeddings", "Arrays of texts are refused.", ("embeddings.input.texts", "embeddings.input.one_request"),
        lambda b: isinstance(b["input"], list), "embeddings")  # fmt: skip


def _elsewhere(path: str, route: str) -> Any:
    """The edit that sends requests of a route to another path of the worker."""

    def edit(upstream: UpstreamRequest, _this: Any, request: Any) -> UpstreamRequest:
        return dataclasses.replace(upstream, path=path) if request.endpoint.name == route else upstream

    return outgoing(edit)


add(
    "sends_chat_elsewhere",
    "Chat requests go to another path of the worker.",
    ("chat.endpoint.worker_path",),
    _elsewhere("/v1/completions", "chat"),
)
add(
    "sends_completions_elsewhere",
    "Completions go to another path of the worker.",
    ("completions.route",),
    _elsewhere("/v1/chat/completions", "completions"),
)
add(
    "sends_embeddings_elsewhere",
    "Embeddings go to another path of the worker.",
    ("embeddings.route",),
    _elsewhere("/v1/completions", "embeddings"),
)


def _dropped(key: str) -> Any:
    """The edit that takes a member out of a JSON answer, wherever it is."""

    def edit(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: edit(v) for k, v in value.items() if k != key}
        return [edit(item) for item in value] if isinstance(value, list) else value

    return edit


for _route, _prefix, _keys in (
    ("completions", "completions.response", {"id": "id", "object": "object", "created": "created", "model": "model", "text": "choice_text",
                                             "index": "choice_index", "finish_reason": "choice_finish_reason", "usage": "usage_counts",
                                             "logprobs": "logprobs", "choices": "shape"}),
    ("embeddings", "embeddings.response", {"usage": "usage_counts", "data": "shape", "object": "shape", "index": "order"}),
):  # fmt: skip
    for _key, _clause in _keys.items():
        add(f"answers_{_route}_without_{_key}", f"Answers of {_route} lack {_key}.", (f"{_prefix}.{_clause}",),
            answer_json(_dropped(_key), route=_route))  # fmt: skip
add("reserialises_completions", "Answers of completions are parsed and written anew.", ("completions.response.bytes",),
    answer_json(lambda value: value, route="completions"))  # fmt: skip
add("reserialises_embeddings", "Answers of embeddings are parsed and written anew, numbers as doubles.",
    ("embeddings.response.bytes", "embeddings.response.number_text"),
    answer_json(lambda value: _floats(value), route="embeddings"))  # noqa: PLW0108 - defined below  # fmt: skip
add("answers_embeddings_backwards", "Embeddings come back in another order.", ("embeddings.response.order",),
    answer_json(lambda value: value["data"].reverse(), route="embeddings"))  # fmt: skip
add("names_the_alias_in_embeddings", "The model of an answer is replaced.", ("embeddings.model.response_untouched",),
    answer_json(lambda value: value.update(model="conformance-alias"), route="embeddings"))  # fmt: skip
add("names_the_alias_in_completions", "The model of an answer is replaced.", ("completions.response.alias_model",),
    answer_json(lambda value: value.update(model="some-model"), route="completions"))  # fmt: skip


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _floats(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return float(value) if isinstance(value, Number) and not value.encoded_json.isdecimal() else value


def _content_type(route: str, text: str, *, stream: bool) -> Any:
    def edit(answer: Answer, _this: Any, request: Any) -> None:
        if request.endpoint.name == route and stream != isinstance(answer.body, bytes):
            answer.headers = [(k, text if k == "content-type" else v) for k, v in answer.headers]

    return answering(edit)


def _status(route: str, status: int) -> Any:
    def edit(answer: Answer, _this: Any, request: Any) -> None:
        if request.endpoint.name == route and answer.status == 200:
            answer.status = status

    return answering(edit)


for _route in ("completions", "embeddings"):
    add(
        f"answers_{_route}_with_201",
        f"Successes of {_route} have status 201.",
        (f"{_route}.*status",),
        _status(_route, 201),
    )
    add(f"answers_{_route}_as_text", f"Answers of {_route} are declared as plain text.", (f"{_route}.*content_type",),
        _content_type(_route, "text/plain", stream=False))  # fmt: skip
add("streams_completions_as_text", "Streams of completions are declared as plain text.", ("completions.stream.content_type",),
    _content_type("completions", "text/plain", stream=True))  # fmt: skip
for _key, _clause in {"object": "object", "text": "text", "choices": "shape", "usage": "usage_chunk"}.items():
    add(f"streams_completions_without_{_key}", f"Chunks of completions lack {_key}.", (f"completions.stream.{_clause}",),
        chunk_json(_dropped(_key), route="completions"))  # fmt: skip
add("streams_one_choice_of_completions", "Only the first choice is streamed.", ("completions.stream.n_choices",),
    chunk_json(lambda v: v.update(choices=[c for c in v["choices"] if c["index"] == Number("0")]), route="completions"))  # fmt: skip
changes("asks_for_usage_of_completions", "Every stream is asked for usage.", ("completions.stream.usage_default_off",),
        lambda b: b.update(stream_options={"include_usage": True}) if b.get("stream") else None, "completions")  # fmt: skip


async def _whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Everything at the end, in one piece."""
    yield b"".join([piece async for piece in pieces])


async def _without_done(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream without [DONE]."""
    async for piece in pieces:
        if left := piece.replace(b"data: [DONE]\n\n", b""):
            yield left


async def _with_done(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream, and [DONE] after it, whatever was in it."""
    seen = b""
    async for piece in pieces:
        seen = (seen + piece)[-40:]
        yield piece
    if b"[DONE]" not in seen:
        yield b"data: [DONE]\n\n"


async def _never_broken(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream, and its end even when the worker breaks off."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    try:
        async for piece in pieces:
            yield piece
    except GatewayError:
        return


for _route, _prefix in (("completions", "completions.stream"), ("chat", "chat.stream")):
    _done = "done_last" if _route == "completions" else "done.last"
    _own = "done_not_invented" if _route == "completions" else "done.not_invented"
    _arrives = "as_it_arrives" if _route == "completions" else "relay.as_it_arrives"
    _broken = "broken" if _route == "completions" else "broken.visible"
    add(
        f"buffers_streams_of_{_route}",
        "Streams are sent when they are complete.",
        (f"{_prefix}.{_arrives}", *(["chat.stream.broken.prefix_delivered"] if _route == "chat" else [])),
        streaming(_whole, route=_route),
    )
    add(
        f"drops_done_of_{_route}",
        "Streams end without [DONE].",
        (f"{_prefix}.{_done}",),
        streaming(_without_done, route=_route),
    )
    add(
        f"adds_done_to_{_route}",
        "Streams end with [DONE] whatever the worker sent.",
        (
            f"{_prefix}.{_own}",
            *(["chat.stream.done.finish_not_invented", "chat.stream.relay.empty"] if _route == "chat" else []),
        ),
        streaming(_with_done, route=_route),
    )
    add(f"ends_broken_streams_of_{_route}", "Broken streams end as if they were complete.", (f"{_prefix}.{_broken}",),
        streaming(_never_broken, route=_route))  # fmt: skip
