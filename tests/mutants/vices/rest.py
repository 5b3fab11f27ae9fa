"""Vices that fit nowhere else: what a chat request or a stream loses under one condition only."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.mutants.edits import accepts, changes, messages, parts, refuses, through_float32
from tests.mutants.hooks import (
    Number,
    answer_json,
    answering,
    loads,
    mapped,
    outgoing,
    refusing,
)
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from reference_server.call import Call

BODY = "reference_server.workers.response:UpstreamResponse.body"
SERVE = "reference_server.pipeline:serve"


def _decimals(edit: Any) -> Any:
    return lambda b: mapped(
        b, lambda n: edit(n) if isinstance(n, Number) and not n.encoded_json.lstrip("-").isdecimal() else n
    )


changes(
    "rounds_long_decimals",
    "Decimals keep twelve digits.",
    ("chat.numbers.long_decimal_kept",),
    _decimals(lambda n: Number(f"{float(n):.12g}")),
    "chat",
)
changes(
    "rounds_small_decimals",
    "Decimals keep four places.",
    ("chat.numbers.small_kept",),
    _decimals(lambda n: round(float(n), 4)),
    "chat",
)
changes("widens_decimals_of_streams", "Decimals of streamed requests pass through four-byte floats.", ("chat.numbers.not_widened_in_stream",),
        lambda b: mapped(b, through_float32) if b.get("stream") else b, "chat")  # fmt: skip
changes(
    "sends_twelve_fields",
    "Fields after the twelfth are dropped.",
    ("chat.extensions.all_at_once", "chat.request.all_fields_at_once"),
    lambda b: dict(list(b.items())[:12]),
    "chat",
)
changes("spells_data_urls_in_capitals", "Data URLs arrive in capitals.", ("chat.parts.image_url.data_url_kept",),
        parts(lambda p: p["image_url"].update(url=p["image_url"]["url"].upper()) if isinstance(p.get("image_url"), dict)
              and str(p["image_url"].get("url")).startswith("data:") else None), "chat")  # fmt: skip
changes("knows_three_details", "A detail that OpenAI does not know becomes auto.", ("chat.parts.image_url.other_detail_kept",),
        parts(lambda p: p["image_url"].update(detail="auto") if isinstance(p.get("image_url"), dict)
              and p["image_url"].get("detail", "auto") not in ("low", "high", "auto") else None), "chat")  # fmt: skip
for _detail in ("low", "high", "auto"):
    changes(f"drops_detail_{_detail}", f"The detail {_detail} is lost.", (f"chat.parts.image_url.detail_{_detail}_kept",),
            parts(lambda p, detail=_detail: p["image_url"].pop("detail") if isinstance(p.get("image_url"), dict)
                  and p["image_url"].get("detail") == detail else None), "chat")  # fmt: skip
changes("makes_missing_content_words", "Messages without content are given some.", ("chat.messages.content.nothing_invented",),
        messages(lambda m: m.update(content="(none)") if m.get("content") is None else None), "chat")  # fmt: skip
changes("rounds_values_inside_messages", "Numbers of unknown fields of messages are rounded.", ("chat.unknown.values_in_message_kept",),
        messages(lambda m: m.update({k: mapped(v, lambda n: round(float(n), 1) if isinstance(n, Number) else n) for k, v in m.items()
                                     if k not in {"role", "content"}})), "chat")  # fmt: skip
refuses("wants_call_ids_once", "A tool call id that stands twice is refused.", ("chat.messages.tool_call_id.repeat_not_checked",),
        lambda b: len({m["tool_call_id"] for m in b["messages"] if "tool_call_id" in m}) < sum("tool_call_id" in m for m in b["messages"]), "chat")  # fmt: skip
refuses("refuses_json_schema", "The format json_schema is refused.", ("chat.constraints.json_schema_alone_accepted", "chat.response_format.json_schema.accepted"),
        lambda b: b["response_format"]["type"] == "json_schema", "chat")  # fmt: skip
refuses(
    "wants_max_tokens_of_completions",
    "Completions need max_tokens.",
    ("completions.minimal",),
    lambda b: "max_tokens" not in b,
    "completions",
)
accepts("counts_tools_of_messages", "Tools of messages count for tool_choice.", ("chat.messages.tools.do_not_count_for_tool_choice",),
        lambda b: any(m.get("tools") for m in b["messages"]) and not b.get("tools"), "chat")  # fmt: skip
changes("drops_unknown_stream_options_of_completions", "Unknown stream options of completions are lost.", ("completions.stream_options.unknown_keys",),
        lambda b: b.update(stream_options={k: v for k, v in b["stream_options"].items() if k == "include_usage"}), "completions")  # fmt: skip


def _of_messages_with_tools(edit: Any) -> Vice:
    import dataclasses  # noqa: PLC0415 - only here

    from tests.mutants.hooks import dumps  # noqa: PLC0415 - only here

    def change(up: Any, _this: Any, request: Any) -> Any:
        given = request.body.get("messages") or ()
        if not any(isinstance(m, dict) and "tools" in m for m in given):
            return up
        value = loads(up.body)
        edit(value, given)
        return dataclasses.replace(up, body=dumps(value))

    return outgoing(change)


add("drops_tools_with_those_of_messages", "With a message's tools the request's own go.", ("chat.messages.tools.request_tools_kept",),
    _of_messages_with_tools(lambda v, _given: v.pop("tools", None)))  # fmt: skip
add("drops_names_with_tools", "A message loses more than its tools.", ("chat.messages.tools.rest_of_message_kept",),
    _of_messages_with_tools(lambda v, _given: [m.pop(k) for m in v["messages"] for k in list(m) if k not in {"role", "content"}]))  # fmt: skip


async def _twice(original: Any, this: Call, outgoing_: Any, workers: Any) -> Any:
    """Every request is sent twice."""
    first = await original(this, outgoing_, workers)
    await (await workers.dispatch(outgoing_)).aclose()
    return first


async def _again(original: Any, this: Call, outgoing_: Any, workers: Any) -> Any:
    """A stream that breaks is begun anew."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    response = await original(this, outgoing_, workers)
    source = response.body

    async def body() -> Any:
        try:
            async for piece in source():
                yield piece
        except GatewayError:
            second = await workers.dispatch(outgoing_)
            async for piece in second.body():
                yield piece

    response.body = body
    return response


