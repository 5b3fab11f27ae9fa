"""HTTP/1.1 to the letter: what is refused before anything looks at it, and what must not be."""

from __future__ import annotations

import h11
import pytest

from reference_server.http1 import StrictConnection

LIMIT = 131_072


def told(data: bytes) -> tuple[int | None, h11.Request | None]:
    """The status of a refusal, or the request that passed."""
    connection = StrictConnection(LIMIT)
    connection.receive_data(data)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as problem:
        return problem.error_status_hint, None
    return None, event if isinstance(event, h11.Request) else None


def head(line: str, *fields: str) -> bytes:
    """A head."""
    return "\r\n".join([line, *fields, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head("post /a HTTP/1.1", "Host: h"), 501),
        (head("GET /a HTTP/3.0", "Host: h"), 505),
        (head("GET /a HTTP/0.9", "Host: h"), 505),
        (head("PRI * HTTP/3.0", "Host: h"), None),  # HTTP/2 begins so; the driver looks at the rest
        (head("GET /a HTTP/1.1", "Host: a b"), 400),
        (head("GET /a HTTP/1.1", "Host: http://a"), 400),
        (head("GET /a HTTP/1.1", "Host: a:b:c"), 400),
        (head("GET /a HTTP/1.1"), 400),
        (head("GET /a HTTP/1.1", "Host: h", "Host: h"), 400),
        (head("GET /a#b HTTP/1.1", "Host: h"), 400),
        (head(f"GET /{'a' * 70_000} HTTP/1.1", "Host: h"), 414),
        (b"GET /" + b"a" * 140_000, 414),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 140_000, 431),
        (head("GET http:///a HTTP/1.1", "Host: h"), 400),
        (head("GET /a HTTP/1.0"), None),
        (head("GET /a HTTP/1.1", "Host: [::1]:80"), None),
        (head("GET /a HTTP/1.1", "Host:"), None),
        (head("GET /a HTTP/1.1", "Host: exa-mple.com:"), None),
        (head("BREW /a HTTP/1.1", "Host: h"), None),
    ],
)
def test_what_is_refused(data: bytes, status: int | None) -> None:
    """Each breach has the status RFC 9110 or 9112 gives it; what they allow passes."""
    refused, request = told(data)
    assert refused == status
    assert (request is None) == (status is not None)


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        ("http://a.example/v1/x?y=1", b"/v1/x?y=1", b"a.example"),
        ("HTTPS://A:1/x", b"/x", b"A:1"),
        ("http://a", b"/", b"a"),
        ("http://a?b", b"/?b", b"a"),
    ],
)
def test_absolute_target_becomes_its_path(target: str, path: bytes, host: bytes) -> None:
    """A target in absolute form is served as its path, and its host counts instead of the Host line."""
    _, request = told(head(f"POST {target} HTTP/1.1", "Host: elsewhere", "Content-Length: 0", "X-A: b"))
    assert request is not None
    assert request.target == path
    assert [value for name, value in request.headers if name == b"host"] == [host]
    assert (b"x-a", b"b") in list(request.headers)


def test_blank_lines_before_a_request_are_passed_over() -> None:
    """Also when they come in a segment of their own, and before a later request."""
    connection = StrictConnection(LIMIT)
    connection.receive_data(b"\r\n")
    connection.receive_data(b"\r\n\r\n" + head("GET /a HTTP/1.1", "Host: h"))
    assert isinstance(connection.next_event(), h11.Request)


@pytest.mark.parametrize("together", [True, False])
def test_bytes_behind_the_last_request_are_nobodys(together: bool) -> None:  # noqa: FBT001 - a parametrised case
    """Behind a request that closes the connection nothing is read, and nothing is an error."""
    connection = StrictConnection(LIMIT)
    request = head("GET /a HTTP/1.1", "Host: h", "Connection: close")
    behind = head("GET /b HTTP/1.1", "Host: h")
    connection.receive_data(request + behind if together else request)
    assert isinstance(connection.next_event(), h11.Request)
    assert isinstance(connection.next_event(), h11.EndOfMessage)
    if not together:
        connection.receive_data(behind)
    assert connection.next_event() is h11.NEED_DATA
    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    assert connection.our_state is h11.MUST_CLOSE


def test_another_protocol_is_not_begun() -> None:
    """A wish to upgrade is dropped, everything else of the request is kept, and the connection serves the next one."""
    connection = StrictConnection(LIMIT)
    wish = head("GET /a HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket", "X-A: b")
    connection.receive_data(wish + head("GET /b HTTP/1.1", "Host: h"))
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    assert list(request.headers) == [(b"host", b"h"), (b"connection", b"Upgrade"), (b"x-a", b"b")]
    assert isinstance(connection.next_event(), h11.EndOfMessage)
    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()
    following = connection.next_event()
    assert isinstance(following, h11.Request)
    assert following.target == b"/b"
