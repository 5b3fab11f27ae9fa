"""Judging a body by its generated model, and telling the two kinds of failure apart.

The models come from the OpenAPI document and know types and bounds alike. The contract answers them differently: what
does not fit the schema is a parse failure, a value outside its bounds a validation failure. A union reports the
failures of all its alternatives; the one that the client meant is the one that fails least.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from reference_server.stages import widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} item(s)",
    "too_long": "must have at most {max_length} items, not {actual_length}",
}
"""Failures of bounds, by the name the model's library gives them, and how they are worded."""

_BY_THE_CONTRACT_VALIDATION = {
    ("dict_type", ("response_format", "json_schema", "schema")): "must be a JSON object",
    ("literal_error", ("tool_choice", "mode")): "must be auto or required",
}
"""Failures of type that the contract, or where it is silent the real gateway, counts as validation."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a body. `where` names the field as in `messages[0].content`; empty for the body itself."""

    where: str
    message: str
    is_bound: bool

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def problems(model: type[BaseModel], value: Any) -> list[Problem]:
    """What is wrong with a parsed body, in the order of the model's fields; of a union only its nearest alternative."""
    if not isinstance(value, dict):
        return [Problem("", f"the body must be a JSON object, not {_kind(value)}", is_bound=False)]
    try:
        model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True, include_input=True)
        return _nearest([_Found(detail, value) for detail in details])
    return []


class _Found:
    """A failure of the model: where it is in the body, and through which alternatives of unions it was reached."""

    def __init__(self, detail: ErrorDetails, body: Any) -> None:
        self.steps: list[str | int] = []
        self.union_at: int | None = None  # how many steps lead to the first union on the way
        self.alternative = ""
        self._walk(detail, body)
        names = tuple(step for step in self.steps if isinstance(step, str))
        worded = _BOUNDS.get(detail["type"]) or _BY_THE_CONTRACT_VALIDATION.get((detail["type"], names))
        mode_is_text = names != ("tool_choice", "mode") or isinstance(detail["input"], str)
        too_wide = widths.beyond(names[0], detail["input"]) if len(names) == 1 else None
        self.is_bound = worded is not None and mode_is_text and too_wide is None
        message = worded.format(**detail.get("ctx", {})) if self.is_bound and worded else _type_message(detail)
        if worded and too_wide:
            message = too_wide
        self.problem = Problem(_where(self.steps), message, self.is_bound)

    def _walk(self, detail: ErrorDetails, body: Any) -> None:
        """Follow the place through the body; what leads nowhere in it is the name of an alternative."""
        here = body
        last = len(detail["loc"]) - 1
        for index, step in enumerate(detail["loc"]):
            if _leads_on(here, step):
                here = here[step]
            elif index != last or detail["type"] != "missing":
                if self.union_at is None and not _is_tag(here, step):
                    self.union_at, self.alternative = len(self.steps), str(step)
                continue
            self.steps.append(step)


def _leads_on(here: Any, step: str | int) -> bool:
    if isinstance(here, dict):
        return step in here
    return isinstance(here, list) and isinstance(step, int) and step < len(here)


def _is_tag(here: Any, step: str | int) -> bool:
    """Whether a step only repeats the role by which a message's alternative was chosen: no choice is left there."""
    return isinstance(here, dict) and here.get("role") == step


def _nearest(found: Sequence[_Found]) -> list[Problem]:
    kept: list[Problem] = []
    for place, group in groupby(found, key=lambda each: tuple(each.steps[: each.union_at]) if each.union_at else None):
        members = list(group)
        if place is None:
            kept += [each.problem for each in members]
            continue
        alternatives: dict[str, list[_Found]] = {}
        for each in members:
            alternatives.setdefault(each.alternative, []).append(each)
        kept += [each.problem for each in min(alternatives.values(), key=_distance)]
    return kept


def _distance(alternative: list[_Found]) -> tuple[bool, bool, int]:
    """How far an alternative is from fitting: bounds only, then the right type, then the deepest failure."""
    wrong_kind = any(each.problem.where.endswith(".type") for each in alternative)
    deepest = max(len(each.steps) for each in alternative)
    return (any(not each.is_bound for each in alternative), wrong_kind, -deepest)


def _type_message(detail: ErrorDetails) -> str:
    if detail["type"] == "missing":
        return "this field is required"
    if detail["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        expected = detail.get("ctx", {}).get("expected_tags")
        return f"role must be one of {expected}" if expected else "role is required"
    wanted = {
        "string_type": "a string", "int_type": "an integer", "float_type": "a number", "bool_type": "true or false",
        "list_type": "an array", "dict_type": "an object", "model_type": "an object",
        "model_attributes_type": "an object",
    }.get(detail["type"])  # fmt: skip
    if wanted is not None:
        return f"must be {wanted}, not {_kind(detail['input'])}"
    expected = detail.get("ctx", {}).get("expected")
    return f"must be {expected}" if expected else "has a form that is not accepted here"


def _kind(value: Any) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def _where(steps: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
