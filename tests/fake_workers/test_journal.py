"""The journal's bounds, the script book, markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_workers import Entry, Journal, Reply, Script, find_marker, new_marker, wire
from fake_workers.book import ScriptBook
from fake_workers.errors import ScriptError
from fake_workers.markers import is_marker


def entry(journal: Journal, marker: str | None = None, body: bytes = b"") -> Entry:
    """Add an entry to a journal."""
    made = Entry(
        seq=journal.next_seq(),
        worker="w0",
        marker=marker,
        method="POST",
        target="/x",
        head=b"POST /x HTTP/1.1\r\n\r\n",
        body=body,
        started_at=0.0,
        received_at=0.0,
    )
    journal.add(made)
    return made


def test_bounded_by_count() -> None:
    """The oldest entries leave when there are too many, also from their marker's list."""
    journal = Journal(max_entries=3)
    marker = new_marker()
    for _ in range(5):
        entry(journal, marker)
    assert [one.seq for one in journal.all_entries()] == [3, 4, 5]
    assert [one.seq for one in journal.entries(marker)] == [3, 4, 5]


def test_bounded_by_bytes() -> None:
    """The oldest entries leave when there are too many bytes; the newest always stays."""
    journal = Journal(max_bytes=5000)
    for _ in range(10):
        entry(journal, body=b"x" * 1000)
    assert 1 <= len(journal.all_entries()) <= 4
    entry(journal, body=b"x" * 50_000)
    assert [one.seq for one in journal.all_entries()] == [11]


def test_forget_keeps_the_others() -> None:
    """Forgetting a marker drops its entries and no other."""
    journal = Journal()
    one, two = new_marker(), new_marker()
    for marker in (one, two, None, one):
        entry(journal, marker)
    journal.forget(one)
    assert [kept.seq for kept in journal.all_entries()] == [2, 3]
    assert journal.entries(one) == []


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_entries_survive_their_json_form(head: bytes, body: bytes) -> None:
    """An entry read back from its JSON form is equal."""
    original = entry(Journal(), new_marker(), body)
    original.head = head
    original.sent = [(0.5, 3)]
    assert Entry.from_dict(original.to_dict()) == original


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_markers_are_found_in_any_bytes(before: bytes, after: bytes) -> None:
    """A marker is found whatever bytes are around it."""
    marker = new_marker()
    assert find_marker(before + marker.encode() + after) == (find_marker(before) or marker)
    assert is_marker(marker)


def test_no_marker() -> None:
    """What only looks like a marker is none."""
    assert find_marker(b"igc-0123456789ABCDEF igc-123", b"") is None
    assert not is_marker("igc-0123456789abcdef0")


async def test_book() -> None:
    """Answers go by dispatch, a new script starts again, holds are sticky."""
    book = ScriptBook()
    marker = new_marker()
    with pytest.raises(ScriptError, match="is no marker"):
        book.put("x", Script.of(Reply()))
    one, two = Reply(pieces=["1"]), wire.json(200, {})
    book.put(marker, Script.of(one, two))
    assert [book.dispatched(marker) for _ in range(3)] == [(0, one), (1, two), (2, two)]
    book.put(marker, Script.of(two))
    assert book.dispatched(marker) == (0, two)
    assert book.dispatched(None) == (0, None)
    assert not await book.reached(marker, "a", 0)
    book.release(marker, "a")
    assert await book.held(marker, "a", 0.01)
    assert await book.reached(marker, "a", 0)
    assert not await book.held(marker, "b", 0.01)
