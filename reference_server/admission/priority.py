"""The four priority classes, and how a client asks for one."""

from __future__ import annotations

from enum import IntEnum

HEADER = "x-smg-priority"


class PriorityClass(IntEnum):
    """A priority class; the greater one goes first."""

    BULK = 0
    DEFAULT = 1
    INTERACTIVE = 2
    SYSTEM = 3

    @property
    def label(self) -> str:
        """The name in headers, files and metrics."""
        return self.name.lower()


HIGHEST_FIRST = tuple(sorted(PriorityClass, reverse=True))
BY_LABEL = {level.label: level for level in HIGHEST_FIRST}


def asked_for(value: str | None) -> tuple[PriorityClass, bool]:
    """The class that a header value asks for, and whether the value is one (clause request_headers.priority.classes).

    Case does not matter, nor do blanks round it. No header and an empty one ask for `default`; any other value is
    taken for `default` too, because a typing error must not cost an answer, and is told apart for the metrics.
    """
    name = (value or "").strip(" \t").lower()
    level = BY_LABEL.get(name)
    if level is not None:
        return level, True
    return PriorityClass.DEFAULT, name == ""
