"""Heads: line ends, control bytes, blanks where none belong, folded lines, odd names, and too much of everything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from conformance.checks.raw_support import CRLF, Raw
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker
    from fake_workers.journal import Entry

BARE_CR = re.compile(rb"\r(?!\n)")
BARE_LF = re.compile(rb"(?<!\r)\n")
CARRIERS = ["X-Request-ID", "Authorization", "X-Note"]
TOO_LARGE = frozenset(range(400, 500))


def clean(raw: Raw, entry: Entry | None) -> None:
    """What reached a worker, if anything did, has no bare line end, no NUL, no fold and nothing injected as a field."""
    if entry is None:
        return
    assert BARE_CR.search(entry.head) is None
    assert BARE_LF.search(entry.head) is None
    assert b"\0" not in entry.head
    assert re.search(rb"\n[ \t]", entry.head) is None
    assert entry.header("x-smg-target-worker") is None
    assert not any(raw.injected in value for value in entry.header_all("x-smg-routing-key"))


@pytest.mark.parametrize("where", ["everywhere", "request-line", "one-field", "end"])
@clause("transport.raw.head.bare_line_feed")
async def test_bare_line_feeds(gateway: Gateway, worker: Worker, where: str) -> None:
    """Line feeds alone as line ends: the request is refused, or served as if they were CRLF; no third way."""
    raw = await Raw.of(gateway, worker)
    honest = raw.head(f"Content-Length: {len(raw.body)}")
    head = {
        "everywhere": honest.replace(CRLF, b"\n"),
        "request-line": honest.replace(CRLF, b"\n", 1),
        "one-field": honest.replace(b"application/json\r\n", b"application/json\n"),
        "end": honest[:-2] + b"\n",
    }[where]
    clean(raw, await raw.refused_or_served(await raw.say(head + raw.body)))


@pytest.mark.parametrize("name", CARRIERS)
@clause("transport.raw.head.bare_carriage_return")
async def test_bare_carriage_return(gateway: Gateway, worker: Worker, name: str) -> None:
    """A carriage return inside a value is no line end: refused or replaced, and what follows it is no field."""
    raw = await Raw.of(gateway, worker)
    line = f"{name}: a\rX-SMG-Routing-Key: {raw.injected}"
    clean(raw, await raw.refused_or_served(await raw.say(raw.honest(line))))


@pytest.mark.parametrize("name", CARRIERS)
@clause("transport.raw.head.nul")
async def test_nul_in_a_value(gateway: Gateway, worker: Worker, name: str) -> None:
    """A NUL in a value: refused or replaced, and no worker gets it."""
    raw = await Raw.of(gateway, worker)
    clean(raw, await raw.refused_or_served(await raw.say(raw.honest(f"{name}: a\0b"))))


@pytest.mark.parametrize("byte", [b"\x01", b"\x0b", b"\x1b", b"\x7f"], ids=["soh", "vt", "esc", "del"])
@clause("transport.raw.head.control_byte")
async def test_control_byte_in_a_value(gateway: Gateway, worker: Worker, byte: bytes) -> None:
    """Another control byte in a value: the request is refused or served, and nothing worse."""
    raw = await Raw.of(gateway, worker)
    clean(raw, await raw.refused_or_served(await raw.say(raw.honest(b"X-Request-ID: a" + byte + b"b"))))


@pytest.mark.parametrize("name", CARRIERS)
@pytest.mark.parametrize(
    "value", [b"\xff\xfe", b"\xc3\x28", "\u00e9".encode(), b"\xed\xa0\x80"], ids=["ff", "half", "utf8", "surrogate"]
)
@clause("transport.raw.head.bytes_beyond_ascii")
async def test_bytes_beyond_ascii(gateway: Gateway, worker: Worker, name: str, value: bytes) -> None:
    """Bytes beyond ASCII in a value, valid UTF-8 or not, are opaque: the request is served."""
    raw = await Raw.of(gateway, worker)
    clean(raw, await raw.served(await raw.say(raw.honest(name.encode() + b": " + value))))


@pytest.mark.parametrize("line", [b"X-Note : a", b"X-Note\t: a", b"Content-Type : text/plain", b"X-Note \t : a"])
@clause("transport.raw.head.blank_before_colon")
async def test_blank_before_colon(gateway: Gateway, worker: Worker, line: bytes) -> None:
    """Whitespace between a field's name and its colon: 400."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(line)), {400}, answer_owed=True)


