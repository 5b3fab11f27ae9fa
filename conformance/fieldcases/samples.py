"""Values for cases: examples from the document, values of the wrong type, values at and around bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

from spec.document import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 2.0**-7
"""Distance from a bound to a number just inside or outside. A power of two, not too small, survives single precision
with all its digits, so a gateway that widens or narrows floats fails the clauses about digits and not every bound."""
FAR = 1000
"""Distance from a bound to a number far outside."""
UNKNOWN_KEY = "x_unmodelled"
UNKNOWN_VALUE: dict[str, Any] = {"text": "kept", "list": [1, 2.5, None, False], "object": {}}
WRONG_ORDER = ("string", "integer", "number", "boolean", "array", "object")


def json_type(value: Any) -> str:
    """The JSON type of a value; an integer is told from other numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names[type(value)]


class Samples:
    """Values that schemas of one document allow and forbid."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def example(self, schema: dict[str, Any]) -> Any:
        """A value that the schema allows: its first example, or what its parts give.

        Raises:
            ValueError: the schema has no example and nothing to make one from.
        """
        schema = resolve(self.document, schema)
        if schema.get("examples"):
            return schema["examples"][0]
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        for branch in schema.get("oneOf") or schema.get("anyOf") or ():
            return self.example(branch)
        if "array" in schema.get("type", ()) and "items" in schema:
            return [self.example(schema["items"])]
        raise ValueError(f"the document has no example for {json.dumps(schema)[:200]}")

    def examples(self, schema: dict[str, Any]) -> list[Any]:
        """All examples of a schema and of the alternatives of its union; at least one."""
        schema = resolve(self.document, schema)
        found = list(schema.get("examples", ()))
        for branch in schema.get("oneOf") or schema.get("anyOf") or ():
            if resolve(self.document, branch).get("type") != "null":
                found += [example for example in self.examples(branch) if example not in found]
        return found or [self.example(schema)]

    def item(self, array: dict[str, Any]) -> Any:
        """A valid item of an array: from an example of the array, or of its items."""
        of_array = (example[0] for example in array.get("examples", ()) if isinstance(example, list) and example)
        found = next(of_array, None)
        return self.example(array["items"]) if found is None else found

    def of_type(self, schema: dict[str, Any], name: str) -> Any:
        """A value of one JSON type that the schema allows; None when the document gives none."""
        if name == "array" and "items" in schema:
            candidates = [*self.examples(schema), [self.item(schema)]]
        elif name in {"integer", "number"}:
            candidates = [*self.examples(schema), 1, 0, -1, 0.5]
        else:
            candidates = self.examples(schema)
        fitting = (value for value in candidates if json_type(value) == name and self.allows(schema, value))
        return next(fitting, None)

    def allows(self, schema: dict[str, Any], value: Any) -> bool:
        """Whether a schema of this document allows a value."""
        whole = {**schema, "components": self.document["components"]}
        return Draft202012Validator(whole).is_valid(value)

    def wrong(self, types: frozenset[str], example: Any) -> Iterator[tuple[str, Any]]:
        """Values of every JSON type that is not among `types`, each with the name of its type.

        They are chosen so that a gateway which converts would find a valid value in them: the example as text, true
        for one, an array around the example.
        """
        for name in WRONG_ORDER:
            if name in types or (name == "integer" and "number" in types):
                continue
            yield name, self._disguised(name, types, example)

    def _disguised(self, name: str, types: frozenset[str], example: Any) -> Any:
        """A value of the named type in which a gateway that converts would find the example."""
        flat = bool(types & {"integer", "number", "boolean"})
        if name == "string":
            return json.dumps(example) if flat else "text"
        if name == "number":
            return example + 0.5 if json_type(example) == "integer" else 0.5
        if name == "array":
            return [] if "object" in types else [example]
        return {"integer": 1, "boolean": True, "object": {}}[name]
