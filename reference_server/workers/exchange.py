"""What passes between the front of the server and the workers: requests out, responses back, models listed.

Headers are pairs of text, one entry per header line, in the order of the wire; each character stands for one byte
(latin-1), so nothing a peer sent is lost and repeats stay repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from reference_server.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUTED_WORKER = "x-smg-routed-worker-id"


@dataclass(frozen=True, slots=True)
class RoutingHints:
    """What a client may say about placement; `random` and `round_robin` read none of it.

    `key` is the routing key, `tokens` the prompt's leading token ids, `target` the 0-based index of a worker.
    """

    key: str | None = None
    tokens: tuple[int, ...] | None = field(default=None, repr=False)
    target: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One request to whichever worker is chosen.

    Attributes:
        method: HTTP method.
        path: Target on the worker, beginning with `/`.
        headers: End-to-end headers to forward; host, content-length and accept are added by the client.
        body: The bytes of the body, sent with their length.
        model: Canonical model id, which selects the candidates.
        routing: Placement hints.
        read_limit_bytes: When set, an answer that is no event stream is read whole before it is handed over, so that
            a body that breaks or is larger than this can still be repeated on another worker. `None`: hand over as
            soon as the head is here.
    """

    method: str
    path: str
    headers: Sequence[tuple[str, str]] = field(repr=False)
    body: bytes = field(repr=False)
    model: str
    routing: RoutingHints = field(default_factory=RoutingHints)
    read_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One entry of the models list: a canonical id, and who owns it."""

    id: str
    created: int = 0
    owned_by: str = "self_hosted"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How many workers are registered (`total`) and how many of them take requests (`healthy`)."""

    healthy: int
    total: int

    @property
    def ready(self) -> bool:
        """Whether at least one worker takes requests."""
        return self.healthy > 0


class WorkersOverloadedError(GatewayError):
    """No worker is asked, because all that could be, or the one chosen, report too much load (`stage`)."""

    def __init__(self, model: str, stage: Literal["selection", "dispatch"], retry_after_s: int) -> None:
        message = f"All workers for model '{model}' are overloaded"
        super().__init__(503, "worker_overload_protection_shed", message, [("retry-after", str(retry_after_s))])
        self.stage = stage


class UpstreamError(GatewayError):
    """A worker could not be asked, or did not answer well. `stale`: only the pooled connection was at fault."""

    stale: bool = False


class UpstreamConnectionError(UpstreamError):
    """No connection to the worker: refused, unreachable, unresolvable or not accepted in time."""

    def __init__(self) -> None:
        super().__init__(500, "call_upstream_connection_failed", "The worker could not be connected to.")


class UpstreamRequestError(UpstreamError):
    """The connection ended before a response head came, or what came was no HTTP response."""

    def __init__(self, detail: str, *, stale: bool = False) -> None:
        super().__init__(500, "call_upstream_request_error", f"The worker gave no usable answer: {detail}.")
        self.stale = stale


class UpstreamTimeoutError(UpstreamError):
    """The request timeout passed before the response head."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(504, "call_upstream_timeout", f"The worker did not answer within {limit_s:g} seconds.")


class UpstreamBodyError(UpstreamError):
    """The response body ended early, was malformed, or outlived the request timeout."""

    def __init__(self, detail: str, worker_url: str) -> None:
        message = f"The worker's response could not be read to its end: {detail}."
        super().__init__(500, "read_response_body_failed", message, ((ROUTED_WORKER, worker_url),))


class UpstreamTooLargeError(UpstreamError):
    """A response that is no stream is larger than the payload limit."""

    def __init__(self, limit_bytes: int, worker_url: str) -> None:
        message = f"The worker's response is larger than {limit_bytes} bytes."
        super().__init__(502, "upstream_response_too_large", message, ((ROUTED_WORKER, worker_url),))
