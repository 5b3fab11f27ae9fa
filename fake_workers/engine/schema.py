"""Minimal instances of JSON Schemas, so that constrained answers and tool arguments are valid."""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 12
_SIMPLE: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": True, "null": None}


def minimal_instance(schema: Any) -> Any:
    """Return a small value that satisfies a schema of the kinds engines accept.

    Understands const, enum, default, examples, type (also lists), properties with required, items with minItems,
    string lengths, number bounds, $ref within the document, allOf, and the first branch of anyOf and oneOf. A schema
    that is no object gives an empty object.
    """
    return _instance(schema, schema if isinstance(schema, dict) else {}, 0)


def _instance(schema: Any, root: dict[str, Any], depth: int) -> Any:
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
        return _instance(_resolve(schema["$ref"], root), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and branches:
            return _instance(branches[0], root, depth + 1)
    if isinstance(schema.get("allOf"), list):
        schema = _merged(schema, root)
    return _of_type(schema, root, depth)


def _merged(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for branch in schema["allOf"]:
        resolved = _resolve(branch["$ref"], root) if isinstance(branch, dict) and "$ref" in branch else branch
        if not isinstance(resolved, dict):
            continue
        for key, value in resolved.items():
            if key == "properties":
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "required":
                merged[key] = [*merged.get(key, []), *value]
            else:
                merged.setdefault(key, value)
    return merged


def _of_type(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind is None:
        kind = "array" if "items" in schema else "object"
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        item = _instance(schema.get("items", {"type": "null"}), root, depth + 1)
        return [item] * int(schema.get("minItems", 0))
    if kind == "string":
        return "x" * int(schema.get("minLength", 0))
    if kind in {"integer", "number"}:
        return _number(schema)
    return _SIMPLE.get(str(kind), {})


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return {str(name): _instance(known.get(name, {"type": "string"}), root, depth + 1) for name in names}


def _number(schema: dict[str, Any]) -> Any:
    step = 1 if schema.get("type") == "integer" else 0.5
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + step
    if schema.get("maximum", 0) < 0:
        return schema["maximum"]
    if schema.get("exclusiveMaximum", 1) <= 0:
        return schema["exclusiveMaximum"] - step
    return 0


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
