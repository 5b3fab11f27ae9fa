"""The body for the worker: the client's own bytes but for a few rewrites."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.endpoints import CHAT, COMPLETIONS
from reference_server.errors import ValidationRefusal
from reference_server.stages.compose import compose, decimal_string
from reference_server.stages.parse import parse_body
from reference_server.stages.profile import BASELINE
from reference_server.stages.validate import validate

USER = '"messages":[{"role":"user","content":"hi"}]'


def composed(text: str, model: str = "m") -> str:
    """What the worker of a chat request gets."""
    return compose(parse_body(text.encode(), CHAT), BASELINE, model).decode()


@pytest.mark.parametrize(
    "text",
    [
        '{"temperature":0.950,"model":"m",' + USER + ',"top_p":1.0,"zz":1e3,"big":123456789012345678901234567890}',
        ' {"model" : "m",\n' + USER + ',"stop":null,"n":null,"zz":[-0.0,{"\\u00e9":"é"}]} ',
        '{"model":"m","messages":[{"role":"user","content":"x","zz":1.50}],"zz":1,"zz":2}',
        '{"model":"m",' + USER + ',"tools":[{"type":"function","function":{"name":"f","x":1.0},"y":2.0}]}',
        '{"model":"m",' + USER + ',"max_completion_tokens":5,"max_tokens":7}',
    ],
)
def test_without_a_rewrite_the_worker_gets_the_same_bytes(text: str) -> None:
    """Numbers, key order, blanks, nulls and unknown fields at every level are forwarded as sent; nothing is added."""
    assert composed(text) == text


def test_an_alias_becomes_the_model_it_stands_for() -> None:
    """Only the value of `model` changes, also when a deeper key has the same name."""
    text = '{"zz":{"model":"al"},"model":"al",' + USER + "}"
    assert composed(text, 'm/"é') == '{"zz":{"model":"al"},"model":"m/\\"é",' + USER + "}"


def test_max_tokens_becomes_max_completion_tokens() -> None:
    """The key is renamed in its place."""
    text = '{"model":"m","max_tokens": 5 ,' + USER + "}"
    assert composed(text) == '{"model":"m","max_completion_tokens": 5 ,' + USER + "}"


@pytest.mark.parametrize(
    "text",
    [
        '{"max_completion_tokens":null,"model":"m","max_tokens":5,' + USER + "}",
        '{"model":"m","max_tokens":5,"max_completion_tokens":null,' + USER + "}",
        '{"model":"m","max_tokens":5,' + USER + ',"max_completion_tokens":null}',
    ],
)
def test_an_explicit_null_is_unset_and_leaves_no_second_key(text: str) -> None:
    """With `max_completion_tokens: null` the old name still migrates, and the key stands once."""
    pairs = json.loads(composed(text), object_pairs_hook=list)
    assert [value for key, value in pairs if key == "max_completion_tokens"] == [5]
    assert "max_tokens" not in dict(pairs)


def test_completions_keep_max_tokens() -> None:
    """The migration is Chat's own; Completions knows only the old name."""
    raw = b'{"model":"m","prompt":"x","max_tokens":5}'
    assert compose(parse_body(raw, COMPLETIONS), BASELINE, "m") == raw


def test_reasoning_becomes_reasoning_content() -> None:
    """On assistant messages only; other roles have no such field, so theirs is forwarded as sent."""
    text = (
        '{"model":"m","messages":[{"role":"user","content":"x","reasoning":"u"},{"role":"assistant","reasoning":"r"},'
        '{"role":"assistant","content":"y","reasoning" : null}]}'
    )
    messages = json.loads(composed(text))["messages"]
    assert messages == [
        {"role": "user", "content": "x", "reasoning": "u"},
        {"role": "assistant", "reasoning_content": "r"},
        {"role": "assistant", "content": "y", "reasoning_content": None},
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("5", "5"), ("-3", "-3"), ("0.5", "0.5"), ("1.0", "1.0"), ("0.10", "0.1"), ("1e3", "1000.0"),
        ("1e-7", "0.0000001"), ("1e22", "10000000000000000000000"),
        ("12345678901234567890123", "12345678901234567890123"),
    ],
)  # fmt: skip
def test_a_numeric_effort_becomes_its_decimal_string(number: str, text: str) -> None:
    """Integers keep their digits; other numbers are written without an exponent."""
    sent = json.loads(composed('{"model":"m","reasoning_effort":' + number + "," + USER + "}"))
    assert sent["reasoning_effort"] == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_string_means_the_same_number(number: float) -> None:
    """Nothing is rounded on the way, and no exponent appears."""
    text = decimal_string(json.dumps(number))
    assert "e" not in text.lower()
    assert float(text) == number


def test_message_fields_of_another_profile_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """`tools` on messages go, whatever their shape and however often; the request's own stay; one warning is logged."""
    text = (
        '{"model":"m","tools":null,"messages":[{"role":"system","tools":[1.0]},{"tools":1,"tools":2,"role":"user",'
        '"content":"x" , "zz":1.0},{"role":"assistant","tools":[],"reasoning":"r"}]}'
    )
    assert composed(text) == (
        '{"model":"m","tools":null,"messages":[{"role":"system"},{"role":"user",'
        '"content":"x" , "zz":1.0},{"role":"assistant","reasoning_content":"r"}]}'
    )
    assert len(caplog.records) == 1


def test_all_rewrites_together() -> None:
    """Several edits in one body do not get in each other's way."""
    text = (
        '{"messages":[{"role":"assistant","reasoning":"r"}],"reasoning_effort":2,"max_completion_tokens":null,'
        '"model":"al","max_tokens":5,"top_p":0.950}'
    )
    assert composed(text) == (
        '{"messages":[{"role":"assistant","reasoning_content":"r"}],"reasoning_effort":"2",'
        '"model":"m","max_completion_tokens":5,"top_p":0.950}'
    )


TOOL_F = '{"type":"function","function":{"name":"f"}}'


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (
            '"functions":[ {"name":"f"} ,{"name":"g","x":1.0}]',
            f'"tools":[{TOOL_F},' + '{"type":"function","function":{"name":"g","x":1.0}}]',
        ),
        ('"functions":[],"function_call":"none"', '"tools":[],"tool_choice":"none"'),
        (
            '"tools":null,"tool_choice":null,"functions":[{"name":"f"}],"function_call":{"name":"f"}',
            f'"tools":[{TOOL_F}],"tool_choice":{TOOL_F}',
        ),
        ('"functions":[{"name":"f"}],"tools":[]', '"functions":[{"name":"f"}],"tools":[]'),
        ('"function_call":"auto","tool_choice":"none"', '"function_call":"auto","tool_choice":"none"'),
        ('"functions":null,"function_call":null', '"functions":null,"function_call":null'),
    ],
)
def test_the_old_function_fields_take_their_new_names(sent: str, received: str) -> None:
    """`functions` and `function_call` become `tools` and `tool_choice` unless those are set; the rest stays."""
    assert composed('{"model":"m",' + sent + "," + USER + "}") == '{"model":"m",' + received + "," + USER + "}"
    assert composed("{" + sent + ',"model":"m",' + USER + "}") == "{" + received + ',"model":"m",' + USER + "}"


def test_every_rule_about_tools_holds_for_functions() -> None:
    """A `function_call` that names no offered function is refused as a `tool_choice` would be."""
    text = '{"model":"m","functions":[{"name":"f"}],"function_call":{"name":"g"},' + USER + "}"
    with pytest.raises(ValidationRefusal, match="not among the tools"):
        validate(parse_body(text.encode(), CHAT), BASELINE)
