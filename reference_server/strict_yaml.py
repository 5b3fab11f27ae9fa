"""Configuration files in YAML, read so that a mistake is told with its file and line and with what to write instead.

The file is walked by what it may hold, never turned into objects: nothing in it is guessed, left out or taken twice.
Numbers and switches are read as YAML 1.2 has them (`12`, `0.5`, `true`), without the surprises of 1.1 (`1:30`, `yes`).
"""

from __future__ import annotations

import difflib
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import yaml

from reference_server.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_LIMIT_BYTES = 4 * 1024 * 1024
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_SWITCHES = {"true": True, "false": False}


class Value:
    """Something in a file: where it is, and how to read it as what it should be."""

    def __init__(self, source: str, what: str, node: yaml.Node) -> None:
        self._source = source  # the flag and the file, for messages
        self._node = node
        self.what = what

    @property
    def line(self) -> int:
        """The line it begins in, from 1."""
        mark = self._node.start_mark
        return 1 if mark is None else mark.line + 1

    def refuse(self, problem: str) -> NoReturn:
        """Say what is wrong with it.

        Raises:
            ConfigurationError: always.
        """
        raise ConfigurationError(f"{self._source} line {self.line}: {self.what} {problem}")

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        text = self._plain()
        value = int(text) if _WHOLE.fullmatch(text) else None
        if value is None or not low <= value <= high:
            self.refuse(f"is {self._shown()}; write a whole number from {low} to {high}")
        return value

    def number(self, low: float, *, above: bool = False) -> float:
        """A finite number, at least `low` or (with `above`) more than that."""
        text = self._plain()
        value = float(text) if _DECIMAL.fullmatch(text) else math.nan
        if not math.isfinite(value) or value < low or (above and value == low):
            self.refuse(f"is {self._shown()}; write a number {'above' if above else 'of at least'} {low:g}")
        return value

    def switch(self) -> bool:
        """`true` or `false`."""
        value = _SWITCHES.get(self._plain().lower())
        if value is None:
            self.refuse(f"is {self._shown()}; write true or false")
        return value

    def word(self, choices: Sequence[str]) -> str:
        """One of a few words."""
        text = self.text()
        if text not in choices:
            self.refuse(f"is {self._shown()}; write one of {', '.join(choices)}")
        return text

    def text(self) -> str:
        """Text that is not empty."""
        if not isinstance(self._node, yaml.ScalarNode) or not self._node.value.strip():
            self.refuse(f"is {self._shown()}; write some text")
        return str(self._node.value)

    def items(self) -> list[Value]:
        """The items of a list."""
        if not isinstance(self._node, yaml.SequenceNode):
            self.refuse(f"is {self._shown()}; write a list")
        return [Value(self._source, f"{self.what}[{n}]", each) for n, each in enumerate(self._node.value)]

    def mapping(self) -> Mapping:
        """Names and values."""
        if not isinstance(self._node, yaml.MappingNode):
            self.refuse(f"is {self._shown()}; write names and values, one `name: value` a line")
        return Mapping(self, self._source, self._node)

    def is_empty(self) -> bool:
        """Whether nothing was written (`name:` alone)."""
        return isinstance(self._node, yaml.ScalarNode) and self._plain().lower() in {"", "~", "null"}

    def _plain(self) -> str:
        """The text of an unquoted scalar; anything else is no number and no switch."""
        if isinstance(self._node, yaml.ScalarNode) and self._node.style is None:
            return str(self._node.value)
        return "(not plain)"

    def _shown(self) -> str:
        if isinstance(self._node, yaml.ScalarNode):
            return repr(self._node.value[:40]) if self._node.value or self._node.style else "empty"
        return "a list" if isinstance(self._node, yaml.SequenceNode) else "a mapping"


class Mapping:
    """Names and values of a file; a name stands there once."""

    def __init__(self, value: Value, source: str, node: yaml.MappingNode) -> None:
        self.value = value
        self._entries: dict[str, Value] = {}
        for key, under in node.value:
            name = Value(source, f"a name in {value.what}", key).text()
            entry = Value(source, name if value.what == TOP else f"{value.what}.{name}", under)
            if name in self._entries:
                entry.refuse(f"is there twice, first in line {self._entries[name].line}; keep one")
            self._entries[name] = entry

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return iter(self._entries.items())

    def allow(self, names: Iterable[str]) -> None:
        """Refuse any other name."""
        known = list(names)
        for name, entry in self._entries.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
                entry.refuse(f"is no name known here; {hint}")

    def get(self, name: str) -> Value | None:
        """The value of a name that need not be there."""
        return self._entries.get(name)

    def require(self, name: str) -> Value:
        """The value of a name that must be there."""
        found = self._entries.get(name)
        if found is None:
            self.value.refuse(f"has no {name}; add `{name}: ...`")
        return found


TOP = "the file"


def load(flag: str, path: str) -> Mapping | None:
    """The names and values at the top of a file; `None` for an empty one.

    Raises:
        ConfigurationError: the file cannot be read, is no YAML, or holds something else.
    """
    source = f"{flag}: {path}"
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LIMIT_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read ({error.strerror or error}); give a file") from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigurationError(f"{source} line {line}: not UTF-8; save the file as UTF-8") from None
    if len(raw) > _LIMIT_BYTES:
        raise ConfigurationError(f"{source} is larger than {_LIMIT_BYTES} bytes; give a smaller file")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise ConfigurationError(f"{source} line {line}: no YAML: {error.problem}; correct that line") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ConfigurationError(f"{source} line {line}: no YAML: {error.reason}; correct that line") from None
    except RecursionError:
        raise ConfigurationError(f"{source} is nested too deeply; write it flatter") from None
    if node is None:
        return None
    top = Value(source, TOP, node)
    return None if top.is_empty() else top.mapping()
