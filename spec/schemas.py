"""Judging JSON values by the schemas of the OpenAPI document (JSON Schema 2020-12)."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from spec.document import openapi
from spec.loading import SpecError

LIMIT = 20
"""At most so many problems are reported for one value: a wrong answer needs no book."""


def problems(name: str, value: Any, *, document: dict[str, Any] | None = None) -> list[str]:
    """What is wrong with a value, one sentence each with the place in it; empty when nothing is.

    Args:
        name: a schema under `components/schemas`, for example `ChatCompletion`.
        value: a parsed JSON value.
        document: another OpenAPI document (mutants); the package's own when left out.

    Raises:
        SpecError: there is no schema of that name.
    """
    validator = _validator(name) if document is None else _build(name, document)
    found: list[str] = []
    for error in validator.iter_errors(value):
        found.append(_sentence(error))
        if len(found) == LIMIT:
            break
    return sorted(found)


@cache
def _validator(name: str) -> Draft202012Validator:
    """A schema of the package's own document, ready for use."""
    return _build(name, openapi())


def _build(name: str, document: dict[str, Any]) -> Draft202012Validator:
    """A schema of a document, ready for use."""
    schemas = document["components"]["schemas"]
    if name not in schemas:
        raise SpecError("spec/openapi.yaml", f"has no schema {name!r}", f"Use one of {', '.join(sorted(schemas))}")
    # The whole document is the resource, so that references of the form #/components/schemas/X find their target.
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


def _sentence(error: ValidationError) -> str:
    """One problem as `place: message`; of a union that failed, the alternative that came closest."""
    if error.context:
        closest = best_match(error.context)
        if closest is not None:
            error = closest
    place = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    return f"{place}: {error.message[:300]}"
