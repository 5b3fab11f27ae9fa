"""Strategies for request bodies: valid by construction, and with exactly one thing wrong.

What is wrong is a bound, a type, a missing key, an unknown member, or a rule between fields; each comes with the
refusal that the contract gives it. Values come from the document through the field cases, so a change there shows here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from conformance.fieldcases import cases
from conformance.fieldcases.bodies import Bodies, fill
from conformance.fieldcases.samples import STEP, UNKNOWN_KEY, UNKNOWN_VALUE, Samples
from spec import openapi
from spec.fields import walk

if TYPE_CHECKING:
    from spec.fields import Field

Outcome = Literal["served", "parse", "validation"]
ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
# Fields that rules tie to others; they come in by `TOGETHER` only.
TIED = {
    "stream", "stream_options", "top_logprobs", "logprobs", "min_tokens", "max_tokens", "max_completion_tokens",
    "regex", "ebnf", "json_schema", "response_format", "tool_choice", "tools", "best_of", "n",
    "model", "messages", "prompt",
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
TOGETHER: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"logprobs": True, "top_logprobs": 5},
        {"min_tokens": 3, "max_tokens": 3},
        {"min_tokens": 3, "max_completion_tokens": 4, "max_tokens": 1},
        {"regex": "[a-z]+", "response_format": {"type": "text"}},
        {"response_format": FORMAT},
        {"tools": [TOOL], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "lookup"}}},
        {"tool_choice": "none"},
        {"n": 10},
    ],
    "completions": [
        {},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"min_tokens": 3, "max_tokens": 3},
        {"best_of": 3, "n": 2},
        {"best_of": 1},
        {"json_schema": "{}"},
        {"n": 128, "logprobs": 5},
    ],
}
BROKEN_RULES: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"stream_options": {}},
        {"stream_options": {"include_usage": True}, "stream": False},
        {"top_logprobs": 0},
        {"top_logprobs": 1, "logprobs": False},
        {"min_tokens": 4, "max_tokens": 3},
        {"min_tokens": 2, "max_completion_tokens": 1, "max_tokens": 9},
        {"regex": "a", "ebnf": "root ::= x"},
        {"regex": "a", "response_format": {"type": "json_object"}},
        {"ebnf": "root ::= x", "response_format": FORMAT},
        {"tool_choice": "required"},
        {"tools": [], "tool_choice": "required"},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "another"}}},
        {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "any", "tools": []}},
    ],
    "completions": [
        {"stream_options": {}},
        {"min_tokens": 4, "max_tokens": 3},
        {"best_of": 2, "n": 2},
        {"best_of": 3, "stream": True},
        {"regex": "a", "json_schema": "{}"},
    ],
}


@dataclass(frozen=True)
class Example:
    """A body, where it goes, and what the contract makes of it; `why` is for reading failures."""

    path: str
    body: Any
    expected: Outcome
    why: str


@cache
def _free(kind: str) -> list[Field]:
    """Fields at the top of the body that no rule ties to another."""
    return [place for place in walk(kind) if len(place.steps) == 1 and place.steps[0] not in TIED]


def _values(place: Field) -> st.SearchStrategy[Any]:
    """Values the document allows at a place: examples, and numbers anywhere within its bounds."""
    samples = Samples(openapi())
    found = [st.sampled_from(samples.examples(place.schema))]
    schema = place.schema
    if "number" in place.types and {"minimum", "maximum"} & schema.keys():
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + STEP)
        found.append(st.floats(least, schema["maximum"], width=32))
    if place.types == {"integer"} and "minimum" in schema:
        found.append(st.integers(max(schema["minimum"], 1), min(schema.get("maximum", 10**6), 10**6)))
    if place.types == {"string"} and not schema.get("enum"):
        found.append(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8))
    return st.one_of(found)


@st.composite
def valid(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """A body that breaks nothing."""
    body: dict[str, Any] = Bodies(kind, Samples(openapi())).base()
    body |= copy.deepcopy(draw(st.sampled_from(TOGETHER[kind])))
    for place in draw(st.lists(st.sampled_from(_free(kind)), max_size=4, unique_by=lambda each: each.steps)):
        body[str(place.steps[0])] = copy.deepcopy(draw(_values(place)))
    if draw(st.booleans()):
        body[UNKNOWN_KEY] = copy.deepcopy(UNKNOWN_VALUE)
    return body


@st.composite
def served(draw: st.DrawFn) -> Example:
    """A body that breaks nothing, with its route."""
    kind = draw(st.sampled_from(sorted(ROUTES)))
    return Example(ROUTES[kind], draw(valid(kind)), "served", "nothing is wrong")


@st.composite
def one_violation(draw: st.DrawFn) -> Example:
    """A valid body in which one thing is wrong: a field case of the document, or a rule between fields."""
    kind = draw(st.sampled_from(sorted(ROUTES)))
    if draw(st.booleans()):
        broken = draw(st.sampled_from(BROKEN_RULES[kind]))
        body = {
            key: value
            for key, value in draw(valid(kind)).items()
            if key not in TIED or key in {"model", "messages", "prompt"}
        }
        return Example(ROUTES[kind], body | copy.deepcopy(broken), "validation", f"a rule: {broken}")
    case = draw(
        st.sampled_from([each for each in cases(kind) if each.expect == "refused" and isinstance(each.body, dict)])
    )
    extra = {key: value for key, value in draw(valid(kind)).items() if key not in TIED and key not in case.body}
    body = copy.deepcopy(case.body) | extra
    return Example(ROUTES[kind], body, _shape(case.name), case.name)


BOUNDS = {
    "minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "excludes", "min_length", "max_length", "min_items",
    "max_items",
}  # fmt: skip
COUNTS = {"n", "best_of", "logprobs", "top_logprobs", "min_tokens", "max_tokens", "stop_token_ids", "sampling_seed"}


def _shape(name: str) -> Outcome:
    """Which refusal a violation gets: a value out of range is a validation failure, what does not fit a parse failure.

    Two kinds of type count as values, as the contract says of one and the real gateway of the other; a negative count
    fits no type of counts.
    """
    path, _, label = name.partition("[")
    aspect = path.rpartition(".")[2]
    if path == "chat.response_format.json_schema.json_schema.schema.type":
        return "validation"
    if path == "chat.tool_choice.allowed_tools.mode.enum":
        return "validation"
    if aspect == "minimum" and label.startswith("-") and COUNTS & set(path.split(".")):
        return "parse"
    return "validation" if aspect in BOUNDS else "parse"


def filled(value: Any, prompt: str) -> Any:
    """The body for a served model with this prompt."""
    return fill(value, model="m", prompt=prompt)
