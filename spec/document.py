"""The OpenAPI document: parsed once, with its local references followed."""

from __future__ import annotations

from functools import cache
from typing import Any

from spec.loading import HERE, SpecError, read_yaml

PATH = HERE / "openapi.yaml"


@cache
def openapi() -> dict[str, Any]:
    """The parsed OpenAPI 3.1 document. Shared: treat it as read-only, and copy before changing anything.

    Raises:
        SpecError: the document is missing or no mapping.
    """
    document = read_yaml(PATH)
    if not isinstance(document, dict) or "components" not in document:
        raise SpecError(
            "spec/openapi.yaml", "is no OpenAPI document with components", "Restore it from version control"
        )
    return document


def resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with a `$ref` at its top replaced by what it points to (siblings of the reference win).

    Args:
        document: the OpenAPI document in which local references are looked up.
        schema: a schema object, with or without `$ref`.

    Raises:
        SpecError: the reference is not local or points to nothing.
    """
    while "$ref" in schema:
        pointer = schema["$ref"]
        target: Any = document
        if not pointer.startswith("#/"):
            raise SpecError(
                "spec/openapi.yaml", f"the reference {pointer!r} is not local", "Keep all schemas in one file"
            )
        for step in pointer[2:].split("/"):
            if not isinstance(target, dict) or step not in target:
                raise SpecError("spec/openapi.yaml", f"the reference {pointer!r} points to nothing", "Correct the name")
            target = target[step]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema
