"""Bodies that cannot be parsed into the request type: refused with 400 json_parse_error, in a shape of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from conformance.checks.routes_support import (
    ERROR_CODE,
    NOBODYS_MODEL,
    check_plain_json,
    error_of,
    expect_code,
    expect_equal,
    expect_members,
    expect_status,
)
from conformance.harness.bodies import OMIT
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


class Bad(NamedTuple):
    """A request that cannot be parsed: its body (laid over the ordinary one, or bytes) and its content type."""

    name: str
    body: dict[str, Any] | bytes
    content_type: str | None = "application/json"

    @property
    def headers(self) -> list[tuple[str, str | None]]:
        """The header that goes with it."""
        return [("content-type", self.content_type)]


PROMPTED = b'{"model":"m","messages":[{"role":"user","content":"{{prompt}}"}]'
SYNTAX = [
    Bad("truncated", PROMPTED),
    Bad("truncated-string", PROMPTED[:-4]),
    Bad("trailing-garbage", PROMPTED + b"} x"),
    Bad("two-documents", PROMPTED + b"}{}"),
    Bad("trailing-comma", PROMPTED + b",}"),
    Bad("single-quotes", PROMPTED + b",'n':1}"),
    Bad("bare-key", PROMPTED + b",n:1}"),
    Bad("nan", PROMPTED + b',"temperature":NaN}'),
    Bad("infinity", PROMPTED + b',"temperature":Infinity}'),
    Bad("leading-zero", PROMPTED + b',"temperature":01}'),
    Bad("plus-sign", PROMPTED + b',"temperature":+1}'),
    Bad("comment", PROMPTED + b"/* hello */}"),
    Bad("invalid-utf8", PROMPTED + b',"user":"\xff\xfe"}'),
    Bad("control-character", PROMPTED + b',"user":"a\x01b"}'),
    Bad("bad-escape", PROMPTED + b',"user":"\\x41"}'),
    Bad("byte-order-mark", b"\xef\xbb\xbf" + PROMPTED + b"}"),
    Bad("utf-16", (PROMPTED + b"}").decode().encode("utf-16")),
    Bad("plain-text", b"Say hello. {{prompt}}"),
    Bad("form", b"model=m&prompt={{prompt}}"),
]
SCHEMA = [
    Bad("array", b'["{{prompt}}"]'),
    Bad("text", b'"{{prompt}}"'),
    Bad("number", b"5"),
    Bad("null", b"null"),
    Bad("empty-object", b"{}"),
    Bad("model-is-number", {"model": 5}),
    Bad("model-missing", {"model": OMIT}),
]
CHAT_SCHEMA = [
    *SCHEMA,
    Bad("temperature-is-text", {"temperature": "1"}),
    Bad("unknown-role", {"messages": [{"role": "wizard", "content": "{{prompt}}"}]}),
]
COMPLETIONS_SCHEMA = [
    *SCHEMA,
    Bad("temperature-is-text", {"temperature": "1"}),
    Bad("prompt-missing", {"prompt": OMIT}),
]
EMBEDDINGS_SCHEMA = [*SCHEMA, Bad("input-missing", {"input": OMIT})]
EMPTY = [Bad("empty", b""), Bad("blanks", b" \r\n")]
NO_CONTENT_TYPE = [Bad("none", {}, None)]
OTHER_CONTENT_TYPE = [
    Bad("text-plain", {}, "text/plain"),
    Bad("form", {}, "application/x-www-form-urlencoded"),
    Bad("octet-stream", {}, "application/octet-stream"),
    Bad("xml", {}, "application/xml"),
    Bad("json-as-parameter", {}, "text/plain; format=application/json"),
    Bad("empty", {}, ""),
]
CHAT_CASES = {
    "bad_json": SYNTAX,
    "empty_body": EMPTY,
    "schema": CHAT_SCHEMA,
    "no_content_type": NO_CONTENT_TYPE,
    "other_content_type": OTHER_CONTENT_TYPE,
}
FEW = [SYNTAX[0], SYNTAX[2], EMPTY[0], NO_CONTENT_TYPE[0], OTHER_CONTENT_TYPE[0]]
"""One or two of each kind, for routes on which parsing is one sentence."""


def _chat_cases(aspect: str) -> list[Any]:
    """Every chat case under the clause of its cause and this aspect."""
    return [
        case(f"errors.parse.{cause}.{aspect}", bad, name=f"{cause}-{bad.name}")
        for cause, cases in CHAT_CASES.items()
        for bad in cases
    ]


def _other_cases() -> list[Any]:
    """Route, path and bad request of completions and embeddings."""
    routes = {"completions": (COMPLETIONS, COMPLETIONS_SCHEMA), "embeddings": (EMBEDDINGS, EMBEDDINGS_SCHEMA)}
    return [
        pytest.param(name, path, bad, id=f"{name}-{bad.name}")
        for name, (path, schema) in routes.items()
        for bad in [*FEW, *schema]
    ]


def _route_cases(aspect: str) -> list[Any]:
    """The same cases under their route's clause of this aspect."""
    return [case(f"errors.parse.{each.values[0]}.{aspect}", *each.values[1:], name=each.id) for each in _other_cases()]


