"""Bodies over the configured payload size, in both directions. The configuration `limits` sets 20,000 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.routes_support import each_path, expect_code, expect_status, expect_success
from conformance.harness.bodies import body_for, encode
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted, Worker

LIMIT_BYTES = 20_000


def sized(gateway: Gateway, path: str, script: Scripted, size: int) -> bytes:
    """The ordinary body of a path, padded by blanks inside its prompt to exactly so many bytes."""
    bare = encode(body_for(path, gateway.model, script.prompt, {}))
    return encode(body_for(path, gateway.model, script.prompt + " " * (size - len(bare)), {}))


@each_path()
@clause("codes.request_body_too_large.at_limit")
async def test_body_of_the_limit_is_served(gateway: Gateway, worker: Worker, path: str) -> None:
    """A body of exactly the limit reaches the worker."""
    script = worker.script()
    body = sized(gateway, path, script, LIMIT_BYTES)
    assert len(body) == LIMIT_BYTES
    expect_success(await gateway.post(path, body))
    await script.only()


@each_path()
@clause("codes.request_body_too_large.status")
async def test_body_over_the_limit_is_413(gateway: Gateway, worker: Worker, path: str) -> None:
    """One byte more is too much: 413."""
    script = worker.script()
    expect_status(await gateway.post(path, sized(gateway, path, script, LIMIT_BYTES + 1)), 413)


@each_path()
@clause("codes.request_body_too_large.code")
async def test_body_over_the_limit_has_its_code(gateway: Gateway, worker: Worker, path: str) -> None:
    """The code of the 413 is request_body_too_large."""
    answer = await gateway.post(path, sized(gateway, path, worker.script(), LIMIT_BYTES + 1))
    expect_code(answer, "request_body_too_large")


@clause("codes.request_body_too_large.never_dispatched")
async def test_body_over_the_limit_reaches_nobody(gateway: Gateway, worker: Worker) -> None:
    """A body declared too large is refused before any worker hears of it."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    answer = await gateway.post(CHAT, sized(gateway, CHAT, script, LIMIT_BYTES + 1))
    assert answer.status is None or answer.status >= 400
    await script.never_seen(because=proof)


@clause("codes.request_body_too_large.chunked")
async def test_chunked_body_over_the_limit(gateway: Gateway, worker: Worker) -> None:
    """A body whose length shows only at its end is refused too, and no worker gets the whole of it."""
    await gateway.proof(worker, CHAT, {})
    script = worker.script()
    body = sized(gateway, CHAT, script, LIMIT_BYTES + 4096)
    answer = await gateway.post(CHAT, [body[start : start + 4096] for start in range(0, len(body), 4096)])
    # A gateway that hangs up while the body is still coming has refused it as well.
    assert answer.status is None or 400 <= answer.status < 500
    assert [entry for entry in await worker.control.entries(script.marker) if len(entry.body) > LIMIT_BYTES] == []


@clause("codes.upstream_response_too_large.at_limit")
async def test_response_of_the_limit_is_relayed(gateway: Gateway, worker: Worker) -> None:
    """A worker's response of exactly the limit reaches the client whole."""
    script = worker.script(wire.oversized(LIMIT_BYTES))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert len(answer.body) == LIMIT_BYTES


@clause("codes.upstream_response_too_large.status")
async def test_response_over_the_limit_is_502(gateway: Gateway, worker: Worker) -> None:
    """One byte more is too much: 502."""
    for declared in (True, False):
        script = worker.script(wire.oversized(LIMIT_BYTES + 1, declared=declared))
        answer = await gateway.chat(script)
        await script.received()
        expect_status(answer, 502)


@clause("codes.upstream_response_too_large.code")
async def test_response_over_the_limit_has_its_code(gateway: Gateway, worker: Worker) -> None:
    """The code of the 502 is upstream_response_too_large."""
    script = worker.script(wire.oversized(LIMIT_BYTES + 1))
    answer = await gateway.chat(script)
    await script.received()
    expect_code(answer, "upstream_response_too_large")


@clause("codes.upstream_response_too_large.streams_exempt")
async def test_streams_may_be_longer(gateway: Gateway, worker: Worker) -> None:
    """A stream of three times the limit arrives whole."""
    piece = {"choices": [{"index": 0, "delta": {"content": "x" * 1000}, "finish_reason": None}]}
    script = worker.script(wire.sse(*[piece] * 60))
    answer = expect_success(await gateway.chat(script, stream=True))
    await script.received()
    assert len(answer.body) > 3 * LIMIT_BYTES
    assert answer.ended_with_done
