"""How the field checks decide whether a value arrived at the worker."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.checks.chat_json import parse
from conformance.fieldcases import Arrival, Case, arrived
from conformance.harness import Disproved, encode


def _judge(arrival: Arrival, sent: Any, got: bytes) -> None:
    """Judge what a worker got of a body."""
    case = Case(
        name="n", clause_id="c", description="it", path="/", body=sent, expect="accepted", arrival=arrival
    )  # fmt: skip
    arrived(case, parse(encode(sent)), parse(got))


@pytest.mark.parametrize(
    ("arrival", "sent", "got"),
    [
        (Arrival(inside=(), names=("n",), value=2), {"n": 2}, b'{"n":2}'),
        (Arrival(inside=(), names=("t",), value=2.0), {"t": 2.0}, b'{"t":2}'),
        (Arrival(inside=(), names=("t",), value=0.95, digits=True), {"t": 0.95}, b'{"t":0.95}'),
        (Arrival(inside=(), names=("new", "old"), value=5), {"old": 5}, b'{"new":5}'),
        (Arrival(inside=("m", 1), names=("c",), value="x"), {"m": [{}, {"c": "x"}]}, b'{"m":[{},{"c":"x"}]}'),
        (Arrival(inside=("s",), names=(1,), value="b"), {"s": ["a", "b"]}, b'{"s":["a","b"]}'),
        (Arrival(inside=(), names=("o",), value={"a": 1}), {"o": {"a": 1}}, b'{"o":{"a":1,"added":true}}'),
    ],
)
def test_a_value_that_arrives_passes(arrival: Arrival, sent: Any, got: bytes) -> None:
    """Equal values pass; so do another spelling where digits are no matter, another name, and added members."""
    _judge(arrival, sent, got)


@pytest.mark.parametrize(
    ("arrival", "sent", "got", "kind"),
    [
        (Arrival(inside=(), names=("n",), value=2), {"n": 2}, b"{}", "did not arrive"),
        (Arrival(inside=(), names=("n",), value=2), {"n": 2}, b'{"n":3}', "arrived changed"),
        (Arrival(inside=(), names=("n",), value=2), {"n": 2}, b'{"n":"2"}', "arrived changed"),
        (Arrival(inside=(), names=("b",), value=False), {"b": False}, b'{"b":0}', "arrived changed"),
        (Arrival(inside=(), names=("t",), value=2.0, digits=True), {"t": 2.0}, b'{"t":2}', "arrived changed"),
        (Arrival(inside=(), names=("t",), value=0.95), {"t": 0.95}, b'{"t":0.949999988079071}', "arrived changed"),
        (Arrival(inside=("m", 1), names=("c",), value="x"), {"m": [{}, {"c": "x"}]}, b'{"m":[{}]}', "did not arrive"),
        (Arrival(inside=("s",), names=(1,), value="b"), {"s": ["a", "b"]}, b'{"s":"ab"}', "did not arrive"),
        (Arrival(inside=(), names=("o",), value={"a": 1}), {"o": {"a": 1}}, b'{"o":{}}', "arrived changed"),
    ],
)
def test_a_value_that_is_lost_or_changed_fails(arrival: Arrival, sent: Any, got: bytes, kind: str) -> None:
    """A missing value, another value, another JSON type, and other digits where they matter."""
    with pytest.raises(Disproved) as failure:
        _judge(arrival, sent, got)
    assert failure.value.kind == kind