@pytest.mark.parametrize("bad", _chat_cases("refused"))
async def test_chat_body_is_refused(gateway: Gateway, worker: Worker, bad: Bad) -> None:
    """The well-formed twin is served; the body that cannot be parsed is refused with 400, and no worker hears of it."""
    await gateway.refuses(worker, CHAT, {}, bad.body, invalid_headers=bad.headers)


@pytest.mark.parametrize(("path", "bad"), _route_cases("refused"))
async def test_other_body_is_refused(gateway: Gateway, worker: Worker, path: str, bad: Bad) -> None:
    """Completions and embeddings refuse with 400 what they cannot parse, and no worker hears of it."""
    await gateway.refuses(worker, path, {}, bad.body, invalid_headers=bad.headers)


async def _answer(gateway: Gateway, path: str, bad: Bad) -> Exchange:
    """What the gateway says to a body that cannot be parsed, provided it is a 400."""
    whole = {CHAT: gateway.chat_body, COMPLETIONS: gateway.completion_body, EMBEDDINGS: gateway.embedding_body}[path]
    body = bad.body if isinstance(bad.body, bytes) else whole(None, **bad.body)
    return expect_status(await gateway.post(path, body, bad.headers), 400)


@pytest.mark.parametrize("bad", _chat_cases("code"))
async def test_chat_code(gateway: Gateway, bad: Bad) -> None:
    """The code of a chat body that cannot be parsed is json_parse_error."""
    expect_code(await _answer(gateway, CHAT, bad), "json_parse_error")


@pytest.mark.parametrize(("path", "bad"), _route_cases("code"))
async def test_other_code(gateway: Gateway, path: str, bad: Bad) -> None:
    """The code of a completions or embeddings body that cannot be parsed is json_parse_error."""
    expect_code(await _answer(gateway, path, bad), "json_parse_error")


ONE_OF_EACH = [SYNTAX[0], EMPTY[0], CHAT_SCHEMA[-1], NO_CONTENT_TYPE[0], OTHER_CONTENT_TYPE[0]]
one_of_each = pytest.mark.parametrize(
    "bad", [pytest.param(bad, id=f"{number}-{bad.name}") for number, bad in enumerate(ONE_OF_EACH)]
)


@one_of_each
@clause("errors.parse.error_type")
async def test_type(gateway: Gateway, bad: Bad) -> None:
    """The type is invalid_request_error."""
    expect_equal("another type", error_of(await _answer(gateway, CHAT, bad)).get("type"), "invalid_request_error")


@one_of_each
@clause("errors.parse.keys")
async def test_members(gateway: Gateway, bad: Bad) -> None:
    """The error object has message, type and code, and nothing else."""
    expect_members(await _answer(gateway, CHAT, bad), "message", "type", "code")


@one_of_each
@clause("errors.parse.message_is_text")
async def test_message(gateway: Gateway, bad: Bad) -> None:
    """The message is a string that says something."""
    message = error_of(await _answer(gateway, CHAT, bad)).get("message")
    assert isinstance(message, str)
    assert message.strip()


@one_of_each
@clause("errors.parse.no_code_header")
async def test_no_header(gateway: Gateway, bad: Bad) -> None:
    """There is no X-SMG-Error-Code, for this is not the envelope."""
    assert ERROR_CODE not in (await _answer(gateway, CHAT, bad)).headers


@one_of_each
@clause("errors.parse.json_content_type")
async def test_content_type(gateway: Gateway, bad: Bad) -> None:
    """A client can tell from the content type that the refusal is JSON."""
    check_plain_json(await _answer(gateway, CHAT, bad))


@clause("codes.json_parse_error")
async def test_status_and_code_together(gateway: Gateway, worker: Worker) -> None:
    """A body that is JSON and no request answers 400 with json_parse_error, and no worker hears of it."""
    refused = await gateway.refuses(worker, CHAT, {}, {"messages": "{{prompt}}"})
    expect_code(refused.exchange, "json_parse_error")


@clause("errors.order.parse_before_range")
async def test_schema_is_judged_before_ranges(gateway: Gateway, worker: Worker) -> None:
    """A field out of range beside a field of the wrong type: the latter is what is told."""
    refused = await gateway.refuses(worker, CHAT, {}, {"temperature": 9, "stop": 5})
    expect_code(refused.exchange, "json_parse_error")


@pytest.mark.parametrize(
    "invalid",
    [
        case("errors.order.range_before_model", {"temperature": 9}, name="range"),
        case("errors.order.parse_before_model", {"temperature": "warm"}, name="schema"),
    ],
)
async def test_body_is_judged_before_the_model(gateway: Gateway, worker: Worker, invalid: dict[str, Any]) -> None:
    """For a model nobody serves, a bad body is 400: the model is looked for last."""
    expect_status(await gateway.chat(worker.script(), model=NOBODYS_MODEL), 404)
    expect_status(await gateway.chat(worker.script(), model=NOBODYS_MODEL, **invalid), 400)
