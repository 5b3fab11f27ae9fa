"""Requests over HTTP/2 for a WebSocket: this server has none, so they are answered as a plain GET of the same path.

Over HTTP/1.1 the wish is dropped before anybody sees it (`http1`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from quart.asgi import ASGIWebsocketConnection

if TYPE_CHECKING:
    from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope

_ANSWERS = {
    "http.response.start": "websocket.http.response.start",
    "http.response.body": "websocket.http.response.body",
}
_ARRIVALS: dict[str, dict[str, Any]] = {
    "websocket.connect": {"type": "http.request", "body": b"", "more_body": False},
    "websocket.disconnect": {"type": "http.disconnect"},
}


class DeclinedUpgrade(ASGIWebsocketConnection):
    """Hands the request to the HTTP connection class and its answer to the client, who sees no upgrade happen."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serve the request as HTTP."""

        async def receive_http() -> Any:
            message = await receive()
            return _ARRIVALS.get(message["type"], {"type": "http.request", "body": b"", "more_body": True})

        async def send_as_refusal(message: Any) -> None:
            await send(cast("Any", {**message, "type": _ANSWERS[message["type"]]}))

        scope = cast("HTTPScope", {**self.scope, "type": "http", "method": "GET", "scheme": "http"})
        await self.app.asgi_http_class(self.app, scope)(receive_http, send_as_refusal)
