"""Response formats: the three forms arrive whole, and what is no form is refused before any worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_json import kept_order
from conformance.checks.chat_kit import Fields, case, deliver, refused
from conformance.harness.bodies import OMIT, literal
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
PREFIX = "chat.response_format.json_schema"


def _schema(schema: Any = SCHEMA, name: Any = "n", **members: Any) -> Fields:
    """A json_schema response format; OMIT leaves a member out."""
    whole = {"name": name, "schema": schema, **members}
    inner = {key: value for key, value in whole.items() if value is not OMIT}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


RICH = {
    "$defs": {"Näme": {"type": "string", "pattern": "^[A-Z]\\d+$", "description": "é\n😀"}},
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/Näme"}, "b": {"enum": ["x", None, True, []]}, "c": {"anyOf": [{}, False]}},
    "additionalProperties": False,
    "required": ["a"],
    "x-vendor": {"keep": "me"},
}
NUMBERS = {
    "minimum": literal("1.0"),
    "maximum": literal("1"),
    "multipleOf": literal("0.1"),
    "const": literal("9007199254740993"),
}
SPELLED = {"minimum": literal("0.10"), "maximum": literal("1e3"), "const": literal("123456789012345678901234567890")}

WHOLE = [
    case("chat.response_format.text.accepted", {"response_format": {"type": "text"}}),
    case("chat.response_format.json_object.accepted", {"response_format": {"type": "json_object"}}),
    case(f"{PREFIX}.accepted", _schema(strict=True)),
    case(f"{PREFIX}.accepted", {**_schema(strict=True), "stream": True}, name="stream"),
    case(f"{PREFIX}.strict_true_kept", _schema(strict=True)),
    case(f"{PREFIX}.empty_schema_accepted", _schema({})),
    case(f"{PREFIX}.empty_schema_accepted", _schema({}, strict=True), name="strict"),
    case(f"{PREFIX}.schema_verbatim", _schema(RICH)),
    case(f"{PREFIX}.numbers_kept", _schema({"properties": {"a": NUMBERS}})),
    case(f"{PREFIX}.number_text_kept", _schema({"properties": {"a": SPELLED}})),
    case(f"{PREFIX}.description_kept", _schema(description="what the answer is for")),
    case(f"{PREFIX}.one_letter_name_accepted", _schema(name="x")),
]


@pytest.mark.parametrize("fields", WHOLE)
@engines("sglang", "vllm", "tokenspeed")
async def test_response_format_arrives(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """The response format is accepted and arrives with every member that was sent, whatever the engine."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.unchanged("response_format", additions=True)


@clause(f"{PREFIX}.empty_schema_accepted")
async def test_empty_schema_stays_empty(gateway: Gateway, worker: Worker) -> None:
    """Nothing is written into an empty schema: it allows everything, and still does at the worker."""
    delivery = await deliver(gateway, worker, **_schema({}))
    delivery.unchanged("response_format", "json_schema", "schema")


STRICT = [
    case(f"{PREFIX}.strict_false_kept", _schema(strict=False)),
    case(f"{PREFIX}.strict_not_invented", _schema()),
    case(f"{PREFIX}.strict_not_invented", {**_schema(), "stream": True}, name="stream"),
]


