"""What is no request is refused like anything else: in the envelope, with a request id, and an end behind it."""

from __future__ import annotations

import json
import re
import socket

from tests.reference_server.test_process import gateway

HOST = b"Host: x\r\n"
REFUSED = {
    b"GARBAGE\r\n\r\n": (400, "Bad Request", "bad_request"),
    b"GET /health HTTP/1.1\r\nHost: a b\r\n\r\n": (400, "Bad Request", "bad_request"),
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n": (414, "URI Too Long", "uri_too_long"),
    b"GET / HTTP/1.1\r\nX: " + b"a" * 140_000: (
        431, "Request Header Fields Too Large", "request_header_fields_too_large",
    ),
    b"get /health HTTP/1.1\r\n" + HOST + b"\r\n": (501, "Not Implemented", "not_implemented"),
    b"GET /health HTTP/3.0\r\n" + HOST + b"\r\n": (505, "HTTP Version Not Supported", "http_version_not_supported"),
    b"HEAD /health HTTP/1.1\r\nHost: a b\r\n\r\n": (400, "Bad Request", "bad_request"),
    b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n": (
        400, "Bad Request", "bad_request",
    ),
}  # fmt: skip


def test_a_refused_head_is_answered_in_the_envelope() -> None:
    """Status, envelope, code in the header too, an id, and the end of the connection, for every kind of refusal."""
    ids = set()
    with gateway() as server:
        for sent, (status, phrase, code) in REFUSED.items():
            with socket.create_connection(server.address, timeout=10) as client:
                client.sendall(sent)
                got = b""
                while data := client.recv(65536):
                    got += data
            head, body = got.split(b"\r\n\r\n", 1)
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            assert head.startswith(b"HTTP/1.1 %d " % status), sent[:40]
            if sent.startswith(b"HEAD"):
                assert body == b""
            else:
                error = json.loads(body)["error"]
                assert (error["type"], error["code"], error["param"]) == (phrase, code, None)
                assert int(fields[b"content-length"]) == len(body)
            assert fields[b"x-smg-error-code"] == code.encode()
            assert fields[b"content-type"] == b"application/json"
            assert fields[b"connection"] == b"close"
            assert re.fullmatch(rb"req-[0-9a-z]{24}", fields[b"x-request-id"])
            ids.add(fields[b"x-request-id"])
        server.process.terminate()
        status, errors = server.ends()
    assert len(ids) == len(REFUSED)
    assert (status, "Traceback" in errors) == (0, False)
