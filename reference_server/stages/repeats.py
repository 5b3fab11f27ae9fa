"""Keys that stand twice in a request: refused where the contract models the key, let pass where it does not.

Rarely needed, so it may be slow: the OpenAPI document is walked together with the body, only for bodies in which the
reader has noticed a repeated key somewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference_server.errors import ParseRefusal
from reference_server.lossless import Repeated

if TYPE_CHECKING:
    from collections.abc import Iterator


def refuse_repeated_modelled_keys(schema_name: str, body: Any) -> None:
    """Refuse a body in which a key of the schema stands more than once in one object.

    Args:
        schema_name: a schema under `components/schemas`.
        body: the parsed body, objects with repeated keys being `Repeated`.

    Raises:
        ParseRefusal: names the key and the object.
    """
    document = _document()
    _refuse(document, document["components"]["schemas"][schema_name], body, "")


def _document() -> dict[str, Any]:
    from spec.document import openapi  # noqa: PLC0415 - half a second that no server start should pay for

    return openapi()


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    from spec.document import resolve  # noqa: PLC0415 - see above

    return resolve(document, schema)


def _refuse(document: dict[str, Any], schema: dict[str, Any], value: Any, where: str) -> None:
    for alternative in _alternatives(document, schema, value):
        properties: dict[str, Any] = alternative.get("properties", {})
        if isinstance(value, Repeated):
            twice = sorted(value.repeated_keys & properties.keys())
            if twice:
                place = f"{where}: " if where else ""
                raise ParseRefusal(f"Invalid request body: {place}duplicate field {twice[0]!r}")
        if isinstance(value, dict):
            for key, below in properties.items():
                if key in value:
                    _refuse(document, below, value[key], f"{where}.{key}" if where else key)
        elif isinstance(value, list) and isinstance(alternative.get("items"), dict):
            for index, item in enumerate(value):
                _refuse(document, alternative["items"], item, f"{where}[{index}]")


def _alternatives(document: dict[str, Any], schema: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
    """The schema itself, or the alternatives of its union that this value can mean."""
    schema = _resolve(document, schema)
    known = schema.get("x-known-parts")
    if known and isinstance(value, dict):
        # A part of a type that is not modelled is forwarded as sent, whatever it repeats besides its type.
        kind = value.get("type")
        yield {"properties": {"type": {}}}
        if isinstance(kind, str) and kind in known:
            yield _resolve(document, {"$ref": known[kind]})
        return
    branches = schema.get("oneOf") or schema.get("anyOf")
    if not branches:
        yield schema
        return
    for branch in branches:
        resolved = _resolve(document, branch)
        if not _excluded(resolved, value):
            yield from _alternatives(document, resolved, value)


def _excluded(schema: dict[str, Any], value: Any) -> bool:
    """Whether a constant of this alternative (`type`, `role`) says that the value is another one."""
    if not isinstance(value, dict):
        return False
    constants = ((key, below["const"]) for key, below in schema.get("properties", {}).items() if "const" in below)
    return any(key in value and value[key] != constant for key, constant in constants)
