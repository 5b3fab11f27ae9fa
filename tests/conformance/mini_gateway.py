"""A gateway in sixty lines, for tests of the suite: relays to workers by model, and has the vices a test asks for."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import ClientError, ClientSession, web

from tests.on_a_thread import HOST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class MiniGateway:
    """A gateway for `on_a_thread`.

    Args:
        workers: model → URL of the worker that serves it. Models not in there are 404.
        vices: `accepts_anything` (no validation), `wrong_status` (refuses with 422), `sees_before_refusing` (dispatches
            a request, then refuses it).
    """

    def __init__(self, workers: dict[str, str], *vices: str) -> None:
        self.workers = workers
        self.vices = vices

    @asynccontextmanager
    async def hosting(self) -> AsyncIterator[str]:
        """Listen; gives the URL."""
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, 0).start()
            yield f"http://{HOST}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _models(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "object": "list",
                "data": [{"id": model, "object": "model", "created": 0, "owned_by": "mini"} for model in self.workers],
            }
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        sent = json.loads(body)
        valid = 0 <= sent.get("temperature", 1) <= 2 or "accepts_anything" in self.vices
        if valid or "sees_before_refusing" in self.vices:
            try:
                relayed = await self._relay(sent, body)
            except ClientError as problem:
                relayed = web.json_response({"error": {"message": str(problem), "code": "worker"}}, status=502)
            if valid:
                return relayed
        status = 422 if "wrong_status" in self.vices else 400
        return web.json_response(
            {"error": {"message": "no", "type": "invalid_request_error", "code": status}}, status=status
        )

    async def _relay(self, sent: dict[str, object], body: bytes) -> web.Response:
        worker = self.workers.get(str(sent.get("model")))
        if worker is None:
            return web.json_response({"error": {"message": "no such model", "code": "model_not_found"}}, status=404)
        async with (
            ClientSession() as client,
            client.post(
                f"{worker}/v1/chat/completions", data=body, headers={"content-type": "application/json"}
            ) as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, headers={"content-type": answer.headers["content-type"]}
            )
