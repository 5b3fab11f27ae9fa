"""What the server says itself: every answer that is not a worker's, in the shapes of the contract."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reference_server.errors import ControlPlaneRefusal, GatewayError, Refused, RequestRefusal, reason_phrase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ERROR_CODE_HEADER = "x-smg-error-code"
HeaderPairs = list[tuple[str, str]]
"""One entry per header line in the order of the wire; each character stands for one byte (latin-1)."""


@dataclass(slots=True)
class Answer:
    """A response on its way to the client.

    `body` is complete, or arrives in chunks; what is behind the chunks is closed when the call is settled.
    """

    status: int
    headers: HeaderPairs = field(default_factory=list)
    body: bytes | AsyncIterator[bytes] = b""


def refusal(refused: Refused) -> Answer:
    """The answer to a refused request: envelope, request-failure shape, plain text, or an empty 401 (errors.*)."""
    extra = list(refused.headers)
    if isinstance(refused, GatewayError):
        answer = envelope(refused.status, refused.code, refused.message)
        answer.headers += extra
        return answer
    if isinstance(refused, RequestRefusal):
        error = {"message": refused.message, "type": "invalid_request_error", "code": refused.code}
        return json_answer(refused.status, {"error": error}, extra)
    if isinstance(refused, ControlPlaneRefusal):
        return text_answer(refused.status, refused.message, extra)
    return Answer(refused.status, extra)


def envelope(status: int, code: str, message: str) -> Answer:
    """A gateway-made error: `type` is the reason phrase, and the code stands in a header too."""
    error = {"type": reason_phrase(status), "code": code, "message": message, "param": None}
    return json_answer(status, {"error": error}, [(ERROR_CODE_HEADER, code)])


def json_answer(status: int, value: Any, headers: HeaderPairs | None = None) -> Answer:
    """A JSON body, written without blanks and in UTF-8."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return Answer(status, [("content-type", "application/json"), *(headers or [])], body)


def text_answer(status: int, text: str, headers: HeaderPairs | None = None) -> Answer:
    """A plain-text body."""
    return Answer(status, [("content-type", "text/plain; charset=utf-8"), *(headers or [])], text.encode())
