"""Reading what a worker says a request has taken, whatever it sends and however it is cut up."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.tenants.usage import LONGEST_EVENT_BYTES, DocumentUsage, StreamUsage

USAGE = {"prompt_tokens": 12, "completion_tokens": 2}
EVENT = b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode()
DELTA = b'data: {"choices":[{"delta":{"content":"\\"usage\\""}}],"usage":null}'


def of_document(value: object) -> int | None:
    """What is read in a document."""
    reader = DocumentUsage()
    reader.feed(value if isinstance(value, bytes) else json.dumps(value).encode())
    return reader.finish()


def of_stream(*pieces: bytes) -> int | None:
    """What is read in a stream."""
    reader = StreamUsage()
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, 14), ({"prompt_tokens": 5}, 5), ({**USAGE, "total_tokens": 99}, 14),
        ({"prompt_tokens": 0, "completion_tokens": 0}, 0),
        (None, None), ({}, None), ([], None), (14, None), ({"completion_tokens": 2}, None),
        *[({"prompt_tokens": bad, "completion_tokens": 2}, None) for bad in (-1, 1.0, "1", True, None, 10**16, [1])],
        *[({"prompt_tokens": 2, "completion_tokens": bad}, None) for bad in (-1, 1.0, "1", False, None, 10**16)],
    ],
)  # fmt: skip
def test_only_plain_counts_are_a_report(usage: object, tokens: int | None) -> None:
    """Prompt and completion tokens are added up; anything odd is no report at all."""
    assert of_document({"usage": usage}) == tokens
    assert of_stream(b"data: " + json.dumps({"usage": usage}).encode() + b"\n\n") == tokens


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"usage":' + b"9" * 5000 + b"}", b'{"a":{"usage":{}}}'],
)
def test_other_documents_report_nothing(body: bytes) -> None:
    """No JSON, other JSON, JSON that no reader takes: nothing is reported and nothing is raised."""
    assert of_document(body) is None


def test_an_endless_document_is_not_kept() -> None:
    """What is longer than the limit is let go."""
    reader = DocumentUsage()
    tracemalloc.start()
    try:
        for _ in range(64):
            reader.feed(bytes(1024 * 1024))
        assert tracemalloc.get_traced_memory()[0] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert reader.finish() is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@given(data=st.data())
def test_a_stream_may_be_cut_anywhere(data: st.DataObject, end: bytes) -> None:
    """Line ends of all three kinds, cuts at any byte, comments between events: the usage is found."""
    lines = [b": ping", b"", DELTA, b"", b"event: x", EVENT, b"", b": ping", b"", b"data: [DONE]", b"", b""]
    stream = end.join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    assert of_stream(*(stream[a:b] for a, b in pairwise(edges))) == 14


def test_an_event_in_two_data_lines() -> None:
    """The lines of an event are one document; CRLF between them is one line end and not two."""
    assert of_stream(b'data: {"usage":\r', b'\ndata: {"prompt_tokens":3}}\r\n\r\n') == 3


def test_the_last_report_counts() -> None:
    """Engines that report as they go add up themselves."""
    running = b"".join(b'data: {"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\n' % n for n in range(5))
    assert of_stream(running + DELTA + b'\n\ndata: {no json "usage"}\n\n') == 5


def test_done_is_the_moment() -> None:
    """With [DONE] the usage is known, not before and not again."""
    reader = StreamUsage()
    assert reader.feed(EVENT + b"\n\n") is None
    assert reader.feed(b"data: [DONE]\n") is None
    assert reader.feed(b"\n") == 14


def test_a_stream_without_a_report() -> None:
    """A stream that says nothing of usage reports nothing, also at its end."""
    reader = StreamUsage()
    assert reader.feed(DELTA + b"\n\ndata: [DONE]\n\n") is None
    assert reader.finish() is None


def test_a_last_event_without_its_blank_line() -> None:
    """What the worker has sent whole counts, although the blank line is missing."""
    assert of_stream(EVENT) == 14
    assert of_stream(EVENT + b"\r") == 14


def test_an_overlong_event_is_passed_over() -> None:
    """An event over the limit is neither kept nor read, in one piece or in thousands; the next one is."""
    filler = b'data: {"a":"' + b"x" * LONGEST_EVENT_BYTES + b'","usage":{"prompt_tokens":99}}'
    assert of_stream(filler + b"\n\n" + EVENT + b"\n\n") == 14
    lines = b"data: x\n" * (LONGEST_EVENT_BYTES // 8 + 1)
    assert of_stream(lines, b'data: {"usage":{"prompt_tokens":99}}\n\n', EVENT, b"\n\n") == 14
    rest = b"data: " + b"x" * LONGEST_EVENT_BYTES
    assert of_stream(b'data: {"usage":{"prompt_tokens":99}}\n', rest, b"\n\n", EVENT, b"\n\n") == 14
    assert of_stream(b'data: {"usage":{"prompt_tokens":99}}\n', rest, b"\n\n") is None
    reader = StreamUsage()
    tracemalloc.start()
    try:
        for _ in range(64):
            reader.feed(bytes(1024 * 1024))
        assert tracemalloc.get_traced_memory()[0] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"data:", b"\n\n", b'"usage"', b"[DONE]", EVENT])))
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    """Whatever comes, the reader gives a count or nothing."""
    tokens = of_stream(*pieces)
    assert tokens is None or tokens >= 0
