"""The comparison that judges fidelity can tell every way in which a value may change on its way to a worker."""

from __future__ import annotations

import pytest

from conformance.checks.chat_json import Number, differences, kept_order, parse
from conformance.harness.errors import Disproved

SAME = [
    b"{}",
    b'{"a":1.0,"b":[1,-0.0,1e3,{"c":null}],"d":"\xc3\xa9","e":true}',
    b'{"big":123456789012345678901234567890}',
    b'"text"',
]

CHANGED = [
    (b'{"a":1.0}', b'{"a":1}', "a: sent 1.0, arrived as 1"),
    (b'{"a":1}', b'{"a":"1"}', "a: sent 1, arrived as '1'"),
    (b'{"a":0}', b'{"a":false}', "a: sent 0, arrived as False"),
    (b'{"a":true}', b'{"a":1}', "a: sent True, arrived as 1"),
    (b'{"a":null}', b"{}", "a: sent None, did not arrive"),
    (b"{}", b'{"a":null}', "a: not sent, arrived as None"),
    (b'{"a":[1,2]}', b'{"a":[3,2]}', "a[0]: sent 1, arrived as 3"),
    (b'{"a":[1,2]}', b'{"a":[1]}', "a: sent 2 items, arrived as 1"),
    (b'{"a":{"b":[{"c":"x"}]}}', b'{"a":{"b":[{"c":"X"}]}}', "a.b[0].c: sent 'x', arrived as 'X'"),
    (b'{"a":{}}', b'{"a":[]}', "a: sent {}, arrived as []"),
    (b'{"a":"e\xcc\x81"}', b'{"a":"\xc3\xa9"}', "a: sent"),
]


@pytest.mark.parametrize("raw", SAME)
def test_a_value_is_the_same_as_itself(raw: bytes) -> None:
    """A value that arrives as it was sent shows no difference."""
    assert differences(parse(raw), parse(raw)) == []


@pytest.mark.parametrize(("sent", "got", "line"), CHANGED)
def test_every_change_is_told_with_its_place(sent: bytes, got: bytes, line: str) -> None:
    """Each way to change a value is told in one line that begins with the place."""
    lines = differences(parse(sent), parse(got))
    assert len(lines) == 1
    assert lines[0].startswith(line)


def test_numbers_compare_by_value_on_request() -> None:
    """Without regard to digits, two spellings of a number are the same, two numbers are not."""
    assert differences(Number("1e3"), Number("1000.0"), digits=False) == []
    assert differences(Number("0.95"), Number("0.949999988079071"), digits=False) != []


def test_additions_are_allowed_on_request() -> None:
    """Members that were not sent are no difference where they are allowed, at any depth; lost ones still are."""
    sent, got = parse(b'{"a":{"b":1}}'), parse(b'{"a":{"b":1,"c":2},"d":3}')
    assert differences(sent, got, additions=True) == []
    assert differences(got, sent, additions=True) == ["a.c: sent 2, did not arrive", "d: sent 3, did not arrive"]


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":NaN}', b'{"a":Infinity}', b"\xff", b'{"a":1,"a":2}'])
def test_what_is_no_single_json_value_disproves(raw: bytes) -> None:
    """A worker that is sent broken JSON, or a member twice, was not sent the client's request."""
    with pytest.raises(Disproved):
        parse(raw)


def test_order_is_judged_among_the_members_that_both_have() -> None:
    """A moved member is noticed at any depth, an added one does not count as a move."""
    assert kept_order(parse(b'{"b":1,"a":{"y":1,"x":2}}'), parse(b'{"b":1,"new":0,"a":{"y":1,"x":2}}'))
    assert not kept_order(parse(b'{"b":1,"a":2}'), parse(b'{"a":2,"b":1}'))
    assert not kept_order(parse(b'[{"a":{"y":1,"x":2}}]'), parse(b'[{"a":{"x":2,"y":1}}]'))
