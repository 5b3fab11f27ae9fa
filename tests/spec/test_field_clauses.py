"""Document, rows and the table between them say the same."""

from __future__ import annotations

import copy
import re
from collections import Counter

import pytest

import spec
from spec import SpecError, fields

FIELD_FILES = frozenset(f"{prefix}_fields.yaml" for prefix in fields.prefixes())


def test_every_constraint_has_its_row_and_every_row_its_constraint() -> None:
    """The ids that the naming rule gives are exactly the rows of the field files, save those said elsewhere."""
    rows = {clause.id for clause in spec.clauses().values() if clause.source in FIELD_FILES}
    assert rows == set(fields.rule_ids()) - set(fields.said_elsewhere())


def test_no_id_comes_twice() -> None:
    """The naming rule gives each constraint an id of its own."""
    assert [name for name, n in Counter(fields.rule_ids()).items() if n > 1] == []


def test_what_is_said_elsewhere_exists_on_both_sides() -> None:
    """The table maps ids of the rule to rows that are there, and no row repeats the id on the left."""
    rules, rows = set(fields.rule_ids()), spec.clauses()
    for rule, row in fields.said_elsewhere().items():
        assert rule.split("[")[0] in rules, rule
        assert row in rows, row
        assert rule not in rows, rule


def test_a_row_is_about_the_field_it_is_named_after() -> None:
    """The text of a field row names its field, so that a copied row cannot hide."""
    for prefix in fields.prefixes():
        for place in fields.walk(prefix):
            for aspect in place.aspects:
                clause = spec.clauses()[place.clause_id(aspect)]
                if clause.source in FIELD_FILES and place.path:
                    word = next(step for step in reversed(place.path) if step != "item")
                    assert word in clause.text, clause.id


def test_bounds_in_rows_are_those_of_the_document() -> None:
    """A row about a bound names the number that the document has."""
    keyword = {
        "minimum": "minimum",
        "maximum": "maximum",
        "max_items": "maxItems",
        "exclusive_minimum": "exclusiveMinimum",
    }
    for prefix in fields.prefixes():
        for place in fields.walk(prefix):
            for aspect in place.aspects:
                clause = spec.clauses()[place.clause_id(aspect)]
                if aspect in keyword and clause.source in FIELD_FILES:
                    assert str(place.schema[keyword[aspect]]) in re.findall(r"-?\d+", clause.text), clause.id


def test_walk_takes_another_document() -> None:
    """A changed copy of the document gives other aspects, and the original is left alone."""
    document = copy.deepcopy(spec.openapi())
    del document["components"]["schemas"]["ChatCompletionRequest"]["properties"]["temperature"]["maximum"]
    assert "chat.temperature.maximum" not in fields.rule_ids(document)
    assert "chat.temperature.maximum" in fields.rule_ids()


def test_alternatives_of_messages_go_by_their_role() -> None:
    """The alternatives of a union of objects are named in ids, and what tells them apart belongs to the union."""
    places = {".".join(place.path): place for place in fields.walk("chat")}
    assert places["messages.user.content"].steps == ("messages", 0, "content")
    assert places["messages.role"].schema["enum"] == ["system", "developer", "user", "assistant", "tool", "function"]
    assert places["stop"].types == {"string", "array"}
    assert places["stop"].nullable
    assert places["model"].required


def test_an_unknown_prefix_is_told_with_the_known_ones() -> None:
    """Asking for a request that the document does not have names those it has."""
    with pytest.raises(SpecError, match="Known prefixes: chat, completions, embeddings"):
        list(fields.walk("rerank"))
