"""Bodies over the configured size, beyond the bounds themselves: shapes, routes, framings, and when it is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.errors_limits import LIMIT_BYTES, sized
from conformance.checks.routes_support import (
    ERROR_CODE,
    REQUEST_ID,
    each_path,
    error_of,
    expect_code,
    expect_equal,
    expect_members,
    expect_status,
    send,
)
from conformance.checks.workers_support import Registry, own_fleet, own_model
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Chunk, Head, Hold, Wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

PIECE_BYTES = 4000
NOTICED_WITHIN_S = 5.0


def in_pieces(body: bytes) -> list[bytes]:
    """The body for a request in chunks."""
    return [body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES)]


def check_enveloped(answer: Exchange, code: str) -> None:
    """The four members, and the code in the header too; types and messages are other clauses'."""
    expect_members(answer, "type", "code", "message", "param")
    expect_equal("another code", error_of(answer)["code"], code)
    expect_equal("another code in the header", answer.headers.get_all(ERROR_CODE), [code])


async def too_large(gateway: Gateway, worker: Worker, path: str = CHAT) -> Exchange:
    """The answer to a body of one byte too many."""
    return await gateway.post(path, sized(gateway, path, worker.script(), LIMIT_BYTES + 1))


@each_path()
@clause("codes.request_body_too_large.envelope")
async def test_too_large_is_enveloped(gateway: Gateway, worker: Worker, path: str) -> None:
    """The 413 is an error of the gateway's, in its envelope and with its header."""
    check_enveloped(expect_status(await too_large(gateway, worker, path), 413), "request_body_too_large")


@clause("codes.request_body_too_large.request_id")
async def test_too_large_has_a_request_id(gateway: Gateway, worker: Worker) -> None:
    """Who is refused for the size of a body has a request id to ask about."""
    answer = expect_status(await too_large(gateway, worker), 413)
    assert len(answer.headers.get_all(REQUEST_ID)) == 1


@clause("codes.request_body_too_large.any_body")
async def test_too_large_comes_before_the_body(gateway: Gateway, worker: Worker) -> None:
    """What is too large is not read: 413, although it is no JSON."""
    await gateway.refuses(worker, CHAT, {}, b"{{prompt}}" + b" " * LIMIT_BYTES, status=413)


@clause("codes.request_body_too_large.admin")
async def test_too_large_for_an_admin_route(gateway: Gateway) -> None:
    """The bound is one of bodies, not of prompts: an addition over it is refused, and is no duplicate when repeated."""
    async with own_fleet(own_model()) as fleet, Registry(gateway) as registry:
        labels = {"ballast": "x" * LIMIT_BYTES}
        expect_status(await gateway.post("/workers", {"url": fleet.urls[0], "labels": labels}), 413)
        expect_status(await registry.post({"url": fleet.urls[0]}), 202)


@each_path()
@clause("codes.request_body_too_large.chunked_at_limit")
async def test_chunked_body_of_the_limit_is_served(gateway: Gateway, worker: Worker, path: str) -> None:
    """A body in chunks of exactly the limit in all reaches the worker: the framing does not count."""
    script = worker.script()
    expect_status(await gateway.post(path, in_pieces(sized(gateway, path, script, LIMIT_BYTES))), 200)
    await script.only()


@clause("codes.request_body_too_large.chunked_code")
async def test_chunked_body_over_the_limit_has_its_code(gateway: Gateway, worker: Worker) -> None:
    """A body in chunks of one byte too many in all is answered like a declared one."""
    answer = await gateway.post(CHAT, in_pieces(sized(gateway, CHAT, worker.script(), LIMIT_BYTES + 1)))
    expect_code(expect_status(answer, 413), "request_body_too_large")


@each_path("completions", "embeddings")
@clause("codes.upstream_response_too_large.every_route")
async def test_too_large_an_answer_on_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """Completions and embeddings answer 502 upstream_response_too_large too."""
    script = worker.script(wire.oversized(LIMIT_BYTES + 1))
    answer = expect_status(await send(gateway, path, script), 502)
    await script.received()
    expect_code(answer, "upstream_response_too_large")


@clause("codes.upstream_response_too_large.envelope")
async def test_too_large_an_answer_is_enveloped(gateway: Gateway, worker: Worker) -> None:
    """The 502 is an error of the gateway's, in its envelope and with its header."""
    script = worker.script(wire.oversized(LIMIT_BYTES + 1))
    answer = expect_status(await gateway.chat(script), 502)
    await script.received()
    check_enveloped(answer, "upstream_response_too_large")


@pytest.mark.parametrize("status", [400, 500])
@clause("codes.upstream_response_too_large.worker_errors")
async def test_too_large_an_error(gateway: Gateway, worker: Worker, status: int) -> None:
    """A worker's error over the limit is a response over the limit: 502."""
    script = worker.script(wire.json(status, {"error": {"message": "x" * LIMIT_BYTES}}))
    answer = expect_status(await gateway.chat(script), 502)
    await script.received()
    expect_code(answer, "upstream_response_too_large")


@pytest.mark.parametrize("fields", [{}, {"stream": False}], ids=["unset", "false"])
@clause("codes.upstream_response_too_large.at_once")
async def test_too_large_is_noticed_at_once(gateway: Gateway, worker: Worker, fields: dict[str, Any]) -> None:
    """A worker that has sent a byte too many and goes on is not heard out: the client has its 502, and it is let go."""
    head = Head(headers=[("content-type", "application/json")])
    script = worker.script(Wire(steps=[head, Chunk(data=b" " * (LIMIT_BYTES + 1)), Hold(name="more")]))
    async with gateway.open_chat(script, **fields) as live:
        assert await script.reached("more")
        expect_status(await live.head(within_s=NOTICED_WITHIN_S), 502)
        await script.peer_left()
