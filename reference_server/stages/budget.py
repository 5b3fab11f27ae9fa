"""Stage *budget*: a request is charged to its tenant before a worker sees it, and the account is put right after it.

It comes between choosing and dispatching: an unknown model is a 404 and a bad body a 400 although the budget is spent,
as in the real gateway, and neither costs anything. Charged are chat and completions, not embeddings (the same).

Reading: the real gateway enforces tenant limits behind gRPC workers only. The contract's table of sheds makes no
difference between kinds of workers, so this server enforces them behind every kind.

Settled at the worker's reported usage, as soon as it is complete. The estimate stands where none was reported: an error
of the worker or of the connection to it, a client that left, a stream that broke off or brought no usage.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from reference_server.header_rules import is_encoded
from reference_server.tenants.usage import DocumentUsage, StreamUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from reference_server.answers import Answer
    from reference_server.call import Call
    from reference_server.stages.identify import Caller
    from reference_server.stages.parse import ParsedRequest
    from reference_server.state import ServerState
    from reference_server.tenants.limiter import Charge
    from reference_server.workers.exchange import UpstreamRequest

Reader = DocumentUsage | StreamUsage


def reserve(
    this: Call, caller: Caller, request: ParsedRequest, outgoing: UpstreamRequest, state: ServerState
) -> Charge | None:
    """The charge of a request, `None` where nothing is limited; it is settled at the latest when the call is.

    Raises:
        GatewayError: 429 tenant_rate_limit_exceeded; or, before that, whatever keeps every worker from taking it.
    """
    if state.tenant_limits is None or not request.endpoint.charged:
        return None
    state.workers.require(outgoing.model)
    charge = state.tenant_limits.charge(caller.tenant_key, request, outgoing.model)
    this.undo.callback(charge.keep)
    return charge


def meter(this: Call, answer: Answer, charge: Charge | None) -> Answer:
    """The answer as it is, with its usage read on the way to the client."""
    if charge is None or not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES or is_encoded(answer.headers):
        return answer
    if isinstance(answer.body, bytes):
        reader = _reader(answer)
        reader.feed(answer.body)
        _settle(charge, reader.finish())
        return answer
    chunks = _metered(answer.body, _reader(answer), charge)
    this.undo.push_async_callback(chunks.aclose)
    answer.body = chunks
    return answer


async def _metered(body: AsyncIterator[bytes], reader: Reader, charge: Charge) -> AsyncGenerator[bytes]:
    async for piece in body:
        _settle(charge, reader.feed(piece))
        yield piece
    _settle(charge, reader.finish())


def _settle(charge: Charge, tokens: int | None) -> None:
    if tokens is not None:
        charge.settle(tokens)


def _reader(answer: Answer) -> Reader:
    kind = next((value for name, value in answer.headers if name == "content-type"), "")
    return StreamUsage() if kind.split(";", 1)[0].strip().lower() == "text/event-stream" else DocumentUsage()
