"""What the checks of the workers API share: workers of their own, added and taken away again."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from conformance.checks.routes_support import expect_status, expect_success
from conformance.harness.bodies import body_for
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from fake_workers.fleet import Fleet
from fake_workers.spec import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from fake_workers.journal import Entry
    from fake_workers.spec import EngineName

READY_BOUND_S = 15.0
GONE_BOUND_S = 20.0
LOOK_EVERY_S = 0.05


async def listed(gateway: Gateway) -> list[dict[str, Any]]:
    """The workers of GET /workers; Disproved when there is no such array."""
    body = expect_success(await gateway.get("/workers")).json
    workers = body.get("workers") if isinstance(body, dict) else None
    if not isinstance(workers, list):
        raise Disproved("no array of workers", f"GET /workers answered without an array `workers`: {str(body)[:300]}")
    return workers


async def worker_id(gateway: Gateway, url: str) -> str:
    """The id under which a worker of the configuration is registered."""
    for entry in await listed(gateway):
        if str(entry.get("url", "")).rstrip("/") == url.rstrip("/"):
            return str(entry["id"])
    raise Disproved("worker not listed", f"GET /workers does not list {url}")


def own_model() -> str:
    """A model name no other check uses."""
    return f"own-{secrets.token_hex(6)}"


@contextlib.asynccontextmanager
async def own_fleet(*models: str, engine: EngineName = "vllm", **options: Any) -> AsyncIterator[Fleet]:
    """Fake workers of this check alone, one for each model name."""
    specs = [
        WorkerSpec(engine=engine, model=model, name=f"own{number}", **options) for number, model in enumerate(models)
    ]
    async with Fleet(specs) as fleet:
        yield fleet


class Registry:
    """Adds workers through the admin API and removes, at the end, whatever is left of them."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._added: list[str] = []

    async def post(self, body: dict[str, Any] | bytes) -> Exchange:
        """POST /workers; what it adds is removed at the end."""
        answer = await self.gateway.post("/workers", body)
        if answer.status == 202:
            self._added.append(self.id_of(answer))
        return answer

    async def add(self, url: str, **more: Any) -> str:
        """Add a worker and wait until it is ready; returns its id."""
        known = self.id_of(expect_status(await self.post({"url": url, **more}), 202))
        await self.until_ready(known)
        return known

    def id_of(self, answer: Exchange) -> str:
        """The id an accepted addition names in its Location (or else in its body)."""
        place = answer.headers.get("location") or ""
        if place.startswith("/workers/"):
            return place.removeprefix("/workers/")
        body = answer.json
        if isinstance(body, dict) and isinstance(body.get("worker_id"), str):
            return str(body["worker_id"])
        raise Disproved(
            "accepted worker without an id", f"neither Location nor body name the new worker: {answer.brief()}"
        )

    async def get(self, known: str) -> Exchange:
        """GET /workers/{id}."""
        return await self.gateway.get(f"/workers/{known}")

    async def delete(self, known: str) -> Exchange:
        """DELETE /workers/{id}."""
        return await self.gateway.request("DELETE", f"/workers/{known}")

    async def until_ready(self, known: str) -> dict[str, Any]:
        """Wait until the worker is healthy; returns how it is shown. Disproved after `READY_BOUND_S`."""

        def ready(answer: Exchange) -> bool:
            """It is shown as healthy."""
            return answer.status == 200 and answer.json.get("is_healthy") is True

        shown: dict[str, Any] = (
            await self._until(lambda: self.get(known), ready, READY_BOUND_S, "worker does not become ready")
        ).json
        return shown

    async def until_gone(self, known: str) -> Exchange:
        """Wait until the worker is unknown (404). Disproved after `GONE_BOUND_S`."""
        return await self._until(
            lambda: self.get(known), lambda answer: answer.status == 404, GONE_BOUND_S, "removed worker still known"
        )

    async def until_listed(self, known: str, *, present: bool) -> None:
        """Wait until GET /workers shows (or no longer shows) the worker."""

        def settled(answer: Exchange) -> bool:
            """The list is as wanted."""
            return (known in {entry.get("id") for entry in answer.json["workers"]}) is present

        await self._until(
            lambda: self.gateway.get("/workers"), settled, GONE_BOUND_S, "list of workers does not follow"
        )

    async def until_label(self, known: str, name: str, value: str) -> dict[str, Any]:
        """Wait until the worker shows the label; returns all of its labels."""

        def labelled(answer: Exchange) -> bool:
            """The label is there."""
            return answer.status == 200 and answer.json.get("labels", {}).get(name) == value

        labels: dict[str, Any] = (
            await self._until(lambda: self.get(known), labelled, READY_BOUND_S, "label does not appear")
        ).json["labels"]
        return labels

    async def until_chat(self, model: str, *statuses: int) -> Exchange:
        """Wait until a chat completion for the model answers with one of these statuses."""
        return await self._until(
            lambda: self.chat(model), lambda answer: answer.status in statuses, GONE_BOUND_S, "model does not change"
        )

    async def chat(self, model: str, headers: Sequence[tuple[str, str | None]] = (), **fields: Any) -> Exchange:
        """A chat completion for a worker of this check, answered in engine mode."""
        return await self.gateway.post(CHAT, body_for(CHAT, model, "Say hello.", fields), headers)

    async def _until(
        self, ask: Callable[[], Any], done: Callable[[Exchange], bool], within_s: float, kind: str
    ) -> Exchange:
        """Ask again and again until the answer is as wanted; Disproved when the time is up."""
        deadline = time.monotonic() + within_s
        while True:
            answer: Exchange = await ask()
            if done(answer):
                return answer
            if time.monotonic() > deadline:
                raise Disproved(kind, f"{kind} within {within_s:g} s: {answer.brief()}")
            await asyncio.sleep(LOOK_EVERY_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        for known in self._added:
            await self.delete(known)


def inference(fleet: Fleet, worker: str | None = None) -> list[Entry]:
    """The chat completions a fleet of this check received, probes of the gateway left out."""
    return [entry for entry in fleet.journal.all_entries() if entry.path == CHAT and worker in (None, entry.worker)]


def stranger() -> str:
    """An id no worker has."""
    return str(uuid4())
