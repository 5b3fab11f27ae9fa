"""408: a request body that stands still. The configuration `stall` gives it one second between two bytes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from conformance.checks.errors_too_large import check_enveloped
from conformance.checks.routes_support import REQUEST_ID, expect_code, expect_status
from conformance.harness.bodies import encode
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, COMPLETIONS
from conformance.harness.marks import clause
from conformance.harness.raw import Answered, Pause, converse

if TYPE_CHECKING:
    from conformance.harness.client import Live
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.raw import Step
    from conformance.harness.worker import Scripted, Worker

STALL_S = 1.0
LATE_S = 4.0
"""How late the refusal may be where the check is not about the time."""
EARLY_S = 0.02
"""What timers that count in whole milliseconds, or in ticks of a few, may be early by."""


def head_and_body(gateway: Gateway, script: Scripted, path: str = CHAT) -> tuple[bytes, bytes]:
    """An ordinary request whose length is declared, as its head and its body."""
    body = gateway.chat_body(script) if path == CHAT else gateway.completion_body(script)
    whole = b"".join(gateway.written("POST", path, body))
    return whole[: -len(encode(body))], encode(body)


def half_a_request(gateway: Gateway, script: Scripted, path: str = CHAT) -> bytes:
    """The head and the first half of the body."""
    head, body = head_and_body(gateway, script, path)
    return head + body[: len(body) // 2]


async def refused(live: Live, noise: Noise) -> Exchange:
    """The whole answer to a body that stands still, which must be a 408."""
    return expect_status(await live.head(within_s=noise.allow(STALL_S + LATE_S)), 408)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@clause("codes.request_body_stalled")
async def test_a_stalled_body_is_408(gateway: Gateway, worker: Worker, noise: Noise, path: str) -> None:
    """A body of which half has come and then nothing more for the configured time: 408 request_body_stalled."""
    async with gateway.open_raw(half_a_request(gateway, worker.script(), path)) as live:
        await refused(live, noise)
        expect_code(await live.rest(), "request_body_stalled")


@clause("codes.request_body_stalled.envelope")
async def test_the_408_is_enveloped(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The 408 is an error of the gateway's, in its envelope, with its header and a request id."""
    async with gateway.open_raw(half_a_request(gateway, worker.script())) as live:
        await refused(live, noise)
        answer = await live.rest()
    check_enveloped(answer, "request_body_stalled")
    assert len(answer.headers.get_all(REQUEST_ID)) == 1


@clause("codes.request_body_stalled.not_before")
async def test_the_408_takes_its_time(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The refusal comes when the configured time has passed since the last byte, and not before."""
    async with gateway.open_raw(half_a_request(gateway, worker.script())) as live:
        await refused(live, noise)
    times = live.exchange.times
    assert times.sent is not None
    assert times.head is not None
    if times.head - times.sent < STALL_S - EARLY_S:
        raise Disproved("stalled too soon", f"the 408 came {times.head - times.sent:.3f} s after the last byte")


@clause("codes.request_body_stalled.closes")
async def test_the_connection_ends_with_the_408(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Behind the 408 the connection ends: what comes later is not taken for another request."""
    script = worker.script()
    head, body = head_and_body(gateway, script)
    late = worker.script()
    proof = await gateway.proof(worker, CHAT, {})
    steps: tuple[Step, ...] = (
        head + body[:-1],
        Answered(1, within_s=noise.allow(STALL_S + LATE_S)),
        body[-1:] + b"".join(head_and_body(gateway, late)),
    )
    talk = await converse(gateway, worker, *steps, quiet_s=1.0)
    assert talk.status == 408, talk.brief()
    assert talk.closed, talk.brief()
    await late.never_seen(because=proof)


@clause("codes.request_body_stalled.never_whole")
async def test_no_worker_gets_a_whole_body(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Whatever a worker may have got of the body, it is not a request that it could answer."""
    await gateway.proof(worker, CHAT, {})
    script = worker.script()
    head, body = head_and_body(gateway, script)
    async with gateway.open_raw(head + body[:-1]) as live:
        await refused(live, noise)
    # A gateway that streams bodies has begun to hand it on; then the worker's record says that it broke off.
    seen = [entry for entry in await script.look() if entry.outcome not in {"incomplete", "malformed"}]
    if seen:
        raise Disproved("stalled body dispatched", f"a worker got a whole request: {seen[0].body[:200]!r}")


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@clause("codes.request_body_stalled.slow_is_not_stalled")
async def test_a_slow_body_is_served(gateway: Gateway, worker: Worker, path: str) -> None:
    """A body that takes over twice the configured time, and never stands still for so long, is served."""
    script = worker.script()
    head, body = head_and_body(gateway, script, path)
    size = len(body) // 6 + 1
    steps: list[Step] = [head]
    for at in range(0, len(body), size):
        steps += [body[at : at + size], Pause(STALL_S * 0.4)]
    talk = await converse(gateway, worker, *steps, patience_s=5.0)
    assert talk.status == 200, talk.brief()
    await script.only()


@clause("codes.request_body_stalled.chunked")
async def test_a_stalled_body_in_chunks(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A body in chunks that stands still before its last one is refused in the same way."""
    body = encode(gateway.chat_body(worker.script()))
    pieces = gateway.written("POST", CHAT, [body[:20], body[20:]], [("content-type", "application/json")])
    async with gateway.open_raw(pieces[:-1]) as live:
        await refused(live, noise)
        expect_code(await live.rest(), "request_body_stalled")


@clause("codes.request_body_stalled.others_served")
async def test_others_are_served_meanwhile(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """While eight bodies stand still another request is served, before them; each of the eight gets its 408."""
    scripts = [worker.script() for _ in range(8)]

    async def stalled(script: Scripted) -> None:
        async with gateway.open_raw(half_a_request(gateway, script)) as live:
            await refused(live, noise)

    waiting = [asyncio.ensure_future(stalled(script)) for script in scripts]
    await asyncio.wait(waiting, timeout=0.2)
    served = worker.script()
    expect_status(await gateway.chat(served), 200)
    if all(each.done() for each in waiting):
        raise Disproved("others waited", "the request behind eight stalled bodies was served after them")
    await asyncio.gather(*waiting)
