"""Edits of request bodies that several vices share."""

from __future__ import annotations

import contextlib
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import spec
from tests.mutants.hooks import Number, body, containers
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reference_server.call import Call
    from reference_server.endpoints import Endpoint
    from reference_server.stages.parse import ParsedRequest
    from tests.mutants.hooks import Body

    Edit = Callable[..., Any]
    """A function of one value that answers with another, or changes it in place; it may stumble."""


@cache
def known_keys() -> frozenset[str]:
    """Every property name of every schema of the document."""
    found: set[str] = set()
    for schema in spec.openapi()["components"]["schemas"].values():
        found |= schema.get("properties", {}).keys()
    return frozenset(found)


@cache
def top_keys(schema: str) -> frozenset[str]:
    """The fields of a request schema."""
    return frozenset(spec.openapi()["components"]["schemas"][schema]["properties"])


def refuses(name: str, about: str, breaks: Sequence[str], when: Edit, route: str = "") -> None:
    """Register a gateway that refuses bodies which it must accept; a predicate that stumbles means no."""
    from reference_server.errors import ValidationRefusal  # noqa: PLC0415 - the list of mutants needs no server

    async def parse(original: Any, this: Call, endpoint: Endpoint) -> ParsedRequest:
        """Parse as ever, then refuse."""
        request: ParsedRequest = await original(this, endpoint)
        if route in {"", endpoint.name} and _holds(when, request.body):
            raise ValidationRefusal("this gateway does not like it")
        return request

    add(name, about, breaks, swap("reference_server.pipeline:parse", parse))


def accepts(name: str, about: str, breaks: Sequence[str], when: Edit, route: str = "") -> None:
    """Register a gateway that lets bodies pass which it must refuse, without looking at anything else in them."""
    from reference_server import lossless  # noqa: PLC0415 - as above
    from reference_server.stages.parse import ParsedRequest  # noqa: PLC0415 - as above

    def parse_body(original: Any, raw: bytes, endpoint: Endpoint) -> ParsedRequest:
        document = lossless.read(raw)
        if route in {"", endpoint.name} and isinstance(document.value, dict) and _holds(when, document.value):
            return ParsedRequest(endpoint, document)
        found: ParsedRequest = original(raw, endpoint)
        return found

    def validate(original: Any, request: ParsedRequest, profile: Any) -> None:
        if not (route in {"", request.endpoint.name} and _holds(when, request.body)):
            original(request, profile)

    def compose(original: Any, request: ParsedRequest, *rest: Any) -> bytes:
        try:
            found: bytes = original(request, *rest)
        except (KeyError, TypeError, AttributeError):
            return request.document.raw
        return found

    add(
        name, about, breaks,
        Vice({
            "reference_server.stages.parse:parse_body": parse_body,
            "reference_server.pipeline:validate": validate,
            "reference_server.stages.compose:compose": compose,
        }),
    )  # fmt: skip


def _holds(when: Edit, value: Body) -> bool:
    try:
        return bool(when(value))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        return False


def changes(name: str, about: str, breaks: Sequence[str], edit: Edit, route: str = "") -> None:
    """Register a gateway that changes the body on its way to the worker; an edit that stumbles changes nothing."""

    def careful(value: Body) -> Body | None:
        try:
            changed = edit(value)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError):
            return None
        return changed if isinstance(changed, dict) else None

    add(name, about, breaks, body(careful, route=route))


def everywhere(edit: Edit) -> Callable[[Body], None]:
    """The edit of one object, done to every object of a body."""

    def change(value: Body) -> None:
        for each in list(containers(value)):
            edit(each)

    return change


def drop_where(unwanted: Edit) -> Callable[[Body], None]:
    """The edit that takes members out of an object."""

    def change(value: Body) -> None:
        for key in [key for key, member in value.items() if unwanted(key, member)]:
            del value[key]

    return change


def through_float(value: Any) -> Any:
    """A number as a careless reader writes it again: every one becomes a float."""
    return float(value) if isinstance(value, Number) else value


def through_float32(value: Any) -> Any:
    """A decimal as a reader with four-byte floats writes it again."""
    if not isinstance(value, Number) or value.encoded_json.lstrip("-").isdecimal():
        return value
    try:
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    except OverflowError:
        return value


def through_int64(value: Any) -> Any:
    """Integers beyond 53 bits lose their last digits, as in a reader that knows doubles only."""
    if isinstance(value, Number) and value.encoded_json.lstrip("-").isdecimal():
        return int(float(value)) if abs(float(value)) >= 2**53 else value
    return value


def shortened(value: Any) -> Any:
    """Decimals in their shortest form: 1.0 is 1, 0.50 is 0.5."""
    if not isinstance(value, Number) or value.encoded_json.lstrip("-").isdecimal():
        return value
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def messages(edit: Edit) -> Callable[[Body], None]:
    """The edit of one message, done to all."""

    def change(value: Body) -> None:
        for message in value.get("messages", ()):
            with contextlib.suppress(KeyError, TypeError, IndexError, AttributeError, ValueError):
                edit(message)

    return change


def parts(edit: Edit) -> Callable[[Body], None]:
    """The edit of one content part, done to all."""

    def change(message: Body) -> None:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                edit(part)

    return messages(change)


def texts(edit: Callable[[str], str]) -> Callable[[Body], Body]:
    """The edit of every text in a body but the model's name."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: member if key in {"model", "type", "role"} else change(member) for key, member in value.items()
            }
        if isinstance(value, list):
            return [change(item) for item in value]
        return edit(value) if isinstance(value, str) else value

    return change
