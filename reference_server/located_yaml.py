"""Configuration in YAML, read so that every complaint names the file, the line and what to write instead.

`read` gives the root `Node`; its methods give checked values or raise `ConfigurationError`. Only what the common part
of YAML 1.1 and 1.2 agrees about is taken: plain decimal numbers, `true` and `false`, quoted text wherever a reader of
either version might see something else. Keys that stand twice and keys nobody knows are refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from reference_server.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_FILE_BYTES = 4 * 1024 * 1024
_TAG = "tag:yaml.org,2002:"
_NUMBERS = frozenset({_TAG + "int", _TAG + "float"})
_TAGS = _NUMBERS | {_TAG + name for name in ("str", "bool", "null", "map", "seq", "merge", "timestamp", "value")}
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MOST_DIGITS = 18
_SHOWN_CHARACTERS = 60


class Node:
    """A value of the file. `where` is its place as a path of keys, empty at the root; `line` counts from 1."""

    def __init__(self, node: yaml.Node | None, place: str, where: str = "") -> None:
        self._node = node
        self._place = place
        self.where = where
        self.line = 1 if node is None else node.start_mark.line + 1

    def problem(self, what: str) -> ConfigurationError:
        """The error to raise about this value; `what` says what is wrong and what to write instead."""
        subject = f"{self.where}: " if self.where else ""
        return ConfigurationError(f"{self._place}, line {self.line}: {subject}{what}")

    @property
    def is_null(self) -> bool:
        """Whether there is nothing: an empty file, or a key without a value."""
        return self._node is None or self._node.tag == _TAG + "null"

    def mapping(self, required: Sequence[str] = (), optional: Sequence[str] = ()) -> dict[str, Node]:
        """The members of a mapping that has all of the required keys and no others but the optional ones."""
        members = self.any_mapping()
        known = (*required, *optional)
        for key, member in members.items():
            if key not in known:
                raise member.problem(f"{_shown(key)} is no key here; the keys are {', '.join(known)}")
        for key in required:
            if key not in members:
                raise self.problem(f"the key {key} is missing; write {key}: and its value")
        return members

    def any_mapping(self) -> dict[str, Node]:
        """The members of a mapping with keys of any name."""
        if self.is_null:
            return {}
        if not isinstance(self._node, yaml.MappingNode) or self._node.tag != _TAG + "map":
            raise self.problem(f"this is {self._kind()}; write keys and values, one `key: value` a line")
        members: dict[str, Node] = {}
        for key_node, value_node in self._node.value:
            key = Node(key_node, self._place, self.where).text("a key")
            if key in members:
                raise Node(key_node, self._place, self.where).problem(f"the key {_shown(key)} stands twice; keep one")
            place = f"{self.where}.{key}" if self.where else key
            members[key] = Node(value_node, self._place, place)
        return members

    def sequence(self) -> list[Node]:
        """The items of a list; none where there is nothing."""
        if self.is_null:
            return []
        if not isinstance(self._node, yaml.SequenceNode) or self._node.tag != _TAG + "seq":
            raise self.problem(f"this is {self._kind()}; write a list, one item a line behind a dash")
        return [Node(item, self._place, f"{self.where}[{number}]") for number, item in enumerate(self._node.value)]

    def text(self, what: str = "a text") -> str:
        """Some text; what YAML takes for a number or a truth value has to be put into quotes."""
        if not isinstance(self._node, yaml.ScalarNode) or self._node.tag != _TAG + "str":
            raise self.problem(f"this is {self._kind()}, not {what}; put a text into quotes")
        return str(self._node.value)

    def whole(self, low: int, high: int) -> int:
        """A whole number in plain decimal digits, from `low` to `high`."""
        written = self._plain_number(_WHOLE)
        value = None if written is None else int(written)
        if value is None or not low <= value <= high:
            raise self.problem(f"{self._kind()} is not a whole number from {low} to {high}")
        return value

    def number(self, low: float, *, above: bool = False) -> float:
        """A number in plain decimal digits, at least `low`, or `above` it."""
        written = self._plain_number(_DECIMAL)
        value = None if written is None else float(written)
        if value is None or value < low or (above and value == low):
            raise self.problem(f"{self._kind()} is not a number {'above' if above else 'of at least'} {low:g}")
        return value

    def boolean(self) -> bool:
        """`true` or `false`."""
        plain = isinstance(self._node, yaml.ScalarNode) and not self._node.style and self._node.tag == _TAG + "bool"
        word = self._node.value.lower() if plain and self._node is not None else ""
        if word not in {"true", "false"}:
            raise self.problem(f"{self._kind()} is not true or false")
        return bool(word == "true")

    def _plain_number(self, pattern: re.Pattern[str]) -> str | None:
        if not isinstance(self._node, yaml.ScalarNode) or self._node.style or self._node.tag not in _NUMBERS:
            return None
        written = str(self._node.value)
        return written if pattern.fullmatch(written) and len(written) <= _MOST_DIGITS else None

    def _kind(self) -> str:
        if self._node is None or self.is_null:
            return "nothing"
        if self._node.tag.startswith("!") or self._node.tag not in _TAGS:
            return f"something with the tag {_shown(self._node.tag)}"
        if isinstance(self._node, yaml.ScalarNode):
            quoted = " in quotes" if self._node.style in {"'", '"'} else ""
            return f"{_shown(self._node.value)}{quoted}"
        return "a list" if isinstance(self._node, yaml.SequenceNode) else "a mapping of keys"


def read(path: str, flag: str) -> Node:
    """The root of a file that an operator named with `flag`; an empty file has a null root.

    Raises:
        ConfigurationError: the file cannot be read or is no YAML; says which line where there is one.
    """
    place = f"{flag}: {path}"
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LONGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"{place} cannot be read ({reason}); name a YAML file that exists") from None
    if len(data) > _LONGEST_FILE_BYTES:
        raise ConfigurationError(f"{place} is larger than {_LONGEST_FILE_BYTES} bytes; name another file")
    try:
        root = yaml.compose(data.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{place}, line {line}: this is not UTF-8; save the file as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError(f"{place}, {_said(error)}") from None
    except yaml.reader.ReaderError as error:
        line = data.decode("utf-8-sig").count("\n", 0, error.position) + 1
        character = f"U+{error.character:04X}"
        raise ConfigurationError(
            f"{place}, line {line}: no YAML: it holds the character {character}; take it out"
        ) from None
    except RecursionError:
        raise ConfigurationError(f"{place} is nested too deeply; write it flatter") from None
    return Node(root, place)


def _said(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else 1
    said = " ".join(part for part in (error.context, error.problem) if part)
    return f"line {line}: no YAML: {said}; mind indentation, colons and quotes"


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
