"""The reader refuses what is no JSON, and edits touch only what they are about."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.errors import ParseRefusal
from reference_server.lossless import MAX_DEPTH, Repeated, Rewriter, items, members, read

KEPT = [
    b'{"a":0.95,"b":1.0,"c":1e3,"d":1E-3,"e":-0.0,"f":-0,"g":0.10}',
    b'{"a":123456789012345678901234567890,"b":0.1234567890123456789012345}',
    b' {\t"a" :\r\n[ 1 , 2 ] }\n',
    '{"ü":"\\u00e9é\\ud83d\\ude00","z":1,"a":2}'.encode(),
    b'{"a":1,"a":2}',
    b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
]

REFUSED = {
    "empty": b"",
    "blank": b" \n",
    "truncated": b'{"a":1',
    "after the end": b'{"a":1} x',
    "two documents": b"{}{}",
    "comment": b"{} // x",
    "trailing comma": b'{"a":1,}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "beyond every float": b'{"a":1e999}',
    "integer beyond every float": b'{"a":' + b"9" * 400 + b"}",
    "integer of five thousand digits": b'{"a":' + b"9" * 5000 + b"}",
    "leading zero": b'{"a":01}',
    "plus": b'{"a":+1}',
    "bare fraction": b'{"a":.5}',
    "single quotes": b"{'a':1}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "broken UTF-8": b'{"a":"\xff"}',
    "surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "lone surrogate escape": b'{"a":"\\ud800"}',
    "lone surrogate escape in a key": b'{"\\udc00":1}',
    "control character": b'{"a":"\x01"}',
    "no-break space": b'{"a":\xc2\xa01}',
    "one level too many": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "levels without end": b"[" * 200_000,
    "objects without end": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("raw", KEPT)
def test_what_is_not_edited_leaves_as_the_same_bytes(raw: bytes) -> None:
    """Numbers, escapes, blanks, key order and repeated keys survive untouched."""
    assert Rewriter(read(raw)).render() == raw


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_json_is_refused_at_once(name: str) -> None:
    """Malformed documents are refused, without a crash of the interpreter and within moments."""
    began = time.monotonic()
    with pytest.raises(ParseRefusal):
        read(REFUSED[name])
    assert time.monotonic() - began < 1


def test_a_syntax_error_says_where() -> None:
    """Line and column of the first wrong character are named."""
    with pytest.raises(ParseRefusal, match="line 2 column 6"):
        read(b'{"a":1,\n"b": x}')


def test_repeated_keys_are_noticed() -> None:
    """An object with a key that stands twice remembers which; the last value counts."""
    document = read(b'{"a":{"x":1,"x":2,"y":3}}')
    inner = document.value["a"]
    assert document.has_repeated_keys
    assert isinstance(inner, Repeated)
    assert inner.repeated_keys == {"x"}
    assert inner["x"] == 2


def test_members_and_items_are_found_where_they_stand() -> None:
    """Keys and values are located with their quotes, whatever blanks stand between them."""
    text = '{ "a" : [ 1 , {"b":2} ] ,"c\\u0064":null}'
    first, second = members(text, 0)
    assert text[first.key_start : first.key_end] == '"a"'
    assert [text[start] for start in items(text, first.value_start)] == ["1", "{"]
    assert (second.key, text[second.value_start : second.value_end]) == ("cd", "null")


@pytest.mark.parametrize(
    ("raw", "key", "left"),
    [
        (b'{"a":1,"b":2,"c":3}', "a", b'{"b":2,"c":3}'),
        (b'{"a":1, "b":2 ,"c":3}', "b", b'{"a":1 ,"c":3}'),
        (b'{"a":1,"b":2,"c":3 }', "c", b'{"a":1,"b":2 }'),
        (b'{ "a":1 }', "a", b"{  }"),
        (b'{"a":1,"a":2,"b":3,"a":4, "c":5,"a":6}', "a", b'{"b":3, "c":5}'),
        (b'{"a":1,"a":2}', "a", b"{}"),
    ],
)
def test_members_are_removed_with_their_commas(raw: bytes, key: str, left: bytes) -> None:
    """The first, a middle, the last, the only and a repeated member can be taken out, and JSON is left."""
    rewriter = Rewriter(read(raw))
    siblings = rewriter.top()
    rewriter.remove(siblings, key)
    assert rewriter.render() == left
    json.loads(left)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON_VALUES, min_size=1, max_size=5), st.data(), st.booleans())
def test_an_edit_changes_one_member_and_nothing_else(
    document: dict[str, object], data: st.DataObject, ascii_only: bool
) -> None:
    """Whatever else is in the document, replacing and renaming reach exactly the member meant."""
    raw = json.dumps(document, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    try:
        raw.decode()
    except UnicodeDecodeError:
        return  # a lone surrogate: refused elsewhere
    key = data.draw(st.sampled_from(sorted(document)))
    rewriter = Rewriter(read(raw))
    member = next(each for each in rewriter.top() if each.key == key)
    rewriter.replace(member, '"new"')
    rewriter.rename(member, "renamed")
    expected = [("renamed", "new") if name == key else (name, value) for name, value in document.items()]
    assert json.loads(rewriter.render(), object_pairs_hook=list)[: len(expected)] == [
        (name, json.loads(json.dumps(value), object_pairs_hook=list)) for name, value in expected
    ]
