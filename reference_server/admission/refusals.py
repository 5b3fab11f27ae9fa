"""What a client is told that gets no place, or has to give it back (clauses rate_limiting.admission_*, scheduler_*)."""

from __future__ import annotations

from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING

from reference_server.admission.tickets import Verdict
from reference_server.errors import GatewayError

if TYPE_CHECKING:
    from collections.abc import Mapping

BUSY, LATER = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE
Wording = tuple[HTTPStatus, str, str]

LIMITER: Mapping[Verdict, Wording] = MappingProxyType(
    {
        Verdict.FULL: (BUSY, "admission_queue_full", "The admission queue is full."),
        Verdict.DISABLED: (
            BUSY,
            "admission_queue_full",
            "As many requests as may be are being served, and none may wait.",
        ),
        Verdict.LATE: (LATER, "admission_queue_timeout", "The request waited too long to be admitted."),
    }
)
SCHEDULER: Mapping[Verdict, Wording] = MappingProxyType(
    {
        Verdict.FULL: (BUSY, "scheduler_queue_full", "The queue of the request's priority class is full."),
        Verdict.HASTY: (BUSY, "scheduler_queue_full", "More requests come in a second than may be let in."),
        Verdict.LATE: (LATER, "scheduler_queue_timeout", "The request waited too long to be admitted."),
    }
)


def refusal(wordings: Mapping[Verdict, Wording], verdict: Verdict) -> GatewayError:
    """The refusal of a request that is not let in: 429 or 503 with Retry-After 2."""
    status, code, message = wordings[verdict]
    return GatewayError(status, code, message, [("retry-after", "2")])


def preempted() -> GatewayError:
    """The answer to a request that gave its place to one of a higher class: 503, which may be repeated at once."""
    message = "The request gave way to traffic of a higher priority before its first token."
    headers = [("retry-after", "1"), ("x-smg-preempted", "true")]
    return GatewayError(LATER, "scheduler_preempted", message, headers)
