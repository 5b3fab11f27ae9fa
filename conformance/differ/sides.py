"""The two gateways, the workers behind both, and one request to one of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from conformance.differ.compare import Observed
from conformance.harness.configurations import configuration
from conformance.harness.environment import Environment, WorkerAt, start_gateway, until_routed
from conformance.harness.errors import UserError
from conformance.targets.adapter import load
from conformance.targets.running import register, remove
from fake_workers import wire
from fake_workers.fleet import Fleet
from fake_workers.script import Script, Wire
from fake_workers.spec import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from conformance.differ.requests import Request

WITHIN_S = 20.0
CONFIGURATION = "default"
MODEL = "conformance-vllm"


@dataclass(frozen=True)
class Side:
    """One gateway: how it was named on the command line, and where it listens."""

    label: str
    url: str


class Sides:
    """Both gateways in front of one fleet. Use `open_sides`."""

    def __init__(self, left: Side, right: Side, fleet: Fleet, client: aiohttp.ClientSession) -> None:
        self.left = left
        self.right = right
        self._fleet = fleet
        self._client = client

    async def both(self, request: Request) -> tuple[Observed, Observed]:
        """Send a request to both gateways at once."""
        left, right = await asyncio.gather(self._send(self.left, request), self._send(self.right, request))
        return left, right

    async def _send(self, side: Side, request: Request) -> Observed:
        marker = f"igc-{secrets.token_hex(8)}"
        answer, scripted = answers(request)
        self._fleet.book.put(marker, Script(answers=[answer]))
        data = request.data(model=MODEL, prompt=f"Say hello. {marker}")
        headers = [*request.headers, ("x-correlation-id", marker)]
        status, content_type, body = None, "", b""
        try:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with self._client.post(
                    side.url + request.path,
                    data=data,
                    headers=headers,
                    skip_auto_headers={"content-type", "user-agent", "accept"},
                    allow_redirects=False,
                ) as got:
                    status, content_type = got.status, got.headers.get("content-type", "")
                    body = await got.read()
            entries = self._fleet.journal.entries(marker)
            first = entries[0] if entries else None
            return Observed(
                status,
                content_type,
                body.replace(marker.encode(), b"MARKER"),
                scripted,
                first.body.replace(marker.encode(), b"MARKER") if first else None,
                tuple(first.headers) if first else (),
                len(entries),
            )
        finally:
            self._fleet.book.forget(marker)
            self._fleet.journal.forget(marker)


def answers(request: Request) -> tuple[Wire, bytes]:
    """What the worker answers, and the bytes of its body."""
    kind = request.answer
    if kind == "stream":
        events = [{"id": "1", "choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Hel", "lo")]
        data = b"".join(wire.event(each) for each in events) + wire.DONE
        return wire.sse(*events), data
    if kind.startswith("worker "):
        word = kind.removeprefix("worker ")
        if word == "text":
            return wire.body(503, b"busy", "text/plain"), b"busy"
        data = json.dumps({"error": {"message": "no", "type": "odd", "code": f"e{word}", "param": None}}).encode()
        return wire.body(int(word), data, "application/json", [("x-smg-error-code", "theirs")]), data
    if kind == "odd type":
        return wire.body(200, b"<p>hello</p>", "text/html"), b"<p>hello</p>"
    data = b'{"id": "1", "object": "x", "choices": [ ], "usage": null}'
    return wire.body(200, data, "application/json"), data


@asynccontextmanager
async def open_sides(left: str, right: str, log_dir: Path, *, admin_key: str | None = None) -> AsyncIterator[Sides]:
    """Start the fleet and both gateways (`NAME[@VERSION]`), or put the fleet behind one that runs (`http://...`).

    Raises:
        UserError: no such gateway, or no URL of one.
        TargetError: a gateway does not start, or does not route.
    """
    plan = configuration(CONFIGURATION)
    specs = [WorkerSpec(name=each.name, engine=each.engine, model=each.model) for each in plan.workers]
    async with contextlib.AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(Fleet(specs))
        workers = [
            WorkerAt(spec.name, spec.engine, spec.model, url) for spec, url in zip(specs, fleet.urls, strict=True)
        ]
        settings = {"workers": fleet.urls, **plan.settings}
        sides = []
        for label in (left, right):
            if "://" in label:
                url = await _joined(label, workers, stack, admin_key)
            else:
                process, url = await asyncio.to_thread(start_gateway, load(label), CONFIGURATION, settings, log_dir)
                stack.callback(process.stop)
            aliases = {} if "://" in label else plan.aliases
            environment = Environment(CONFIGURATION, url, fleet.control_url, workers, aliases)
            await until_routed(environment)
            sides.append(Side(label, url))
        timeout = aiohttp.ClientTimeout(total=WITHIN_S)
        client = aiohttp.ClientSession(auto_decompress=False, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        yield Sides(sides[0], sides[1], fleet, await stack.enter_async_context(client))


async def _joined(label: str, workers: list[WorkerAt], stack: contextlib.AsyncExitStack, key: str | None) -> str:
    """Put the workers behind a gateway that runs, for as long as the stack is open; returns its base URL."""
    if not label.startswith("http://"):
        raise UserError(f"{label}: expected NAME[@VERSION] or http://HOST:PORT (TLS is not spoken)")
    url = label.rstrip("/")
    ids = await register(url, workers, key)
    stack.push_async_callback(remove, url, ids, key)
    return url