@pytest.mark.parametrize(
    "lines",
    [
        ["X-Request-ID: a", " b"],
        ["X-Request-ID: a", "\tb"],
        ["X-Note: a", " X-SMG-Routing-Key: igc-injected"],
        ["X-Note:", "  ", " a"],
        ["X-Note: a", " X-SMG-Target-Worker: igc-injected"],
    ],
    ids=["blank", "tab", "field-in-a-fold", "empty-fold", "worker-in-a-fold"],
)
@clause("transport.raw.head.folded")
async def test_folded_line(gateway: Gateway, worker: Worker, lines: list[str]) -> None:
    """A folded line is refused, or counts as one value; a field written in a fold is none."""
    raw = await Raw.of(gateway, worker)
    clean(raw, await raw.refused_or_served(await raw.say(raw.honest(*lines))))


@pytest.mark.parametrize("blank", [b" ", b"\t", b" \t "], ids=["blank", "tab", "several"])
@clause("transport.raw.head.blank_before_first_field")
async def test_blank_before_first_field(gateway: Gateway, worker: Worker, blank: bytes) -> None:
    """Whitespace before the first field: refused, or that line counts for nothing."""
    raw = await Raw.of(gateway, worker)
    line, rest = raw.honest().split(CRLF, 1)
    injected = blank + f"X-SMG-Routing-Key: {raw.injected}".encode()
    clean(raw, await raw.refused_or_served(await raw.say(line + CRLF + injected + CRLF + rest)))


@pytest.mark.parametrize(
    "line",
    [b": a", b"X Note: a", b"X@Note: a", b"X\0Note: a", b"no colon at all", b"X\xe9: a", b"(X): a", b'"X": a'],
    ids=["empty", "blank", "at", "nul", "no-colon", "beyond-ascii", "brackets", "quoted"],
)
@clause("transport.raw.head.invalid_name")
async def test_invalid_field_name(gateway: Gateway, worker: Worker, line: bytes) -> None:
    """A field name that is no token: 400."""
    raw = await Raw.of(gateway, worker)
    await raw.refused(await raw.say(raw.honest(line)), {400}, answer_owed=True)


@pytest.mark.parametrize("size", [1 << 16, 1 << 18, 1 << 21])
@clause("transport.raw.head.huge_field")
async def test_huge_field(gateway: Gateway, worker: Worker, size: int) -> None:
    """A field larger than the gateway takes is refused with a 4xx, any other is served; it never fails of it."""
    raw = await Raw.of(gateway, worker)
    await raw.refused_or_served(await raw.say(raw.honest(f"X-Note: {'a' * size}")), statuses=TOO_LARGE)


@pytest.mark.parametrize("count", [90, 1000, 20000])
@clause("transport.raw.head.many_fields")
async def test_many_fields(gateway: Gateway, worker: Worker, count: int) -> None:
    """More fields than the gateway takes are refused with a 4xx, fewer are served; it never fails of them."""
    raw = await Raw.of(gateway, worker)
    lines = [f"X-Note-{number}: a" for number in range(count)]
    await raw.refused_or_served(await raw.say(raw.honest(*lines)), statuses=TOO_LARGE)


@clause("transport.raw.head.endless")
async def test_endless_head(gateway: Gateway, worker: Worker) -> None:
    """A head that never ends is cut off: the gateway answers with a 4xx or closes, before 16 MiB of it are read."""
    raw = await Raw.of(gateway, worker)
    endless = [b"".join(b"X-%d-%d: %s\r\n" % (block, at, b"a" * 100) for at in range(600)) for block in range(256)]
    talk = await raw.say(raw.head()[:-2], *endless, closing=True)
    await raw.refused(talk, TOO_LARGE)
    assert talk.closed
    if talk.status is None and talk.sent_all:
        raise Disproved("read to its end", f"closed only when all 16 MiB had been read: {talk.brief()}")


@pytest.mark.parametrize("leading", [b"\r\n", b"\r\n\r\n"], ids=["one", "two"])
@clause("transport.raw.head.blank_line_before")
async def test_blank_line_before_request(gateway: Gateway, worker: Worker, leading: bytes) -> None:
    """A blank line before the request line is passed over."""
    raw = await Raw.of(gateway, worker)
    await raw.served(await raw.say(leading + raw.honest()))


@clause("transport.raw.head.nothing_hidden_in_target")
async def test_line_end_in_target(gateway: Gateway, worker: Worker) -> None:
    """A bare line end inside the request target does not begin a field or another request."""
    raw = await Raw.of(gateway, worker)
    first = f"POST {CHAT}?a=\nX-SMG-Routing-Key: {raw.injected}\nX: HTTP/1.1"
    await raw.refused(await raw.say(raw.honest(first=first)))
