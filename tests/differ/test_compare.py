"""What counts as a disagreement between two gateways, and what does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from conformance.differ.compare import Difference, Observed, differences, error_shape, message_of

ANSWER = b'{"id":"1"}'
SERVED = Observed(200, "application/json", ANSWER, ANSWER, b'{"model":"m"}', (("X-Request-ID", "a"),), 1)
PARSE = {"error": {"message": "no", "type": "invalid_request_error", "code": "json_parse_error"}}
RANGE = {"error": {"message": "n: 5 too large", "type": "invalid_request_error", "code": 400}}
ENVELOPE = {"error": {"type": "Not Found", "code": "model_not_found", "message": "x", "param": None}}


def refused(status: int, error: Any) -> Observed:
    """An error of the gateway's own."""
    return Observed(status, "application/json", json.dumps(error).encode(), ANSWER, None)


def got(body: Any) -> Observed:
    """A served request whose worker received this body."""
    return replace(SERVED, received=json.dumps(body).encode())


def test_the_same_is_no_difference() -> None:
    """Two equal observations differ in nothing."""
    assert differences(SERVED, SERVED) == []
    assert differences(refused(400, PARSE), refused(400, PARSE)) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"n": None}, {}),
        ({"top_p": 0.95}, {"top_p": 0.949999988079071}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_null_order_and_single_precision_are_no_difference(left: Any, right: Any) -> None:
    """Null counts as absent, keys have no order, and numbers may have gone through single precision."""
    assert differences(got(left), got(right)) == []


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": 1}, {}, "worker body a: integer | absent"),
        ({"a": "1"}, {"a": 1}, "worker body a: string | integer"),
        ({"a": True}, {"a": 1}, "worker body a: True | integer"),
        ({"m": [{"x": 1}, {"x": 2}]}, {"m": [{"x": 1}, {}]}, "worker body m[].x: integer | absent"),
        ({"m": [1, 2]}, {"m": [1]}, "worker body m: array | array"),
        ({"big": 2**70}, {"big": 2**70 + 2**60}, "worker body big: huge integer | huge integer"),
    ],
)
def test_what_the_worker_got_is_compared_by_place(left: Any, right: Any, expected: str) -> None:
    """A value that only one side passed on, or passed on as another, is named by its place."""
    assert [str(each) for each in differences(got(left), got(right))] == [expected]


def test_outcomes_are_compared_by_shape() -> None:
    """Served, the two refusals, envelopes and relayed errors are told apart, and nothing else of such a pair is."""
    outcomes = [SERVED, refused(400, PARSE), refused(400, RANGE), refused(404, ENVELOPE)]
    names = [each.outcome for each in outcomes]
    assert names == ["served", "400 parse", "400 validation", "404 envelope model_not_found"]
    assert differences(outcomes[1], outcomes[2]) == [Difference("outcome", "", "400 parse", "400 validation")]
    assert replace(SERVED, status=422).outcome == "served"
    assert replace(SERVED, status=None, body=b"", received=None).outcome == "no answer"


def test_dispatches_headers_and_answers_are_compared() -> None:
    """A second dispatch, another worker header, another status or type of a relayed answer are disagreements."""
    assert [each.aspect for each in differences(SERVED, replace(SERVED, dispatches=2))] == ["dispatches"]
    other = replace(SERVED, headers=(("x-request-id", "b"), ("Host", "elsewhere")))
    assert differences(SERVED, other) == [Difference("worker header", "x-request-id", "a", "b")]
    assert [each.aspect for each in differences(SERVED, replace(SERVED, content_type="text/html"))] == ["answer type"]
    assert [each.aspect for each in differences(SERVED, replace(SERVED, status=201))] == ["status"]
    changed = replace(SERVED, body=b"{}")
    assert differences(SERVED, changed) == [Difference("outcome", "", "served", "200")]


@pytest.mark.parametrize(
    ("body", "content_type", "shape"),
    [
        (b"", "application/json", "empty"),
        (b"no", "text/plain; charset=utf-8", "of type text/plain"),
        (b"{}", "application/json", "without envelope"),
        (b'{"error":{"code":1}}', "application/json", "shape ['code']"),
    ],
)
def test_error_shapes(body: bytes, content_type: str, shape: str) -> None:
    """Bodies that have none of the contract's shapes are named for what they are."""
    assert error_shape(body, content_type) == shape


def test_messages_lose_what_varies() -> None:
    """Numbers, quoted values and the order of lines do not make a message another one."""
    one = refused(400, {"error": {"message": "n: got 5\ntop_p: 'x' is odd"}})
    two = refused(400, {"error": {"message": "top_p: 'y' is odd\nn: got 17"}})
    assert message_of(one) == message_of(two) != ""
