"""Stage *relay*: the worker's answer becomes the client's, byte for byte.

Event streams, and successes of requests that asked for a stream, go out as they arrive; the client's pace is the
worker's pace. Everything else is read whole first, within the payload limit, and goes out with its length. An event
stream that falls silent gets pings (`reference_server.keepalive`), which are pieces of the body like any other.

Reading: a stream whose worker dies is left without its end. The contract promises an error frame and `[DONE]` for gRPC
workers only; behind an HTTP worker the older gateway breaks off and the newer one adds the frame. Breaking off is what
"relayed as they arrive" means, and the client's HTTP library tells it that the body is incomplete.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from reference_server import header_rules
from reference_server.answers import Answer
from reference_server.keepalive.stream import with_pings

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.settings import Settings
    from reference_server.stages.parse import ParsedRequest
    from reference_server.workers.response import UpstreamResponse


async def relay(this: Call, request: ParsedRequest, response: UpstreamResponse, settings: Settings) -> Answer:
    """The answer to the client.

    Raises:
        GatewayError: the body of an answer that is no stream broke off (500) or is over the limit (502).
    """
    succeeded = HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES
    if response.is_event_stream or (request.wants_stream and succeeded):
        headers = header_rules.to_client(response.headers, response.worker_url)
        chunks = response.body()
        if response.is_event_stream and settings.sse_keepalive_s and not header_rules.is_encoded(response.headers):
            chunks = with_pings(chunks, settings.sse_keepalive_s)
        this.undo.push_async_callback(chunks.aclose)
        return Answer(response.status, headers, chunks)
    body = await response.read(settings.max_payload_size_bytes)
    headers = header_rules.to_client(response.headers, response.worker_url)
    return Answer(response.status, headers, body)
