"""JSON that leaves as it came: a strict reader, and edits that touch only the characters they are about.

A gateway has to forward `0.95`, `1.0`, `1e3`, thirty-digit integers, unknown fields and the order of keys as the client
sent them. Two ways were measured (CPython 3.11, a 2 kB and a 1 MB chat body, one edit each): parsing into numbers that
carry their text and serialising again took 57 µs and 74 ms; keeping the text and splicing the edit into it took 55 µs
and 62 ms, and 23 µs and 29 ms where nothing is edited, which is the usual case. So the text is kept, and escapes, white
space and repeated unknown keys survive as well.

`read` refuses what JSON does not know although lenient readers do: NaN, Infinity, lone surrogates, control characters,
a byte order mark, anything after the document, numbers beyond every float, and more than `MAX_DEPTH` levels.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from reference_server.errors import ParseRefusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH = 128
"""Levels of arrays and objects; the real gateway's reader stops at the same depth."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_INTEGER_DIGITS = 308  # one more and no float can hold it; the interpreter's own limit comes later, at 4300


class Repeated(dict[str, Any]):
    """A JSON object in which at least one key stands more than once; the last value counts."""

    repeated_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON text and its value. `has_repeated_keys`: somewhere in `value` there is a `Repeated`."""

    raw: bytes = field(repr=False)
    text: str = field(repr=False)
    value: Any = field(repr=False)
    has_repeated_keys: bool


def read(raw: bytes) -> Document:
    """Read a whole body.

    Raises:
        ParseRefusal: it is not JSON (RFC 8259) in UTF-8, or goes beyond the limits above; says where.
    """
    text = _decode(raw)
    reader = _Reader()
    try:
        value, end = reader.decoder.raw_decode(text, _skip(text, 0))
    except json.JSONDecodeError as error:
        raise ParseRefusal(_syntax(error.msg, text, error.pos)) from None
    except RecursionError:
        raise ParseRefusal(_too_deep()) from None
    except ValueError as error:  # a number beyond the limits; the reader does not know where it stood
        raise ParseRefusal(f"JSON syntax error: {error}") from None
    rest = _skip(text, end)
    if rest != len(text):
        raise ParseRefusal(_syntax("There is something after the end of the document", text, rest))
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise ParseRefusal(_too_deep())
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(value)
    return Document(raw, text, value, reader.has_repeated_keys)


class _Reader:
    """One reading: the strict decoder and what it noticed on the way."""

    def __init__(self) -> None:
        self.has_repeated_keys = False
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_float=_finite, parse_int=_integer, parse_constant=_refuse_constant
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        self.has_repeated_keys = True
        repeated = Repeated(plain)
        counted = Counter(key for key, _ in pairs)
        repeated.repeated_keys = frozenset(key for key, times in counted.items() if times > 1)
        return repeated


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ParseRefusal(f"JSON syntax error: the body is not UTF-8 (byte {error.start})") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def _integer(text: str) -> int | float:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"number out of range: {text[:40]}…")
    return -0.0 if text == "-0" else int(text)  # as for every JSON reader with integers: -0 is not one


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether containers are nested deeper than `limit`; walks level by level, so it needs no stack of its own."""
    level = [value]
    for _ in range(limit):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return False
        level = below
    return any(isinstance(item, (dict, list)) for item in level)


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ParseRefusal("JSON syntax error: a \\u escape is half of a surrogate pair") from None


def _syntax(what: str, text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"JSON syntax error: {what} at line {line} column {column}"


def _too_deep() -> str:
    return f"JSON syntax error: arrays and objects are nested more than {MAX_DEPTH} levels deep"


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object: the key, and where key and value stand in the text (quotes included)."""

    key: str
    key_start: int
    key_end: int
    value_start: int
    value_end: int


_LOCATE = json.JSONDecoder()


def members(text: str, start: int) -> Iterator[Member]:
    """The members of the object that begins at `start` of a text that `read` has accepted."""
    position = _skip(text, start + 1)
    while text[position] != "}":
        key, key_end = _LOCATE.raw_decode(text, position)
        value_start = _skip(text, _skip(text, key_end) + 1)
        _, value_end = _LOCATE.raw_decode(text, value_start)
        yield Member(key, position, key_end, value_start, value_end)
        position = _skip(text, value_end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def items(text: str, start: int) -> Iterator[int]:
    """Where the items of the array that begins at `start` begin."""
    position = _skip(text, start + 1)
    while text[position] != "]":
        yield position
        _, end = _LOCATE.raw_decode(text, position)
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def value_at(text: str, start: int) -> str:
    """The text of the value that begins at `start`."""
    _, end = _LOCATE.raw_decode(text, start)
    return text[start:end]


class Rewriter:
    """Collects edits of one document and applies them in one go; without edits the bytes are the client's own."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._edits: list[tuple[int, int, str]] = []
        self.text = document.text

    def top(self) -> list[Member]:
        """The members of the document, which must be an object."""
        return list(members(self.text, _skip(self.text, 0)))

    def replace(self, member: Member, value: str) -> None:
        """Give a member another value, written in JSON."""
        self._edits.append((member.value_start, member.value_end, value))

    def rename(self, member: Member, key: str) -> None:
        """Give a member another key."""
        self._edits.append((member.key_start, member.key_end, json.dumps(key)))

    def remove(self, siblings: Sequence[Member], *keys: str) -> None:
        """Take every member with one of these keys out of an object, whose members are `siblings`, commas included.

        Once for an object: two removals that do not know of each other might take the same comma, or leave one.
        """
        kept = [member for member in siblings if member.key not in keys]
        if not kept:
            self._edits.append((siblings[0].key_start, siblings[-1].value_end, ""))
            return
        for index, member in enumerate(siblings):
            if member.key not in keys:
                continue
            if member.key_start > kept[0].key_start:  # with the comma before it
                self._edits.append((siblings[index - 1].value_end, member.value_end, ""))
            else:  # with the comma behind it
                self._edits.append((member.key_start, siblings[index + 1].key_start, ""))

    def render(self) -> bytes:
        """The document with all edits applied."""
        if not self._edits:
            return self._document.raw
        parts: list[str] = []
        position = 0
        for start, end, replacement in sorted(self._edits):
            parts += (self.text[position:start], replacement)
            position = end
        parts.append(self.text[position:])
        return "".join(parts).encode()