@pytest.mark.parametrize("fields", STRICT)
async def test_schema_does_not_become_strict(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """A schema that was not sent as strict does not arrive as strict."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.unset("response_format", "json_schema", "strict", neutral=(False,))


@clause(f"{PREFIX}.schema_order_kept")
async def test_schema_keeps_its_order(gateway: Gateway, worker: Worker) -> None:
    """The properties arrive in the order in which an engine is to generate them."""
    names = ("zulu", "alpha", "mike", "bravo", "yankee", "echo")
    fields = _schema({"type": "object", "properties": {name: {"type": "string"} for name in names}})
    delivery = await deliver(gateway, worker, **fields)
    assert kept_order(delivery.sent["response_format"], delivery.at("response_format"))


NO_SCHEMA = {
    "string": '{"type":"object"}',
    "array": [{"type": "object"}],
    "true": True,
    "false": False,
    "number": 5,
    "null": None,
}
REFUSED = [
    *(case(f"{PREFIX}.{kind}_schema_refused", _schema(value)) for kind, value in NO_SCHEMA.items()),
    case(f"{PREFIX}.string_schema_refused", _schema(""), name="empty"),
    case(f"{PREFIX}.array_schema_refused", _schema([]), name="empty"),
    case(f"{PREFIX}.number_schema_refused", _schema(0), name="zero"),
    case(f"{PREFIX}.null_schema_refused", _schema(None, strict=True), name="strict"),
    case(f"{PREFIX}.missing_schema_refused", _schema(OMIT)),
    case(f"{PREFIX}.empty_name_refused", _schema(name="")),
    case(f"{PREFIX}.missing_name_refused", _schema(name=OMIT)),
    case(f"{PREFIX}.needed", {"response_format": {"type": "json_schema"}}),
    case(f"{PREFIX}.needed", {"response_format": {"type": "json_schema", "json_schema": None}}, name="null"),
    case("chat.response_format.unknown_type_refused", {"response_format": {"type": "xml"}}),
    case(
        "chat.response_format.unknown_type_refused", {"response_format": {"type": "JSON_OBJECT"}}, name="another case"
    ),
    case("chat.response_format.unknown_type_refused", {"response_format": {"type": ""}}, name="empty"),
    case("chat.response_format.missing_type_refused", {"response_format": {}}),
    case(
        "chat.response_format.missing_type_refused",
        {"response_format": {"json_schema": {"name": "n", "schema": {}}}},
        name="form",
    ),
    case("chat.response_format.bare_string_refused", {"response_format": "json_object"}),
]


@pytest.mark.parametrize("invalid", REFUSED)
async def test_response_format_is_refused(gateway: Gateway, worker: Worker, invalid: Fields) -> None:
    """What is none of the three forms is refused; the well-formed twin is served."""
    await refused(gateway, worker, _schema(), invalid)


NEVER = [
    *(
        case(f"{PREFIX}.{kind}_schema_never_dispatched", NO_SCHEMA[kind])
        for kind in ("string", "array", "number", "null")
    ),
    case(f"{PREFIX}.boolean_schema_never_dispatched", NO_SCHEMA["true"], name="true"),
    case(f"{PREFIX}.boolean_schema_never_dispatched", NO_SCHEMA["false"], name="false"),
]


@pytest.mark.parametrize("value", NEVER)
@engines("sglang", "vllm", "tokenspeed")
async def test_bad_schema_reaches_no_worker(gateway: Gateway, worker: Worker, value: object) -> None:
    """Whatever the answer, no worker of any engine hears of the request, streamed or not."""
    for stream in (False, True):
        proof = await gateway.proof(worker, CHAT, {**_schema(), "stream": stream})
        script = worker.script()
        await gateway.chat(script, stream=stream, **_schema(value))
        await script.never_seen(because=proof)


@clause(f"{PREFIX}.refused_on_every_http_engine")
@engines("sglang", "vllm", "tokenspeed")
@pytest.mark.parametrize("value", NO_SCHEMA.values(), ids=NO_SCHEMA.keys())
async def test_bad_schema_is_refused_for_every_engine(gateway: Gateway, worker: Worker, value: object) -> None:
    """The refusal does not depend on the engine that would have served the request."""
    await refused(gateway, worker, _schema(), _schema(value))


@clause(f"{PREFIX}.refused_in_stream")
@pytest.mark.parametrize("value", NO_SCHEMA.values(), ids=NO_SCHEMA.keys())
async def test_bad_schema_is_refused_before_a_stream(gateway: Gateway, worker: Worker, value: object) -> None:
    """A streaming request is refused by a plain answer with its own status, not by an event."""
    refusal = await refused(gateway, worker, {**_schema(), "stream": True}, {**_schema(value), "stream": True})
    assert "event-stream" not in (refusal.headers.get("content-type") or "")
    assert not refusal.exchange.events
