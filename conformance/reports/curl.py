"""A command line that sends a request again, byte for byte where curl can, with `printf | nc` where it cannot."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange

# curl adds these by itself; an empty value takes them away again.
CURL_ADDS = ("accept", "user-agent", "content-type", "expect")
METHOD = re.compile(r"[A-Za-z]+$")


def reproduce(exchange: Exchange, base_url: str) -> str:
    """The command for this exchange against the gateway at `base_url` (`http://HOST:PORT`)."""
    head, gap, body = exchange.request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    fields = [line.partition(":") for line in lines[1:]]
    if not gap or len(words) != 3 or not METHOD.match(words[0]) or not words[1].startswith("/"):
        return _raw(exchange.request, base_url)
    names = {name.lower() for name, _, _ in fields}
    lengths = [value.strip() for name, _, value in fields if name.lower() == "content-length"]
    if b"\0" in exchange.request or "transfer-encoding" in names or lengths not in ([], [str(len(body))]):
        return _raw(exchange.request, base_url)
    version = "--http2-prior-knowledge" if exchange.http2 else "--http1.1"
    options = ["curl", "-sS", "-i", version, "--path-as-is", "--globoff", "-X", words[0]]
    if words[0] == "HEAD":
        options = ["curl", "-sS", version, "--path-as-is", "--globoff", "--head"]
    for name, _, value in fields:
        if name.lower() in {"host", "content-length"}:
            continue
        # An empty value is written with a semicolon; with a colon curl would drop the header.
        options += ["-H", f"{name}: {value.strip()}" if value.strip() else f"{name};"]
    for name in CURL_ADDS:
        if name not in names:
            options += ["-H", f"{name}:"]
    quoted = " ".join(_quote(option.encode("latin-1")) for option in options)
    if "content-length" in names or body:
        # Not --data-binary, which reads a file when the body begins with an at sign.
        quoted += f" --data-raw {_quote(body)}"
    return f"{quoted} {shlex.quote(base_url.rstrip('/') + words[1])}"


def _quote(data: bytes) -> str:
    """A shell word for any bytes but NUL."""
    text = data.decode("utf-8", errors="surrogateescape")
    if text.isprintable() and not any("\udc80" <= char <= "\udcff" for char in text):
        return shlex.quote(text)
    return "$'" + _escaped(data) + "'"


def _escaped(data: bytes) -> str:
    """Bytes for $'...' of a shell: printable ASCII as it is, everything else as an octal escape."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\{byte:03o}" for byte in data)


def _raw(data: bytes, base_url: str) -> str:
    """Any request at all, through a plain TCP client."""
    host, _, port = base_url.removeprefix("http://").partition("/")[0].rpartition(":")
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\0{b:03o}" for b in data)
    return f"(printf '%b' '{escaped}'; sleep 2) | nc {host} {port}"
