"""Everything the reference server raises on purpose, in one tree.

ReferenceServerError
├── ConfigurationError        the operator's: a flag, a URL, a port; the program ends with exit status 2
├── StartupError              the machine's: the port is taken, a host cannot be bound; exit status 1
└── Refused                   one request gets one answer, and the server goes on
    ├── RequestRefusal        the client's body; the two 400 shapes of requests, without X-SMG-Error-Code
    │   ├── ParseRefusal        not JSON, not the schema, not the content type: code "json_parse_error"
    │   └── ValidationRefusal   a range or a cross-field rule: code 400, the number
    ├── Unauthorized          no key or an unknown one: 401 without a body
    ├── ControlPlaneRefusal   an admin route without a credential of the admin role: 401 or 403 in plain text
    └── GatewayError          everything else the gateway says itself: the envelope and X-SMG-Error-Code

`reference_server.answers` turns a `Refused` into bytes; nothing below it knows how an answer is written.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ReferenceServerError(Exception):
    """Base of everything this program raises on purpose; `message` is one sentence for a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ConfigurationError(ReferenceServerError):
    """The operator asked for something that cannot be: says what, where, and what to do instead."""


class StartupError(ReferenceServerError):
    """The configuration is sound and the machine refused: a taken port, a host that is not ours."""


class Refused(ReferenceServerError):  # noqa: N818 - a refusal is an answer that went well, not an error of ours
    """A request ends here. `status` is the HTTP status of the answer, `headers` are extra ones it carries."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = tuple(headers)


class RequestRefusal(Refused):
    """A 400 in the shape of request failures: message, type `invalid_request_error`, `code`; no X-SMG-Error-Code."""

    code: str | int

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, message)


class ParseRefusal(RequestRefusal):
    """The body could not be read into the request type (syntax, schema, content type)."""

    code = "json_parse_error"


class ValidationRefusal(RequestRefusal):
    """The body has the right shape and a value or a combination of values is not allowed."""

    code = 400


class Unauthorized(Refused):
    """No key, or none we know: 401 with an empty body and no content type."""

    def __init__(self) -> None:
        super().__init__(HTTPStatus.UNAUTHORIZED, "missing or unknown API key")


class ControlPlaneRefusal(Refused):
    """An admin route asks for a control-plane credential: 401 without a known one, 403 for one of another role."""


class GatewayError(Refused):
    """An error the gateway makes itself: the envelope, with `code` repeated in X-SMG-Error-Code.

    `headers` are extra response headers, for example `("retry-after", "2")` or the routed worker of an answer
    that could not be passed on.
    """

    def __init__(self, status: int, code: str, message: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(status, message, headers)
        self.code = code

    @property
    def reason(self) -> str:
        """The reason phrase of the status, which is the envelope's `type`."""
        return reason_phrase(self.status)


_PHRASES = {413: "Payload Too Large", 414: "URI Too Long"}


def reason_phrase(status: int) -> str:
    """The reason phrase of a status, the same on every interpreter (Python 3.13 renamed two)."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase
