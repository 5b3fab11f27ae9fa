"""A gateway in sixty lines, for tests of the suite: relays to workers by model, and has the vices a test asks for."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Self

from aiohttp import ClientError, ClientSession, web

if TYPE_CHECKING:
    from types import TracebackType


class MiniGateway:
    """Runs in a thread of its own on a port of its own; a context manager.

    Args:
        workers: model → URL of the worker that serves it. Models not in there are 404.
        vices: `accepts_anything` (no validation), `wrong_status` (refuses with 422), `sees_before_refusing` (dispatches
            a request, then refuses it).
    """

    def __init__(self, workers: dict[str, str], *vices: str) -> None:
        self.workers = workers
        self.vices = vices
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

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
