"""The command line of a failure really sends the same request again."""

from __future__ import annotations

import socket
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import bodies
from conformance.harness.exchange import Exchange
from conformance.reports.curl import reproduce
from conformance.reports.evidence import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@contextmanager
def recorder() -> Iterator[tuple[str, list[bytes]]]:
    """A server that keeps the bytes of one request: its URL, and the list they go to."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(1)
                data = b""
                try:
                    while not complete(data):
                        data += connection.recv(65536)
                except TimeoutError:
                    pass
                got.append(data)
                connection.sendall(ANSWER)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", got
        thread.join(20)


def complete(data: bytes) -> bool:
    """Whether a request with a content-length (or none) is all there."""
    head, gap, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(gap) and len(body) >= (int(lengths[0]) if lengths else 0)


def parts(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]], bytes]:
    """Request line, sorted headers without Host, body: what must be the same (curl has its own order and spelling)."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    fields = [(line.partition(b":")[0].lower(), line.partition(b":")[2].strip()) for line in lines]
    return first, sorted(each for each in fields if each[0] != b"host"), body


REQUESTS: dict[str, tuple[str, str, Any, list[tuple[str, str | None]]]] = {
    "json": (
        "POST",
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": 'it\'s $HOME `x` "q"'}]},
        [],
    ),
    "unicode": ("POST", "/v1/completions", {"prompt": "żółć 🦀\n\t\\n"}, []),
    "broken-bytes": ("POST", "/v1/chat/completions", b'{"a": "\xff\xfe\x01"}\r\n', [("x-odd", "it's")]),
    "empty-body": ("POST", "/v1/chat/completions", b"", []),
    "no-content-type": ("POST", "/v1/chat/completions", b"{}", [("content-type", None)]),
    "empty-header": ("POST", "/v1/chat/completions", b"{}", [("x-empty", "")]),
    "at-sign": ("POST", "/v1/chat/completions", b"@/etc/passwd", []),
    "get": ("GET", "/v1/models?a=[1-3]&b={x,y}", None, [("accept", None)]),
    "delete": ("DELETE", "/workers/../x", None, []),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_curl_sends_the_same_request(name: str) -> None:
    """Curl sends the same request line, headers and body, whatever bytes they hold."""
    method, target, body, headers = REQUESTS[name]
    with recorder() as (url, got):
        sent = b"".join(bodies.request(method, target, body, headers, host=url.removeprefix("http://")))
        line = reproduce(Exchange(method, target, sent), url)
        assert line.startswith("curl ")
        done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr
    assert parts(got[0]) == parts(sent)


def test_what_curl_cannot_send_goes_through_a_plain_client() -> None:
    """A request that is not quite HTTP, or comes in chunks, becomes a printf that writes exactly its bytes."""
    raw = b"GET / HTTP/1.1\nhost: x\n\n%s \x00\\'"
    line = reproduce(Exchange("GET", "/", raw), "http://127.0.0.1:1")
    printf, _, rest = line.partition(";")
    assert rest.endswith("| nc 127.0.0.1 1")
    written = subprocess.run(["bash", "-c", printf.lstrip("(")], capture_output=True, timeout=20, check=True)
    assert written.stdout == raw
    chunked = b"".join(bodies.request("POST", "/x", [b"ab", b"c"], [], host="h"))
    assert "| nc" in reproduce(Exchange("POST", "/x", chunked), "http://127.0.0.1:1")


def test_keys_are_variables_in_command_lines() -> None:
    """A command line names $KEY where a key was, and still works once KEY is set."""
    request = b"".join(bodies.request("POST", "/x", {}, [("authorization", "Bearer secret-key")], host="h"))
    line = Redactor(["secret-key"]).command(reproduce(Exchange("POST", "/x", request), "http://127.0.0.1:1"))
    assert "secret-key" not in line
    words = subprocess.run(
        ["bash", "-c", f"KEY=abc; set -- {line}; printf '%s\\n' \"$@\""],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert "authorization: Bearer abc" in words.stdout.splitlines()
