"""The cases made from the document: complete, stable, and right about which bodies the document allows."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import spec
from conformance.fieldcases import Case, cases, fill
from conformance.fieldcases.samples import STEP, json_type
from spec import fields
from spec.schemas import problems

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"chat": "ChatCompletionRequest", "completions": "CompletionRequest", "embeddings": "EmbeddingRequest"}
ALL = [(prefix, case) for prefix in SCHEMA for case in cases(prefix)]


def _named(prefix: str) -> dict[str, Case]:
    """The cases of a request by their names."""
    return {case.name: case for case in cases(prefix)}


def test_every_field_clause_has_a_case() -> None:
    """No aspect of any place is left without a case, and no case decides a clause that is not there."""
    decided = {case.clause_id for _, case in ALL}
    owed = {place.clause_id(aspect) for prefix in SCHEMA for place in fields.walk(prefix) for aspect in place.aspects}
    assert owed <= decided
    assert decided <= set(spec.clauses())


def test_names_are_unique_and_say_their_rule() -> None:
    """A case's name is its rule's id with a value in brackets, and no two cases share one."""
    assert [name for name, n in Counter(case.name for _, case in ALL).items() if n > 1] == []
    rules = set(fields.rule_ids())
    assert {case.name.split("[")[0] for _, case in ALL} == rules


def test_cases_are_the_same_every_time() -> None:
    """The same document, copied, gives the same cases in the same order."""
    assert cases("chat", copy.deepcopy(spec.openapi())) == cases("chat")


def test_what_must_be_accepted_fits_the_document() -> None:
    """The body of every acceptance, and every twin, is valid by the request schema."""
    wrong = [
        (case.name, found[0])
        for prefix, case in ALL
        for body in [case.body if case.expect == "accepted" else case.twin]
        if (found := problems(SCHEMA[prefix], body))
    ]
    assert wrong == []


def test_what_must_be_refused_does_not_fit_the_document() -> None:
    """The body of every refusal is invalid by the request schema, at one place only."""
    allowed = [
        case.name for prefix, case in ALL if case.expect == "refused" and not problems(SCHEMA[prefix], case.body)
    ]
    assert allowed == []


def test_a_twin_differs_in_one_place_only() -> None:
    """A refusal and its twin are the same but for one member of one object or array (or the whole body)."""
    for _, case in ALL:
        if case.expect == "refused" and isinstance(case.body, dict):
            assert _distance(case.twin, case.body) == 1, case.name


def _distance(one: Any, other: Any) -> int:
    """In how many members two values differ."""
    if json_type(one) == json_type(other) == "object":
        names = {*one, *other}
        both = names & one.keys() & other.keys()
        return len(names - both) + sum(_distance(one[name], other[name]) for name in both)
    if json_type(one) == json_type(other) == "array" and len(one) == len(other):
        return sum(map(_distance, one, other))
    return int(json.dumps(one) != json.dumps(other))


def test_every_body_carries_the_prompt_unless_it_is_what_is_judged() -> None:
    """An accepted request always has the prompt in it, so that the worker side can be found."""
    without = [case.name for _, case in ALL if case.expect == "accepted" and "{prompt}" not in json.dumps(case.body)]
    assert without == []


@pytest.mark.parametrize(
    ("prefix", "name", "expect"),
    [
        ("chat", "chat.temperature.maximum[2.0]", "accepted"),
        ("chat", f"chat.temperature.maximum[{2 + STEP}]", "refused"),
        ("chat", "chat.temperature.minimum[0.0]", "accepted"),
        ("chat", f"chat.temperature.minimum[{-STEP}]", "refused"),
        ("chat", "chat.top_p.exclusive_minimum[0.0]", "refused"),
        ("chat", f"chat.top_p.exclusive_minimum[{STEP}]", "accepted"),
        ("chat", "chat.n.maximum[10]", "accepted"),
        ("chat", "chat.n.maximum[11]", "refused"),
        ("completions", "completions.n.maximum[128]", "accepted"),
        ("completions", "completions.n.maximum[129]", "refused"),
        ("completions", "completions.logprobs.maximum[6]", "refused"),
        ("chat", "chat.top_k.excludes[0]", "refused"),
        ("chat", "chat.top_k.excludes[-1]", "accepted"),
        ("chat", "chat.stop.max_items[4 items]", "accepted"),
        ("chat", "chat.stop.max_items[5 items]", "refused"),
        ("chat", "chat.stop.item.min_length[0 characters]", "refused"),
        ("chat", "chat.messages.min_items[0 items]", "refused"),
        ("chat", "chat.messages.role.enum[developer]", "accepted"),
        ("chat", "chat.messages.role.enum[nonsense]", "refused"),
        ("chat", "chat.thinking.type.enum[adaptive]", "accepted"),
        ("chat", "chat.tool_choice.allowed_tools.mode.enum[nonsense]", "refused"),
        ("chat", "chat.user.type[integer]", "refused"),
        ("chat", "chat.user.null[null]", "accepted"),
        ("chat", "chat.model.null[null]", "refused"),
        ("embeddings", "embeddings.input.required[absent]", "refused"),
    ],
)
def test_bounds_members_and_types_are_met_from_both_sides(prefix: str, name: str, expect: str) -> None:
    """At the bound, just inside, just outside: each is there with the right expectation."""
    assert _named(prefix)[name].expect == expect


def test_a_field_comes_with_what_it_must_not_come_without() -> None:
    """Fields that a rule ties to others are sent together with them."""
    named = _named("chat")
    assert named["chat.top_logprobs.maximum[20]"].body["logprobs"] is True
    assert named["chat.stream_options.include_usage.type[boolean]"].body["stream"] is True
    assert named["chat.tool_choice.enum[required]"].body["tools"]


def test_the_arrival_is_where_the_value_was_put() -> None:
    """The place to look at in the worker's body is the place in the client's."""
    named = _named("chat")
    deep = named["chat.messages.assistant.tool_calls.item.function.name.forwarded[lookup]"]
    assert deep.arrival is not None
    assert deep.arrival.inside == ("messages", 1, "tool_calls", 0, "function")
    assert deep.arrival.names == ("name",)
    migrated = named["chat.max_tokens.minimum[1]"]
    assert migrated.arrival is not None
    assert migrated.arrival.names == ("max_completion_tokens", "max_tokens")
    digits = named["chat.temperature.forwarded[0.95]"]
    assert digits.arrival is not None
    assert digits.arrival.digits


def test_placeholders_are_filled_at_every_depth() -> None:
    """Model and prompt go wherever a text names them, and nothing else changes."""
    body = {"model": "{model}", "messages": [{"content": "a {prompt} b", "n": 1}]}
    assert fill(body, model="m", prompt="p") == {"model": "m", "messages": [{"content": "a p b", "n": 1}]}


def _request(document: dict[str, Any]) -> dict[str, Any]:
    """The properties of the chat request."""
    return dict(document["components"]["schemas"]["ChatCompletionRequest"]["properties"])


@pytest.mark.parametrize(
    ("change", "gone", "new"),
    [
        (
            lambda p: p["temperature"].update(maximum=3),
            "chat.temperature.maximum[2.0]",
            "chat.temperature.maximum[3.0]",
        ),
        (lambda p: p["temperature"].pop("maximum"), "chat.temperature.maximum[2.0]", None),
        (lambda p: p["n"].update(type="integer"), None, None),
        (lambda p: p["stop"].update(maxItems=5), "chat.stop.max_items[4 items]", "chat.stop.max_items[6 items]"),
        (lambda p: p["user"].update(type=["string", "integer", "null"]), None, None),
        (lambda p: p["top_k"].pop("not"), "chat.top_k.excludes[0]", None),
    ],
)
def test_a_changed_document_gives_other_cases(
    change: Callable[[dict[str, Any]], object], gone: str | None, new: str | None
) -> None:
    """A constraint that is changed in a copy of the document shows in the cases made from it."""
    document = copy.deepcopy(spec.openapi())
    change(_request(document))
    before, after = _named("chat"), {case.name: case for case in cases("chat", document)}
    assert before != after
    assert gone is None or (gone in before and gone not in after)
    assert new is None or (new not in before and new in after)
