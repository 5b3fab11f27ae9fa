"""Chunks: their sizes, their line ends, their extensions, their trailers, and their missing end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.raw_support import CRLF, LAST_CHUNK, Raw, chunk, chunked, closes
from conformance.harness.marks import clause
from conformance.harness.raw import Fin

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

CHUNKED = "Transfer-Encoding: chunked"
SIZES = [
    pytest.param("-{n:x}", id="minus"),
    pytest.param("+{n:x}", id="plus"),
    pytest.param("0x{n:x}", id="hex-prefix"),
    pytest.param("{n:x}g", id="no-hex-digit"),
    pytest.param("{n:x} 1", id="blank-inside"),
    pytest.param("", id="empty"),
    pytest.param("{n:x}.0", id="decimal"),
    pytest.param("{n:x},{n:x}", id="list"),
    pytest.param("{wrapped:x}", id="wraps-at-64-bits"),
    pytest.param("FFFFFFFFFFFFFFFFF{n:x}", id="overflow"),
    pytest.param("{n:x}\x00", id="nul"),
    pytest.param("\u00b2", id="superscript-digit"),
]


@pytest.mark.parametrize("written", SIZES)
@clause("transport.raw.chunk.bad_size")
async def test_bad_chunk_size(gateway: Gateway, worker: Worker, written: str) -> None:
    """A size that is no hexadecimal number, or too large for any, is refused; nothing behind it is a request."""
    raw = await Raw.of(gateway, worker)
    size = written.format(n=len(raw.body), wrapped=2**64 + len(raw.body)).encode("latin-1")
    talk = await raw.say(raw.head(CHUNKED) + size + CRLF + raw.body + CRLF + LAST_CHUNK + raw.smuggled(), closing=True)
    await raw.refused(talk)
    closes(talk)


@pytest.mark.parametrize(
    "behind", [b"", b"XX", b"\n\n", b"X\r\n"], ids=["nothing", "letters", "line-feeds", "one-byte-more"]
)
@clause("transport.raw.chunk.no_crlf_behind_data")
async def test_no_line_end_behind_chunk(gateway: Gateway, worker: Worker, behind: bytes) -> None:
    """Chunk data without CRLF behind it is refused; nothing behind it is a request."""
    raw = await Raw.of(gateway, worker)
    data = b"%x\r\n" % len(raw.body) + raw.body + behind + LAST_CHUNK
    talk = await raw.say(raw.head(CHUNKED) + data + raw.smuggled(), closing=True)
    await raw.refused(talk)
    closes(talk)


@pytest.mark.parametrize("end", [b"\n", b"\r"], ids=["line-feed", "carriage-return"])
@pytest.mark.parametrize("place", ["size", "extension", "last"])
@clause("transport.raw.chunk.bare_line_end")
async def test_bare_line_end_in_chunk_lines(gateway: Gateway, worker: Worker, end: bytes, place: str) -> None:
    """A bare line feed or carriage return in a chunk's line: refused or read as a line end, and nothing is smuggled.

    The line is written so that two readers see the data begin at different bytes.
    """
    raw = await Raw.of(gateway, worker)
    size = b"%x" % len(raw.body)
    data = {
        "size": size + end + raw.body + CRLF + LAST_CHUNK,
        "extension": size + b";a" + end + raw.body + CRLF + LAST_CHUNK,
        "last": chunk(raw.body) + b"0" + end + CRLF,
    }[place]
    talk = await raw.say(raw.head(CHUNKED, "Connection: close") + data + raw.smuggled())
    await raw.refused_or_served(talk)


@clause("transport.raw.chunk.hidden_behind_extension")
async def test_request_hidden_behind_extension(gateway: Gateway, worker: Worker) -> None:
    """A line feed in an extension must not hide a shorter chunk in front of a request in its data."""
    raw = await Raw.of(gateway, worker)
    # By the grammar: ten bytes, then a chunk that begins with a line end and holds the hidden request.
    # Who ends the first line at its bare LF: ten other bytes, the last chunk "00", a trailer, and then a request.
    inner = CRLF + raw.smuggled()
    data = b"a;\nxx\r\n" + b"      \r\n00" + CRLF + b"%x;a:b\r\n" % len(inner) + inner + CRLF + LAST_CHUNK
    talk = await raw.say(raw.head(CHUNKED) + data)
    assert talk.status != 200
    await raw.nothing_smuggled()


@pytest.mark.parametrize(
    "extension",
    [b";a", b";a=b", b';a="b c"', b";a=1;b=2;c"],
    ids=["name", "value", "quoted", "many"],
)
@clause("transport.raw.chunk.extension_ignored")
async def test_extension_is_ignored(gateway: Gateway, worker: Worker, extension: bytes) -> None:
    """A chunk extension is ignored: the request is served, and the worker gets the data without it."""
    raw = await Raw.of(gateway, worker)
    data = b"%x" % len(raw.body) + extension + CRLF + raw.body + CRLF + LAST_CHUNK
    await raw.served(await raw.say(raw.head(CHUNKED) + data))


@pytest.mark.parametrize("extension", [b" ;a=b", b";a = b", b" "], ids=["before", "inside", "no-extension"])
@clause("transport.raw.chunk.extension_blank")
async def test_blank_before_extension(gateway: Gateway, worker: Worker, extension: bytes) -> None:
    """Blanks round the parts of a chunk's line are passed over or refused; the worker gets the data or nothing."""
    raw = await Raw.of(gateway, worker)
    data = b"%x" % len(raw.body) + extension + CRLF + raw.body + CRLF + LAST_CHUNK
    await raw.refused_or_served(await raw.say(raw.head(CHUNKED) + data))


