"""Reading the data files of this package, with errors that say which file, which row, what is wrong and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


class SpecError(Exception):
    """A data file of `spec/` is missing, unreadable or breaks its rules.

    The message always names the file (and the row where there is one), the problem and the remedy.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        super().__init__(f"{where}: {what}. {remedy}")
        self.where = where
        self.what = what
        self.remedy = remedy


class _UniqueKeyLoader(yaml.CSafeLoader):
    """The safe YAML loader, except that a key written twice is an error and not a silent loss."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a second occurrence of a key; otherwise do what the safe loader does."""
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading a mapping", node.start_mark, f"found the key {key!r} twice", key_node.start_mark
                )
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


def label(path: Path) -> str:
    """The name of a data file as messages show it: relative to the package where it lies inside."""
    return f"spec/{path.relative_to(HERE)}" if path.is_relative_to(HERE) else str(path)


def read_text(path: Path) -> str:
    """The text of a data file.

    Raises:
        SpecError: the file is missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SpecError(label(path), f"cannot be read ({problem})", "Restore it from version control") from problem


def read_yaml(path: Path) -> Any:
    """The parsed content of a YAML data file.

    Raises:
        SpecError: the file is missing, unreadable, not YAML, or has a key twice in one mapping.
    """
    text = read_text(path)
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506  # a subclass of the safe loader
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{label(path)}, line {mark.line + 1}" if mark else label(path)
        what = getattr(problem, "problem", None) or str(problem)
        raise SpecError(
            where, f"is not valid YAML: {what}", "Correct the line named here or the one above it"
        ) from problem
