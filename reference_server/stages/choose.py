"""Stages *choose* and *dispatch*: which model is meant, what may be said about placement, and off to a worker.

Which worker it is, whether it is asked again and when it is left alone, is the business of `reference_server.workers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_server import header_rules
from reference_server.stages import compose
from reference_server.workers.exchange import UpstreamRequest

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import Settings
    from reference_server.stages.parse import ParsedRequest
    from reference_server.stages.profile import Profile
    from reference_server.state import Workers
    from reference_server.workers.response import UpstreamResponse


def choose(this: Call, request: ParsedRequest, profile: Profile, settings: Settings) -> UpstreamRequest:
    """The request as it will leave: canonical model, forwarded headers, composed body."""
    model = settings.canonical_model(request.model)
    return UpstreamRequest(
        method="POST",
        path=request.endpoint.path,
        headers=header_rules.to_worker(this.headers, this.request_id),
        body=compose.compose(request, profile, model),
        model=model,
        # A stream is handed over as soon as its head is here; anything else is read whole first, so that a worker
        # that breaks off in the middle of it can still be replaced by another.
        read_limit_bytes=None if request.wants_stream else settings.max_payload_size_bytes,
    )


async def dispatch(this: Call, outgoing: UpstreamRequest, workers: Workers) -> UpstreamResponse:
    """The worker's response, its head read; it is closed when the call is settled.

    Raises:
        GatewayError: no worker serves the model (404), none is available (503), or it could not be asked.
    """
    response = await workers.dispatch(outgoing)
    this.undo.push_async_callback(response.aclose)
    return response