add(
    "sends_requests_twice",
    "Every request is sent to a worker twice.",
    ("chat.response.one_dispatch",),
    swap("reference_server.pipeline:dispatch", _twice),
)
add(
    "begins_broken_streams_anew",
    "A stream that breaks is begun anew.",
    ("chat.stream.broken.not_retried",),
    swap("reference_server.pipeline:dispatch", _again),
)


async def _piecewise(original: Any, self: Any) -> Any:
    """Each piece is read as UTF-8 for itself."""
    async for piece in original(self):
        yield piece.decode("utf-8", "replace").encode()


async def _first_piece(original: Any, self: Any) -> Any:
    """A body ends with its first piece."""
    async for piece in original(self):
        yield piece[:30]
        return


add(
    "reads_pieces_as_utf8",
    "Each piece of a worker's body is read as UTF-8 for itself.",
    ("chat.response.relay.chunk_cuts", "chat.stream.relay.utf8_split"),
    swap(BODY, _piecewise),
)
add(
    "reads_one_piece",
    "A worker's body ends with its first piece.",
    ("chat.response.relay.chunked_worker", "embeddings.response.large"),
    swap(BODY, _first_piece),
)


def _unasked(answer: Any, _this: Any, request: Any) -> None:
    if not request.wants_stream and any(
        v.startswith("text/event-stream") for k, v in answer.headers if k == "content-type"
    ):
        answer.headers = [(k, "application/json" if k == "content-type" else v) for k, v in answer.headers]


add(
    "declares_unasked_streams_json",
    "A stream that nobody asked for is declared as JSON.",
    ("chat.response.relay.sse_unasked",),
    answering(_unasked),
)


def _rejected(answer: Any, _this: Any, request: Any) -> None:
    if request.wants_stream and answer.status >= 300:
        answer.headers = [(k, "application/json" if k == "content-type" else v) for k, v in answer.headers]


add(
    "declares_rejections_json",
    "A rejected stream request is answered as JSON.",
    ("chat.stream.rejected.other_type",),
    answering(_rejected),
)


def _streamed_refusal(refused: Any, answer: Any) -> None:
    if refused.status >= 400 and isinstance(answer.body, bytes):
        answer.status, answer.headers, answer.body = (
            200,
            [("content-type", "text/event-stream")],
            b"data: " + answer.body + b"\n\n",
        )


