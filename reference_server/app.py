"""The Quart application: which path and method is answered by what, and what is said where there is nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quart import Quart, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from reference_server import answers, pipeline
from reference_server.connection import RawResponse, connection_class, current_call, internal_error
from reference_server.endpoints import ENDPOINTS
from reference_server.errors import GatewayError, Refused
from reference_server.routes.public import PublicRoutes
from reference_server.routes.workers_api import WorkersRoutes
from reference_server.upgrade import DeclinedUpgrade

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reference_server.answers import Answer
    from reference_server.call import Call
    from reference_server.endpoints import Endpoint
    from reference_server.state import ServerState
    from reference_server.workers.fleet import Fleet

    Handler = Callable[..., Awaitable[Answer]]


def create_app(state: ServerState, fleet: Fleet | None = None) -> Quart:
    """The application of one server; without a fleet the workers API is left out (tests of the front alone)."""
    app = Quart("reference_server", static_folder=None)
    app.url_map.merge_slashes = False  # //v1/models is another path, not a redirect
    app.url_map.strict_slashes = True
    app.asgi_http_class = connection_class(state)
    app.asgi_websocket_class = DeclinedUpgrade
    public = PublicRoutes(state)
    _route(app, "GET", "/health", public.alive)
    _route(app, "GET", "/liveness", public.alive)
    _route(app, "GET", "/readiness", public.readiness)
    _route(app, "GET", "/v1/models", public.models)
    _route(app, "GET", "/v1/models/<path:model_id>", public.model)
    for endpoint in ENDPOINTS:
        _route(app, "POST", endpoint.path, partial(_serve, endpoint, state))
    if fleet is not None:
        workers = WorkersRoutes(state, fleet)
        _route(app, "GET", "/workers", workers.list)
        _route(app, "POST", "/workers", workers.add)
        _route(app, "GET", "/workers/<worker_id>", workers.get)
        _route(app, "DELETE", "/workers/<worker_id>", workers.remove)
        _route(app, "PATCH", "/workers/<worker_id>", workers.update)
        _route(app, "PUT", "/workers/<worker_id>", workers.replace)
        _route(app, "GET", "/get_loads", workers.loads)
        _route(app, "POST", "/flush_cache", workers.flush_cache)
    app.register_error_handler(HTTPException, _framework_refusal)
    app.register_error_handler(Exception, partial(_fault, app))
    return app


async def _serve(endpoint: Endpoint, state: ServerState, this: Call) -> Answer:
    return await pipeline.serve(this, endpoint, state)


def _route(app: Quart, method: str, path: str, handler: Handler) -> None:
    async def view(**arguments: Any) -> RawResponse:
        this = current_call(request.scope)
        try:
            answer = await handler(this, **arguments)
        except Refused as refused:
            answer = answers.refusal(refused)
        return RawResponse(answer)

    app.add_url_rule(path, f"{method} {path}", view, methods=[method], provide_automatic_options=False)


async def _framework_refusal(error: HTTPException) -> RawResponse:
    """What the router raises: no such path, no such method, or (for odd requests) anything else below 500."""
    this = current_call(request.scope)
    url = f"Invalid URL ({this.method} {this.target})"
    if isinstance(error, MethodNotAllowed):
        allow = ", ".join(sorted(error.valid_methods or ()))
        return RawResponse(answers.refusal(GatewayError(405, "method_not_allowed", url, [("allow", allow)])))
    if isinstance(error, NotFound):
        return RawResponse(answers.refusal(GatewayError(404, "unknown_url", url)))
    status = error.code or 400
    return RawResponse(answers.refusal(GatewayError(status, "bad_request", f"{url}: {error.description}")))


async def _fault(app: Quart, error: Exception) -> RawResponse:
    """A fault of ours: told to the log in full and to the client in one sentence."""
    app.logger.error("unhandled error", exc_info=error)
    return RawResponse(internal_error())
