"""Minimal instances of JSON Schemas, so that constrained answers and tool arguments are valid."""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 12
_MAX_SIZE = 100_000  # of the whole instance, in items and characters: no schema may ask for all memory
_HUGE = 1e18
_SIMPLE: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": True, "null": None}


def minimal_instance(schema: Any) -> Any:
    """Return a small value that satisfies a schema of the kinds engines accept.

    Understands const, enum, default, examples, type (also lists), properties with required, items with minItems,
    string lengths, number bounds, $ref within the document, allOf, and the first branch of anyOf and oneOf. A schema
    that is no object gives an empty object.
    """
    return _instance(schema, schema if isinstance(schema, dict) else {}, 0, _MAX_SIZE)


def _instance(schema: Any, root: dict[str, Any], depth: int, room: int) -> Any:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return values[0]
    if isinstance(schema.get("$ref"), str):
        return _instance(_resolve(schema["$ref"], root), root, depth + 1, room)
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and branches:
            return _instance(branches[0], root, depth + 1, room)
    if isinstance(schema.get("allOf"), list):
        schema = _merged(schema, root)
    return _of_type(schema, root, depth, room)


def _merged(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for branch in schema["allOf"]:
        resolved = _resolve(branch["$ref"], root) if isinstance(branch, dict) and "$ref" in branch else branch
        if not isinstance(resolved, dict):
            continue
        for key, value in resolved.items():
            if key == "properties" and isinstance(value, dict):
                merged[key] = {**_of(dict, merged.get(key)), **value}
            elif key == "required" and isinstance(value, list):
                merged[key] = [*_of(list, merged.get(key)), *value]
            else:
                merged.setdefault(key, value)
    return merged


def _of_type(schema: dict[str, Any], root: dict[str, Any], depth: int, room: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if not isinstance(kind, str):
        kind = "array" if "items" in schema else "object"
    if kind == "object":
        return _object(schema, root, depth, room)
    if kind == "array":
        count = min(_size(schema.get("minItems")), room)
        item = _instance(schema.get("items", {"type": "null"}), root, depth + 1, room // max(count, 1))
        return [item] * count
    if kind == "string":
        return "x" * min(_size(schema.get("minLength")), room)
    if kind in {"integer", "number"}:
        return _number(schema)
    return _SIMPLE.get(kind, {})


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int, room: int) -> dict[str, Any]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    each = room // max(len(names), 1)
    return {name: _instance(known.get(name, {"type": "string"}), root, depth + 1, each) for name in names}


def _number(schema: dict[str, Any]) -> Any:
    step = 1 if schema.get("type") == "integer" else 0.5
    bounds = {key: value for key, value in schema.items() if isinstance(value, (int, float))}
    if "minimum" in bounds:
        return bounds["minimum"]
    if "exclusiveMinimum" in bounds:
        return bounds["exclusiveMinimum"] + step
    if bounds.get("maximum", 0) < 0:
        return bounds["maximum"]
    if bounds.get("exclusiveMaximum", 1) <= 0:
        return bounds["exclusiveMaximum"] - step
    return 0


def _size(value: Any) -> int:
    return max(int(value), 0) if isinstance(value, (int, float)) and abs(value) < _HUGE else 0


def _of(kind: type[Any], value: Any) -> Any:
    """Return a value of the kind, an empty one in place of any other."""
    return value if isinstance(value, kind) else kind()


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    """Follow a local reference such as ``#/$defs/Point``; anything else gives an empty schema."""
    if not reference.startswith("#"):
        return {}
    value: Any = root
    for part in reference.lstrip("#").strip("/").split("/"):
        if not part:
            continue
        key = part.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, dict) else None
    return value