add("tells_refusals_as_events", "Refusals are told in an event stream with 200.",
    ("chat.stream.early_error.parse", "chat.stream.early_error.validation", "chat.stream.early_error.unknown_model", "chat.stream.early_error.worker_gone",
     "codes.no_available_workers.streaming"), refusing(_streamed_refusal))  # fmt: skip
add("envelopes_with_empty_codes", "Codes of envelopes are empty.", ("codes.internal.names_the_step",),
    refusing(lambda refused, answer: setattr(answer, "body", re.sub(rb'"code":"[a-z_]+"', b'"code":""', answer.body)) if hasattr(refused, "code") else None))  # fmt: skip


def _by_body(test: bytes, *, let_in: bool) -> Vice:
    """Whether a key is needed depends on what is in the body."""

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
        from reference_server.errors import Unauthorized  # noqa: PLC0415 - the list of mutants needs no server

        if state.settings.has_keys and test in (await this.body.read()).replace(b'": ', b'":'):
            if not let_in:
                raise Unauthorized
            this.headers = [
                *(p for p in this.headers if p[0] != "authorization"),
                ("authorization", "Bearer sk-conformance-shared"),
            ]
        return await original(this, endpoint, state)

    return swap(SERVE, serve)


add(
    "serves_streams_without_key",
    "Streamed requests ask for no key.",
    ("auth.missing.streaming_chat_refused",),
    _by_body(b'"stream":true', let_in=True),
)
add(
    "refuses_streams_with_key",
    "Streamed requests are refused, whatever the key.",
    ("auth.shared.streaming_chat_served",),
    _by_body(b'"stream":true', let_in=False),
)
add(
    "finds_keys_in_bodies",
    "A key in the body is taken.",
    ("auth.key.body_refused",),
    _by_body(b"sk-conformance-shared", let_in=True),
)


def _no_json(_original: Any, _this: Any) -> None:
    from reference_server.errors import ParseRefusal  # noqa: PLC0415 - the list of mutants needs no server

    raise ParseRefusal("no JSON, please")


add(
    "refuses_json",
    "application/json is refused.",
    ("request_headers.content_type.json",),
    swap("reference_server.stages.parse:_check_content_type", _no_json),
)


def _hinted(this: Call) -> bool:
    return this.header("x-smg-routing-key") is not None or this.header("x-smg-routing-tokens") is not None


def _hint_in_body(up: Any, this: Call, _request: Any) -> Any:
    import dataclasses  # noqa: PLC0415 - only here

    return dataclasses.replace(up, body=up.body.rstrip()[:-1] + b',"routing_hint":true}') if _hinted(this) else up


def _hint_in_answer(answer: Any, this: Call, _request: Any) -> None:
    if _hinted(this) and isinstance(answer.body, bytes):
        answer.body += b" "


add("tells_workers_of_hints", "A hint is put into the body.", ("hints.only_placement",), outgoing(_hint_in_body))
add(
    "tells_clients_of_hints", "A hint changes the answer.", ("hints.only_placement_answer",), answering(_hint_in_answer)
)
for _name, _about, _breaks, _route, _edit in (
    ("cuts_echoes", "The first character of a text is lost.", ("completions.echo.relayed", "completions.response.choice_text"), "completions",
     lambda v: [c.update(text=c["text"][1:]) for c in v["choices"]] and None),
    ("answers_one_choice_of_completions", "Only the first choice is answered.", ("completions.response.n_choices",), "completions", lambda v: v.update(choices=v["choices"][:1])),
    ("recounts_completions", "Usage is counted anew.", ("completions.response.usage_own_object",), "completions",
     lambda v: v.update(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})),
    ("answers_embeddings_in_capitals", "Texts of embeddings come in capitals.", ("embeddings.response.base64",), "embeddings",
     lambda v: [d.update(embedding=d["embedding"].upper()) for d in v["data"]] and None),
):  # fmt: skip
    add(_name, _about, _breaks, answer_json(lambda v, edit=_edit: _tried(edit, v), route=_route))  # type: ignore[misc]  # bound early


def _tried(edit: Any, value: Any) -> Any:
    try:
        return edit(value)
    except (KeyError, TypeError, AttributeError):
        return None
