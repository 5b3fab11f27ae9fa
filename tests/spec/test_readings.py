"""The page of readings is what the clause rows say."""

from __future__ import annotations

from pathlib import Path

import spec
from spec import readings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "readings.md"


def test_the_page_is_fresh() -> None:
    """docs/readings.md is exactly what `make readings` would write now."""
    assert PAGE.read_text(encoding="utf-8") == readings.page(spec.clauses().values()), "run `make readings`"


def test_every_reading_is_on_the_page() -> None:
    """Each row with a reading has its line, also where the text holds a table's own bar."""
    page = readings.page(spec.clauses().values())
    with_reading = [row.id for row in spec.clauses().values() if row.reading]
    assert with_reading
    assert [each for each in with_reading if f"| `{each}` |" not in page] == []
