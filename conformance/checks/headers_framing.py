"""How a request body is framed towards the worker, however the client framed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.routes_support import each_path, expect_success, send
from conformance.harness.bodies import encode
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@each_path()
@clause("request_headers.framing.length_true")
async def test_declared_length_is_true(gateway: Gateway, worker: Worker, path: str) -> None:
    """A body with characters of several bytes: the length the worker is told counts the bytes it gets."""
    script = worker.script()
    expect_success(await send(gateway, path, script, user="späte Grüße, 世界"))
    entry = await script.only()
    assert all(int(length) == len(entry.body) for length in entry.header_all("content-length"))
    assert entry.body


@each_path()
@clause("request_headers.framing.one_framing")
async def test_worker_gets_one_framing(gateway: Gateway, worker: Worker, path: str) -> None:
    """The worker is told a length or chunks, one of the two and once."""
    script = worker.script()
    await send(gateway, path, script)
    entry = await script.only()
    assert len(entry.header_all("content-length")) + len(entry.header_all("transfer-encoding")) == 1


@clause("request_headers.framing.chunked_client")
async def test_chunked_request_arrives_whole(gateway: Gateway, worker: Worker) -> None:
    """A request sent in chunks reaches the worker as one body under one framing."""
    script = worker.script()
    body = encode(gateway.chat_body(script, user="in three pieces"))
    expect_success(await gateway.post(CHAT, [body[:10], body[10:50], body[50:]]))
    entry = await script.only()
    assert entry.json["user"] == "in three pieces"
    assert len(entry.header_all("content-length")) + len(entry.header_all("transfer-encoding")) == 1


@clause("request_headers.framing.expect_continue")
async def test_expect_continue_is_served(gateway: Gateway, worker: Worker) -> None:
    """A request with Expect: 100-continue is answered in the end, and the worker gets its body."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[("Expect", "100-continue")]))
    entry = await script.only()
    assert entry.json["messages"][0]["content"] == script.prompt
