"""A noisy run: whatever goes wrong, no key and no word of a prompt is in anything the server writes or shows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fake_workers import wire
from fake_workers.fleet import Fleet as FakeFleet
from fake_workers.markers import new_marker
from fake_workers.script import Chunk, Close, Head, Hold, Reply, Script, Wire
from fake_workers.spec import WorkerSpec as FakeSpec
from reference_server.call import Call, InboundBody
from reference_server.endpoints import ENDPOINTS
from reference_server.request_ids import RequestId
from reference_server.settings import BreakerSettings, HealthSettings
from reference_server.stages.parse import parse_body
from reference_server.workers.admin_bodies import AddBody, read_body
from reference_server.workers.breaker import Breaker
from reference_server.workers.exchange import RoutingHints, UpstreamRequest
from reference_server.workers.health import HealthState
from reference_server.workers.worker import Worker
from tests.support import READY_WITHIN_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CHAT = "/v1/chat/completions"
SHARED, RED, ADMIN, USER = "sk-shared-xyzzy", "sk-red-xyzzy", "sk-admin-xyzzy", "sk-user-xyzzy"
WORKER, GUESS = "sk-worker-xyzzy", "sk-guess-xyzzy"
PROMPT = "my-secret-diary"
SECRETS = (SHARED, RED, ADMIN, USER, WORKER, GUESS, PROMPT)
_STATES = (Breaker(BreakerSettings()), HealthState(HealthSettings(), 0.0))
LIMITS = "default_policy: {tokens_per_minute: 100000, requests_per_minute: 1000}\ntenants:\n"
SCARCE = "  - {tenant_key: 'auth:red', tokens_per_minute: 100000, requests_per_minute: 1}\n"


@asynccontextmanager
async def gateway(folder: Path, *worker_urls: str) -> AsyncIterator[tuple[str, str, Path]]:
    """A talkative gateway with every kind of key: its URL, that of its metrics, and the file of its log."""
    limits, log = folder / "limits.yaml", folder / "log"
    limits.write_text(LIMITS + SCARCE)
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics_port = free.getsockname()[1]
    arguments = [
        "--port", "0", "--prometheus-port", str(metrics_port), "--log-level", "debug", "--worker-urls", *worker_urls,
        "--api-key", SHARED, "--tenant-api-key", f"red:{RED}", "--control-plane-api-keys", f"ops:Ops:admin:{ADMIN}",
        f"dev:Dev:user:{USER}", "--control-plane-audit-enabled", "--tenant-rate-limit-enabled",
        "--tenant-rate-limit-config", str(limits), "--retry-max-retries", "2", "--retry-initial-backoff-ms", "1",
        "--request-timeout-secs", "1", "--max-payload-size", "20000", "--shutdown-grace-period-secs", "1",
    ]  # fmt: skip
    with log.open("wb") as written:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "reference_server", "launch", *arguments, stdout=subprocess.PIPE, stderr=written
        )
        try:
            assert process.stdout is not None
            line = await asyncio.wait_for(process.stdout.readline(), READY_WITHIN_S)
            assert line, log.read_text()
            yield json.loads(line)["url"], f"http://127.0.0.1:{metrics_port}/metrics", log
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), READY_WITHIN_S) == 0
            assert not await process.stdout.read(), "standard output holds the ready line and nothing else"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Noise:
    """Sends what a careless, unlucky or hostile client sends; keeps every answer that was the gateway's own."""

    def __init__(self, url: str, engines: FakeFleet, *, http2: bool) -> None:
        self.url = httpx.URL(url)
        self.client = httpx.AsyncClient(base_url=url, timeout=20.0, http1=not http2, http2=http2, trust_env=False)
        self.engines = engines
        self.statuses: list[int] = []
        self.said: list[str] = []

    def chat(self, *answers: Reply | Wire, **fields: Any) -> dict[str, Any]:
        """A chat body whose prompt is secret, for a worker that answers so."""
        marker = new_marker()
        if answers:
            self.engines.book.put(marker, Script.of(*answers))
        message = {"role": "user", "content": f"{PROMPT} {marker}"}
        return {"model": "m", "messages": [message], **fields}

    async def send(self, key: str | None, body: Any, *, path: str = CHAT, method: str = "POST", **headers: str) -> None:
        """One request; a worker that dies is the gateway's affair and not the test's."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **headers}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        with contextlib.suppress(httpx.RemoteProtocolError):
            answer = await self.client.request(method, path, content=raw, headers=sent)
            self.statuses.append(answer.status_code)
            if "x-smg-routed-worker-id" not in answer.headers:
                self.said.append(f"{answer.headers}\n{answer.text}")

    async def good_and_bad_keys(self) -> None:
        """Every key where it belongs and where it does not, in the wrong places and in the wrong shape."""
        for key in (SHARED, RED, RED, ADMIN, USER, GUESS, None):
            await self.send(key, self.chat(Reply()))
            for method, path in (("GET", "/workers"), ("DELETE", "/workers/x"), ("POST", "/workers")):
                await self.send(key, b"", path=path, method=method)
        await self.send(None, self.chat(), path=f"{CHAT}?api_key={SHARED}")
        await self.send(None, self.chat(), path=f"/v1/models?key={SHARED}", method="GET")
        await self.send(None, self.chat(), path=f"/nowhere?key={SHARED}")
        await self.send(None, self.chat(), **{"x-api-key": SHARED})
        await self.send(None, self.chat(), authorization=f"Basic {SHARED}")
        await self.send(None, self.chat(), authorization=SHARED)
        await self.send(ADMIN, {"url": "http://127.0.0.1:9", "api_key": WORKER}, path="/workers")
        await self.send(ADMIN, {"url": "nonsense", "api_key": WORKER}, path="/workers")
        await self.send(ADMIN, {"url": 7, "api_key": [WORKER]}, path="/workers")
        await self.send(ADMIN, b"", path="/workers", method="GET")

    async def bad_bodies(self) -> None:
        """No JSON, the wrong type and a bad value, at every place where the prompt might be quoted."""
        whole = json.dumps(self.chat()).encode()
        for body in (
            whole[:-1],
            whole + b"x",
            whole[:-30] + b"\xff" + whole[-30:],
            PROMPT.encode(),
            b"[" * 300 + whole,
        ):
            await self.send(SHARED, body)
        for field in ("user", "temperature", "stream", "tools", "tool_choice", "stop", "response_format", "messages"):
            await self.send(SHARED, self.chat(**{field: PROMPT}))
            await self.send(SHARED, self.chat(**{field: {"type": PROMPT, PROMPT: PROMPT}}))
            await self.send(SHARED, self.chat(**{field: [PROMPT, {"role": PROMPT, "content": {PROMPT: PROMPT}}]}))
        await self.send(SHARED, self.chat(padding=PROMPT * 2000))
        await self.send(SHARED, {"model": "m", "prompt": {PROMPT: PROMPT}}, path="/v1/completions")

    async def bad_heads(self) -> None:
        """Heads that no HTTP library lets pass, with a key in each part of them."""
        for head in (
            f"POST {CHAT}?key={SHARED} HTTP/1.1\r\nHost: /{SHARED}\r\nAuthorization: Bearer {SHARED}\r\n\r\n",
            f"post /{SHARED} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SHARED}\r\n\r\n",
            f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SHARED}\r\n {SHARED}\r\n{SHARED}\r\n\r\n",
            f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SHARED}\0\r\n\r\n",
            f"Bearer {SHARED}\r\n\r\n",
            f"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {SHARED}{'x' * 140_000}\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection(self.url.host, self.url.port)
            writer.write(head.encode())
            with contextlib.suppress(ConnectionError):
                answer = await asyncio.wait_for(reader.read(), 10.0)
                self.said.append(answer.decode("latin-1"))
            writer.close()

    async def bad_workers(self) -> None:
        """Workers that fail, hang, die in the middle, or are not there."""
        head = Head(headers=[("content-type", "application/json"), ("content-length", "9")])
        stream = Head(headers=[("content-type", "text/event-stream")])
        for answer in (
            wire.json(500, {"error": "broken"}), Wire(steps=[Close()]), Wire(steps=[head, Close()]),
            Wire(steps=[Hold(name="h", max_s=3)]), Wire(steps=[Head(headers=[("x", "y" * 70_000)]), Close()]),
        ):  # fmt: skip
            await self.send(SHARED, self.chat(answer))
        await self.send(SHARED, self.chat(Wire(steps=[stream, Chunk(data=b"data: 1\n\n"), Close()]), stream=True))
        await self.send(SHARED, {**self.chat(), "model": "nobody's"})
        with contextlib.suppress(httpx.ReadTimeout):
            await self.client.post(CHAT, json=self.chat(Wire(steps=[Hold(name="h", max_s=3)])), timeout=0.2,
                                   headers={"authorization": f"Bearer {SHARED}"})  # fmt: skip


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
async def test_nothing_secret_is_written(tmp_path: Path, *, http2: bool) -> None:
    """Log, standard output, metrics and the gateway's own answers hold no key and no word of a prompt."""
    async with FakeFleet([FakeSpec(engine="vllm", model="m")]) as engines:
        async with gateway(tmp_path, engines.urls[0]) as (url, metrics_url, log):
            noise = Noise(url, engines, http2=http2)
            async with noise.client:
                await noise.good_and_bad_keys()
                await noise.bad_heads()
                await noise.bad_bodies()
                await noise.bad_workers()
            async with httpx.AsyncClient() as client:
                noise.said.append((await client.get(metrics_url)).text)
        written = log.read_text()
    assert {200, 400, 401, 403, 404, 413, 429, 500} <= set(noise.statuses), "the run was not noisy enough"
    assert 'principal="dev"' in written
    assert "smg_http_responses_total" in noise.said[-1]
    for secret in SECRETS:
        assert secret not in written
        for said in noise.said:
            assert secret not in said, said


