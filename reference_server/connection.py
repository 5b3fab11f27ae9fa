"""The shell between ASGI and the stages: reads a request, writes its answer, notices a client that leaves.

Quart's own connection class is replaced where a gateway needs more than an application does: headers go out as the
bytes a worker sent, a body that breaks off must look broken to the client, and whatever a request holds is given back
whether it ends well, fails, is cancelled by its client or cut by the shutdown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from quart import Response
from quart.asgi import ASGIHTTPConnection

from reference_server import answers, call, request_ids
from reference_server.admission import refusals
from reference_server.errors import GatewayError
from reference_server.stages import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope, WebsocketScope
    from quart.wrappers import Request

    from reference_server.answers import Answer
    from reference_server.call import Call
    from reference_server.state import ServerState

LOG = logging.getLogger("reference_server")
CALL = "gateway.call"
_NO_CONTENT = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_LINGER_S, _LINGER_AT_THE_END_S = 1.0, 0.25  # the latter: within what a shutdown leaves to open connections
_LEFT = (499, "client_closed_request")


class RawResponse(Response):
    """A Quart response that carries an `Answer` to the connection untouched."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(None, answer.status)
        self.answer = answer


class GatewayConnection(ASGIHTTPConnection):
    """One request: two tasks, one that listens to the client and one that answers; the first to end ends both."""

    state: ServerState  # set on the subclass that `connection_class` makes
    _outcome: tuple[int, str]  # status and code, for the metrics
    _cut: asyncio.Future[None]  # done when the request is to be broken off

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve the request of this scope."""
        this = call.from_scope(self.scope, self.state.settings)
        cast("dict[str, object]", self.scope)[CALL] = this
        self._outcome = _LEFT
        self._cut = self.state.enter()
        answering = asyncio.ensure_future(self._answer(this, partial(self._settled_answer, this), send))
        listening = asyncio.ensure_future(_listen(this, receive))
        try:
            await asyncio.wait({answering, listening, self._cut}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not listening.done():
                await self._break_off(this, answering, send)
        finally:
            listening.cancel()
            answering.cancel()
            await asyncio.gather(answering, listening, return_exceptions=True)
            self.state.metrics.count_response(this.path, *self._outcome)
            await settle.settle(this)
            self.state.leave(self._cut)

    async def _break_off(self, this: Call, answering: asyncio.Future[None], send: ASGISendCallable) -> None:
        """End the work and give back what it held; a client that has got nothing of an answer yet is told."""
        answering.cancel()
        await asyncio.wait({answering})
        await settle.settle(this)
        if not this.begun:
            await self._answer(this, _farewell, send)

    def _create_request_from_scope(self, send: ASGISendCallable) -> Request:
        """Quart's request, for a target of any form.

        Quart cannot read a target without a leading slash (`*`, an absolute URI, nothing) and takes `//x` for `/x`.
        Nothing is served there, so the router is given a path that no route has.
        """
        scope = cast("dict[str, Any]", self.scope)
        if not scope["path"].startswith("/") or scope["path"].startswith("//"):
            scope["path"] = "/ " + scope["path"]
        return super()._create_request_from_scope(send)

    async def _answer(
        self, this: Call, decide: Callable[[], Awaitable[tuple[Answer, bytes]]], send: ASGISendCallable
    ) -> None:
        self._outcome = (500, "")
        try:
            answer, first = await decide()
            self._outcome = (answer.status, _code(answer))
            await _send(this, answer, first, send, _LINGER_AT_THE_END_S if self._cut.done() else _LINGER_S)
        except asyncio.CancelledError:
            if not self._cut.done():
                self._outcome = _LEFT
            raise
        except GatewayError as broken:
            # The worker failed after the response had begun. Nothing more is sent, so the body stays without its
            # end, which is how HTTP says that it is incomplete.
            self._outcome = (self._outcome[0], broken.code)
            LOG.warning("request %s: %s", this.request_id.value, broken.message)
        except Exception:
            LOG.exception("request %s failed while being answered", this.request_id.value)

    async def _settled_answer(self, this: Call) -> tuple[Answer, bytes]:
        """The answer that goes out, with the first piece of its body where that had to be waited for.

        While admission may still take the request's place away, nothing of an answer goes out; if it does, the work
        is cancelled, everything it held is given back at once, and the answer is the 503 that says so.
        """
        if not self.state.admission.preempts:
            return await self._answer_of(this), b""
        working = asyncio.ensure_future(self._until_first_byte(this))
        preempted = asyncio.ensure_future(this.preempted.wait())
        try:
            await asyncio.wait({working, preempted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            preempted.cancel()
            await asyncio.gather(working, preempted, return_exceptions=True)
        settled = None if working.cancelled() else working.result()
        if settled is not None:
            return settled
        await settle.settle(this)
        return answers.refusal(refusals.preempted()), b""

    async def _until_first_byte(self, this: Call) -> tuple[Answer, bytes] | None:
        """The answer as far as it must be known before its first byte; `None`: that byte must not go out any more."""
        answer, first = await self._answer_of(this), b""
        permit = this.permit
        if permit is None:
            return answer, first
        if permit.may_be_preempted and not isinstance(answer.body, bytes):
            try:
                first = await anext(answer.body, b"")
            except GatewayError as broken:  # nothing has gone out yet, so the client can still be told properly
                answer = answers.refusal(broken)
            except Exception:
                LOG.exception("request %s failed before the first byte of its answer", this.request_id.value)
                answer = internal_error()
        return (answer, first) if permit.first_byte() else None

    async def _answer_of(self, this: Call) -> Answer:
        if this.has_invalid_header():
            return answers.refusal(GatewayError(400, "bad_request", "A header value holds a control character."))
        try:
            response = await self.app.handle_request(self._create_request_from_scope(_no_push))
        except Exception:
            LOG.exception("request %s failed", this.request_id.value)
            return internal_error()
        if isinstance(response, RawResponse):
            return response.answer
        LOG.error("request %s was answered by the framework: %s", this.request_id.value, response)
        return internal_error()


def internal_error() -> Answer:
    """The answer when the fault is ours."""
    return answers.envelope(500, "internal_error", "The gateway failed to handle this request.")


async def _farewell() -> tuple[Answer, bytes]:
    """What a request gets that the end of the grace period has found without an answer.

    The contract is silent; the real gateway closes the connection without a word, which a client cannot tell from a
    broken network.
    """
    message = "The gateway is shutting down and has not finished this request."
    refused = GatewayError(503, "shutting_down", message, [("connection", "close")])
    return answers.refusal(refused), b""


def _code(answer: Answer) -> str:
    return next((value for name, value in answer.headers if name == answers.ERROR_CODE_HEADER), "")


async def _no_push(_message: Any) -> None:
    """HTTP/2 push is not used."""


async def _listen(this: Call, receive: ASGIReceiveCallable) -> None:
    """Take in the body; return when the client is gone."""
    while True:
        message = await receive()
        if message["type"] == "http.request":
            this.body.feed(message.get("body", b""))
            if not message.get("more_body", False):
                this.body.finish()
        elif message["type"] == "http.disconnect":
            return


async def _send(this: Call, answer: Answer, first: bytes, send: ASGISendCallable, linger_s: float) -> None:
    """Write an answer; a body in chunks (of which `first` is taken) is read no faster than the client takes it."""
    this.begun = True
    await send({"type": "http.response.start", "status": answer.status, "headers": _wire_headers(this, answer)})
    if isinstance(answer.body, bytes):
        chunk = answer.body
        if not this.body.is_complete:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = b""
            await _linger(this, linger_s)
    else:
        chunk = b""
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        async for piece in answer.body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": chunk, "more_body": False})


async def _linger(this: Call, limit_s: float) -> None:
    """Read on for a moment while the client still sends: closing at once would reset it before it sees the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):  # wait_for of Python 3.11 may swallow a client's cancellation
            await this.body.until_complete()


def _wire_headers(this: Call, answer: Answer) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in answer.headers}
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((request_ids.HEADER.encode(), this.request_id.value.encode("latin-1")))
    if isinstance(answer.body, bytes) and "content-length" not in names and answer.status not in _NO_CONTENT:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if "date" not in names:
        headers.append((b"date", formatdate(usegmt=True).encode()))
    if this.header("content-length") is not None and this.header("transfer-encoding") is not None:
        # Somebody before us may have taken the length for the end of this request: what follows on the connection is
        # not to be trusted (RFC 9112, 6.1).
        headers.append((b"connection", b"close"))
    return headers


def connection_class(server_state: ServerState) -> type[GatewayConnection]:
    """The connection class of one server; Quart makes an instance a request."""
    return type("BoundGatewayConnection", (GatewayConnection,), {"state": server_state})


def current_call(scope: HTTPScope | WebsocketScope) -> Call:
    """The call of the request being handled."""
    return cast("Call", cast("dict[str, object]", scope)[CALL])
