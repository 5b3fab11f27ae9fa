"""Which headers cross the gateway: an allow-list towards workers, a short deny-list towards clients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reference_server import request_ids
from reference_server.answers import ERROR_CODE_HEADER
from reference_server.workers.exchange import ROUTED_WORKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reference_server.answers import HeaderPairs
    from reference_server.request_ids import RequestId

FORWARDED = frozenset(
    {
        "authorization",
        "anthropic-version",
        "anthropic-beta",
        "x-request-id",
        "x-correlation-id",
        "traceparent",
        "tracestate",
        "x-smg-routing-key",
    }
)
"""Client headers that a worker gets; names beginning with `x-request-id-` are the ninth."""

_SENT_ONCE = frozenset({"authorization", "x-request-id", "x-correlation-id"})

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""What concerns one connection only (RFC 9110, 7.6.1)."""

_NEVER_FROM_WORKERS = HOP_BY_HOP | {ERROR_CODE_HEADER, request_ids.HEADER, ROUTED_WORKER}
_SENDABLE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_SENDABLE_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def to_worker(headers: Sequence[tuple[str, str]], request_id: RequestId) -> HeaderPairs:
    """The headers a worker gets from a client's (names in lower case), the body's content type first.

    An id header is sent once: two would leave the worker to guess which one the gateway logged. So is the credential:
    the gateway has looked at the first one only, and the worker must not take another.
    """
    sent: HeaderPairs = [("content-type", "application/json")]
    seen: set[str] = set()
    for name, value in headers:
        if name not in FORWARDED and not name.startswith("x-request-id-"):
            continue
        if name in _SENT_ONCE:
            if name in seen:
                continue
            seen.add(name)
            if name == request_id.replaces:
                sent.append((name, request_id.value))
                continue
        sent.append((name, value))
    return sent


def to_client(headers: Sequence[tuple[str, str]], worker_url: str) -> HeaderPairs:
    """The headers a client gets from a worker's, repeats kept; the worker that served is named at the end.

    The length is left out: a body is framed anew, and what the worker promised about it would be nobody's promise.
    """
    named_by_connection = {
        token.strip().lower() for name, value in headers if name.lower() == "connection" for token in value.split(",")
    }
    dropped = _NEVER_FROM_WORKERS | named_by_connection
    sent: HeaderPairs = []
    for raw_name, value in headers:
        name = raw_name.lower()
        if name in dropped or name == "content-length":
            continue
        # What a lenient client parser let through would make our own server refuse the whole response.
        if _SENDABLE_NAME.fullmatch(name) and _SENDABLE_VALUE.fullmatch(value):
            sent.append((name, value.strip(" \t")))
    sent.append((ROUTED_WORKER, worker_url))
    return sent


def is_encoded(headers: Sequence[tuple[str, str]]) -> bool:
    """Whether a body is compressed, although nobody asked for it: nothing can be read in it or put into it."""
    return any(
        name.lower() == "content-encoding" and value.strip(" \t").lower() != "identity" for name, value in headers
    )
