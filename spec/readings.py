"""`python -m spec.readings`: the page that lists how the contract is read where it is silent or pulls two ways."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

from spec.rows import clauses

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spec.rows import Clause

HEAD = """# Readings

Where the contract is silent or pulls two ways, a decision stands in the clause row that it decides. A particular
statement wins over a general one; silence is filled by what the real gateway was seen to do. This page is made from
the rows by `make readings`; change the row, not the page.
"""


def page(rows: Iterable[Clause]) -> str:
    """The page in Markdown: one table a section, with the clause, its level, what it says and the reading."""
    read = sorted((row for row in rows if row.reading), key=lambda row: (row.section, row.id))
    parts = [HEAD]
    for section, group in groupby(read, key=lambda row: row.section):
        parts.append(f"## {section}\n\n| clause | level | says | reading |\n|---|---|---|---|")
        parts += [f"| `{row.id}` | {row.level} | {_cell(row.text)} | {_cell(row.reading or '')} |" for row in group]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _cell(text: str) -> str:
    """A text that a table cell can hold."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page(clauses().values()))