async def test_the_metrics_port_is_served_and_given_back(tmp_path: Path) -> None:
    """Metrics are there while the server runs, under the real names, and the port is free when it has ended."""
    async with FakeFleet([FakeSpec(engine="sglang", model="m")]) as engines:
        async with gateway(tmp_path, engines.urls[0]) as (_, metrics_url, _), httpx.AsyncClient() as client:
            answer = await client.get(metrics_url)
            assert answer.status_code == 200
            assert 'smg_worker_overload_shed_total{stage="selection"} 0.0' in answer.text
            assert answer.headers["content-type"].startswith("text/plain")
        host, _, port = metrics_url.removeprefix("http://").removesuffix("/metrics").partition(":")
        with socket.create_server((host, int(port))):
            pass


def test_no_repr_shows_what_a_client_sent() -> None:
    """Whatever of a request may land in a traceback or a debugger's output: keys and prompts are not in its text."""
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}).encode()
    headers = [("authorization", f"Bearer {SHARED}")]
    this = Call("POST", "/x", "/x", f"key={SHARED}", headers, RequestId("id"), InboundBody(1000))
    this.body.feed(raw)
    parsed = parse_body(raw, ENDPOINTS[0])
    hints = RoutingHints(tokens=(1234, 5678))
    outgoing = UpstreamRequest("POST", "/x", headers, raw, "m", hints)
    body = read_body("application/json", json.dumps({"url": "http://w", "api_key": WORKER}).encode(), AddBody)
    for shown in (this, parsed, parsed.document, outgoing, body, body.spec(), Worker("i", 0, body.spec(), *_STATES)):
        text = repr(shown)
        assert not any(secret in text for secret in (*SECRETS, "1234")), text
