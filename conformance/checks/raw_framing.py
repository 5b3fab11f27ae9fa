"""Where a request ends: lengths, chunks, both of them, and all the ways of writing them so that readers disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.raw_support import CRLF, LAST_CHUNK, Raw, chunk, chunked, closes
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from conformance.harness.raw import Fin

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

FOREIGN_CODINGS = ["xchunked", "identity", "chunked, identity", "chunked, gzip", "gzip, chunked", "chunked;q=1, cow"]
OBFUSCATED = [
    pytest.param([b"Transfer-Encoding : chunked"], id="blank-before-colon"),
    pytest.param([b"Transfer-Encoding\t: chunked"], id="tab-before-colon"),
    pytest.param([b"Transfer-Encoding:\x0bchunked"], id="vertical-tab"),
    pytest.param([b"Transfer-Encoding: chunked\x00"], id="nul"),
    pytest.param([b"Transfer-Encoding: \xa0chunked"], id="no-break-space"),
    pytest.param([b'Transfer-Encoding: "chunked"'], id="quoted"),
    pytest.param([b"Transfer-Encoding:", b" chunked"], id="folded"),
    pytest.param([b"X-A: b", b" Transfer-Encoding: chunked"], id="in-a-fold"),
    pytest.param([b"Transfer-Encoding: chunked", b"Transfer-Encoding: cow"], id="twice-chunked-first"),
    pytest.param([b"Transfer-Encoding: cow", b"Transfer-Encoding: chunked"], id="twice-chunked-last"),
    pytest.param([b"Transfer-Encoding: chunked, chunked"], id="chunked-chunked"),
    pytest.param([b"Transfer-Encoding: chunked", b"Transfer-encoding: identity"], id="identity-second"),
    pytest.param([b"Transfer-Encoding: ChUnKeD"], id="other-case"),
    pytest.param([b"Transfer-Encoding: chunked,"], id="empty-element"),
    pytest.param([b"Transfer_Encoding: chunked"], id="underscore"),
    pytest.param([b"X: y\nTransfer-Encoding: chunked"], id="behind-bare-line-feed"),
    pytest.param([b"X: y\rTransfer-Encoding: chunked"], id="behind-bare-carriage-return"),
]
LENGTHS = [
    pytest.param("{n}, {n}", id="list-equal"),
    pytest.param("{n}, {more}", id="list-differing"),
    pytest.param("{more}, {n}", id="list-differing-other-order"),
    pytest.param("+{n}", id="plus"),
    pytest.param("-{n}", id="minus"),
    pytest.param("0x{n:x}", id="hex"),
    pytest.param("{n}.0", id="decimal"),
    pytest.param("{n} 0", id="blank-inside"),
    pytest.param("{n}\x0b", id="vertical-tab"),
    pytest.param("{n};a=b", id="parameter"),
    pytest.param("{wrapped}", id="wraps-at-64-bits"),
    pytest.param("{wrapped32}", id="wraps-at-32-bits"),
    pytest.param("", id="empty"),
    pytest.param("\u00b2", id="superscript-digit"),
]


@pytest.mark.parametrize("coding", ["chunked", "Chunked"])
@clause("transport.raw.cl_te.nothing_smuggled")
async def test_length_over_chunks(gateway: Gateway, worker: Worker, coding: str) -> None:
    """The length covers a hidden request behind the last chunk: it is never taken for a request."""
    raw = await Raw.of(gateway, worker)
    rest = chunked(raw.body) + raw.smuggled()
    talk = await raw.say(raw.head(f"Content-Length: {len(rest)}", f"Transfer-Encoding: {coding}") + rest, closing=True)
    await raw.refused_or_served(talk)
    closes(talk)


@pytest.mark.parametrize("lines_first", [True, False], ids=["length-first", "chunks-first"])
@clause("transport.raw.te_cl.nothing_smuggled")
async def test_chunks_over_length(gateway: Gateway, worker: Worker, *, lines_first: bool) -> None:
    """The length ends inside the first chunk, where a hidden request begins: it is never taken for a request."""
    raw = await Raw.of(gateway, worker)
    rest = chunked(raw.smuggled())
    lines = [f"Content-Length: {rest.index(CRLF) + 2}", "Transfer-Encoding: chunked"]
    talk = await raw.say(raw.head(*(lines if lines_first else reversed(lines))) + rest, closing=True)
    if talk.status == 200:
        raise Disproved("served", f"a body that is no JSON was served: {talk.brief()}")
    await raw.nothing_smuggled()
    closes(talk)


@pytest.mark.parametrize("lines", OBFUSCATED)
@clause("transport.raw.te_te.behind")
async def test_obfuscated_coding_behind(gateway: Gateway, worker: Worker, lines: list[bytes]) -> None:
    """An oddly written coding beside a length over everything: refused, or read in one way to its end."""
    raw = await Raw.of(gateway, worker)
    rest = chunked(raw.body) + raw.smuggled()
    talk = await raw.say(raw.head(f"Content-Length: {len(rest)}", *lines) + rest)
    await raw.nothing_smuggled()
    for entry in await raw.at_most_once(raw.seen):
        raw.whole(entry)
    if talk.status == 200:
        await raw.served(talk)


@pytest.mark.parametrize("lines", OBFUSCATED)
@clause("transport.raw.te_te.inside")
async def test_obfuscated_coding_inside(gateway: Gateway, worker: Worker, lines: list[bytes]) -> None:
    """An oddly written coding beside a length over everything, the hidden request in a chunk: it stays data."""
    raw = await Raw.of(gateway, worker)
    rest = chunk(raw.smuggled()) + LAST_CHUNK
    short = rest.index(CRLF) + 2
    talk = await raw.say(raw.head(f"Content-Length: {short}", *lines) + rest)
    if talk.status == 200:
        raise Disproved("served", f"a body that is no JSON was served: {talk.brief()}")
    # A reader that does not know the line as a coding ends the request at its length, as it must; what follows is
    # then a request of its own and no smuggling. All lines that a lenient reader takes for a coding must be refused.
    if lines[0].startswith((b"Transfer_Encoding", b"X-A")):
        await raw.at_most_once(raw.hidden)
    else:
        await raw.nothing_smuggled()


@pytest.mark.parametrize("coding", FOREIGN_CODINGS)
@clause("transport.raw.te.foreign_coding")
async def test_foreign_coding(gateway: Gateway, worker: Worker, coding: str) -> None:
    """A body in a coding other than chunks alone is refused, whether or not a length stands beside it."""
    raw = await Raw.of(gateway, worker)
    talk = await raw.say(raw.head(f"Transfer-Encoding: {coding}") + chunked(raw.body), closing=True)
    await raw.refused(talk, {400, 415, 501})
    closes(talk)


@clause("transport.raw.te.http_1_0")
async def test_chunks_in_http_1_0(gateway: Gateway, worker: Worker) -> None:
    """HTTP/1.0 has no chunks: such a request is refused or read as chunks, and the connection is closed behind it."""
    raw = await Raw.of(gateway, worker)
    head = raw.head("Transfer-Encoding: chunked", "Connection: keep-alive", first=f"POST {CHAT} HTTP/1.0")
    talk = await raw.say(head + chunked(raw.body) + raw.smuggled(), closing=True)
    if talk.status == 200:
        await raw.served(talk)
    else:
        await raw.refused(talk)
    closes(talk)


@clause("transport.raw.length.repeated")
async def test_repeated_equal_length(gateway: Gateway, worker: Worker) -> None:
    """The same length on two lines: refused with 400, or the worker gets one."""
    raw = await Raw.of(gateway, worker)
    length = f"Content-Length: {len(raw.body)}"
    await raw.refused_or_served(await raw.say(raw.head(length, length) + raw.body), statuses={400})


@pytest.mark.parametrize("written", LENGTHS)
@clause("transport.raw.length.malformed")
async def test_malformed_length_hides_nothing(gateway: Gateway, worker: Worker, written: str) -> None:
    """A length that is no number of the grammar is refused with 400 and the connection closed, whatever follows."""
    raw = await Raw.of(gateway, worker)
    size = len(raw.body)
    value = written.format(n=size, more=size + 10, wrapped=2**64 + size, wrapped32=2**32 + size)
    talk = await raw.say(raw.head(f"Content-Length: {value}") + raw.body + raw.smuggled(), closing=True)
    if written == "{n}, {n}" and talk.status == 200:  # the one form that may be repaired; a request follows it then
        raw.whole(await raw.seen.only())
        return
    # The two huge ones are numbers, only beyond every limit.
    await raw.refused(talk, {400, 413} if "wrapped" in written else {400})
    closes(talk)


@clause("transport.raw.length.leading_zeros")
async def test_length_with_leading_zeros(gateway: Gateway, worker: Worker) -> None:
    """Leading zeros are no octal: the request is served with the decimal length, or refused."""
    raw = await Raw.of(gateway, worker)
    await raw.refused_or_served(await raw.say(raw.head(f"Content-Length: 000{len(raw.body)}") + raw.body))


@pytest.mark.parametrize("missing", [1, 40])
@clause("transport.raw.length.body_too_short")
async def test_body_shorter_than_declared(gateway: Gateway, worker: Worker, missing: int) -> None:
    """A client that ends before its length is full has sent no request: nothing is served, no worker gets it."""
    raw = await Raw.of(gateway, worker)
    talk = await raw.say(raw.head(f"Content-Length: {len(raw.body) + missing}") + raw.body, Fin(), closing=True)
    await raw.refused(talk)
    closes(talk)


@clause("transport.raw.length.body_too_long")
async def test_body_longer_than_declared(gateway: Gateway, worker: Worker) -> None:
    """Bytes beyond the length are no part of the body: the worker gets what was declared, the rest gets no success."""
    raw = await Raw.of(gateway, worker)
    talk = await raw.say(raw.honest() + b'{"igc": "beyond the length"}\r\n\r\n', closing=True)
    await raw.served(talk)
    assert 200 not in talk.statuses[1:]
    closes(talk)