@clause("transport.raw.chunk.extension_bounded")
async def test_extensions_are_bounded(gateway: Gateway, worker: Worker) -> None:
    """A client cannot spend a megabyte on the extension of a small chunk: that is refused."""
    raw = await Raw.of(gateway, worker)
    data = b"%x;" % len(raw.body) + b"a" * (1 << 20) + CRLF + raw.body + CRLF + LAST_CHUNK
    await raw.refused(await raw.say(raw.head(CHUNKED) + data))


@clause("transport.raw.chunk.trailers_kept_apart")
async def test_trailers_are_no_headers(gateway: Gateway, worker: Worker) -> None:
    """Trailer fields never become header fields: not credentials, not ids, not framing."""
    raw = await Raw.of(gateway, worker)
    trailers = (
        f"Authorization: Bearer {raw.injected}\r\nX-Request-ID: {raw.injected}\r\n"
        f"Content-Length: 3\r\nX-SMG-Routing-Key: {raw.injected}\r\n"
    ).encode()
    data = chunk(raw.body) + b"0\r\n" + trailers + CRLF
    entry = await raw.refused_or_served(await raw.say(raw.head(CHUNKED, "Trailer: X-Request-ID") + data))
    if entry is not None:
        assert raw.injected.encode() not in entry.head


@clause("transport.raw.chunk.trailers_accepted")
async def test_trailers_do_no_harm(gateway: Gateway, worker: Worker) -> None:
    """A request with a trailer field is served as one without."""
    raw = await Raw.of(gateway, worker)
    data = chunk(raw.body) + b"0\r\nX-Checksum: 1\r\n\r\n"
    await raw.served(await raw.say(raw.head(CHUNKED) + data))


@pytest.mark.parametrize("kept", [0, 3, 6], ids=["no-last-chunk", "half-a-last-chunk", "data-cut"])
@clause("transport.raw.chunk.unfinished")
async def test_chunks_without_their_end(gateway: Gateway, worker: Worker, kept: int) -> None:
    """A client that ends before its last chunk has sent no request: nothing is served, no worker gets it."""
    raw = await Raw.of(gateway, worker)
    whole = chunked(raw.body)
    data = {0: whole[: -len(LAST_CHUNK)], 3: whole[:-2], 6: whole[: -len(LAST_CHUNK) - 6]}[kept]
    talk = await raw.say(raw.head(CHUNKED) + data, Fin(), closing=True)
    await raw.refused(talk)
    closes(talk)


@clause("transport.raw.chunk.many_small")
async def test_a_chunk_for_each_byte(gateway: Gateway, worker: Worker) -> None:
    """A body in chunks of one byte arrives whole."""
    raw = await Raw.of(gateway, worker)
    await raw.served(await raw.say(raw.head(CHUNKED) + chunked(*(bytes([byte]) for byte in raw.body))))
