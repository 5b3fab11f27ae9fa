"""HTTP/1.1 to the letter where the libraries are lenient, or stricter than they may be.

What h11 lets through and RFC 9110 or 9112 forbid is refused here, before anything looks at the request: methods in
another case (Hypercorn would take `post` for POST), an invalid Host, another major version, a target that is too long.
What they refuse and must not: a target in absolute form, blank lines before a request, and bytes behind the last
request of a connection, which are nobody's business (Hypercorn would answer them with 400 instead of that request).
A wish for another protocol is not passed on.

A refusal is an error that the gateway makes, so it is the envelope with an id of its own, like any other.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import h11
import hypercorn.protocol

from reference_server import answers, request_ids
from reference_server.http2 import DecliningH11Protocol

if TYPE_CHECKING:
    from typing import Any

_MAX_TARGET_BYTES = 65_536
_HOST = re.compile(rb"(?:\[[0-9A-Za-z:.%_~-]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?\Z")
_ABSOLUTE = re.compile(rb"(?i)https?://([^/?#]*)([^#]*)\Z")
_OVER = (h11.MUST_CLOSE, h11.CLOSED)


class StrictConnection(h11.Connection):
    """h11's server side with the rules above; a refusal is a RemoteProtocolError with its status as hint."""

    def __init__(self, max_incomplete_event_size: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=max_incomplete_event_size)
        self.last_method = b""  # of the last request that could be read, whether or not it passed

    def receive_data(self, data: bytes) -> None:
        """Take in bytes; what comes behind the connection's last request is thrown away."""
        if data and self.their_state in _OVER:
            return
        if data and self.their_state is h11.IDLE and not self.trailing_data[0]:
            data = data.lstrip(b"\r\n")  # RFC 9112, 2.2
            if not data:
                return
        super().receive_data(data)

    def next_event(self) -> Any:
        """The next event of the client; a request has passed the rules.

        Raises:
            RemoteProtocolError: what came is no request this server takes; the hint says which status.
        """
        if self.their_state in _OVER and self.trailing_data[0]:
            return h11.NEED_DATA
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as problem:
            unread = self.trailing_data[0]
            if (
                problem.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                and b"\n" not in unread[:_MAX_TARGET_BYTES]
            ):
                problem.error_status_hint = 414
            raise
        if not isinstance(event, h11.Request):
            return event
        self.last_method = event.method
        return judged(event)


def judged(request: h11.Request) -> h11.Request:
    """The request, in origin form, and without its wish for another protocol.

    Raises:
        RemoteProtocolError: 400 for its Host, 414 for its target, 501 for its method, 505 for its version.
    """
    if not request.http_version.startswith(b"1.") and (request.method, request.target) != (b"PRI", b"*"):
        raise h11.RemoteProtocolError("not HTTP/1.x", 505)  # PRI is how HTTP/2 begins
    if request.method != request.method.upper():
        raise h11.RemoteProtocolError("methods are case-sensitive", 501)
    if len(request.target) > _MAX_TARGET_BYTES:
        raise h11.RemoteProtocolError("the request target is too long", 414)
    if any(name == b"host" and not _HOST.match(value) for name, value in request.headers):
        raise h11.RemoteProtocolError("the Host is no host and port", 400)
    if b"#" in request.target:
        raise h11.RemoteProtocolError("a request target has no fragment", 400)
    absolute = _ABSOLUTE.match(request.target)
    return _plain(request if absolute is None else _origin_form(request, absolute[1], absolute[2]))


def _plain(request: h11.Request) -> h11.Request:
    """The same request without Upgrade, which this server never follows (RFC 9110, 7.8, lets it).

    Hypercorn would begin a WebSocket, refuse what is wrong with its handshake, and leave the connection to nobody.
    """
    fields = [(name, value) for name, value in request.headers.raw_items() if name.lower() != b"upgrade"]
    if len(fields) == len(request.headers):
        return request
    return h11.Request(method=request.method, target=request.target, headers=fields, http_version=request.http_version)


def _origin_form(request: h11.Request, host: bytes, path: bytes) -> h11.Request:
    """The same request for the path alone; the target's host stands in for the Host header (RFC 9112, 3.2.2)."""
    if not host or not _HOST.match(host):
        raise h11.RemoteProtocolError("the target's host is none", 400)
    fields = [(name, value) for name, value in request.headers.raw_items() if name.lower() != b"host"]
    return h11.Request(
        method=request.method,
        target=path if path.startswith(b"/") else b"/" + path,
        headers=[(b"Host", host), *fields],
        http_version=request.http_version,
    )


_REFUSALS = {
    400: ("bad_request", "The request is not well-formed HTTP/1.1."),
    414: ("uri_too_long", f"The request target is longer than {_MAX_TARGET_BYTES} bytes."),
    431: ("request_header_fields_too_large", "The head of the request is too large."),
    501: ("not_implemented", "The request method is not implemented; methods are case-sensitive."),
    505: ("http_version_not_supported", "Only HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here."),
}


class StrictH11Protocol(DecliningH11Protocol):
    """Hypercorn's protocol on a strict connection, which says in the envelope why it refuses a request."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.connection = StrictConnection(self.config.h11_max_incomplete_size)

    async def _send_error_response(self, status_code: int) -> None:
        code, message = _REFUSALS.get(status_code, _REFUSALS[400])
        answer = answers.envelope(status_code, code, message)
        body = cast("bytes", answer.body)
        fields = [
            *answer.headers,
            (request_ids.HEADER, request_ids.generate("")),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        headers = [(name.encode(), value.encode()) for name, value in fields]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        if cast("StrictConnection", self.connection).last_method != b"HEAD":
            await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


def install() -> None:
    """Let Hypercorn use this protocol; call it behind `http2.install`, which puts another in the same place."""
    hypercorn.protocol.H11Protocol = StrictH11Protocol  # type: ignore[attr-defined]  # imported there for its own use
