"""How a request is tried again: how often, after how long, with what, and what the client sees of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from conformance.checks.retries_which import TROUBLE, expect_mended, mended
from conformance.checks.routes_support import expect_equal, expect_status
from conformance.harness.errors import Disproved
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Hold, Reply, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Scripted, Worker
    from fake_workers.journal import Entry

ATTEMPTS = 3
"""What the configurations `retries` and `backoff` allow in all."""
FIRST_PAUSE_S, LONGEST_PAUSE_S, UNBOUNDED_PAUSE_S = 0.2, 0.4, 0.8
"""What `backoff` sets, and what its second pause would be without the bound."""
LARGE_WORDS = 300_000  # of six bytes each
EARLY_S = 0.01
"""What timers that count in whole milliseconds may be early by."""


def failing(worker: Worker) -> Scripted:
    """A script of which each attempt fails and says its number."""
    answers = [wire.json(503, {"attempt": number}, [("x-attempt", str(number))]) for number in range(2 * ATTEMPTS)]
    return worker.script(*answers)


def pauses_s(entries: list[Entry]) -> list[float]:
    """The times between the end of each attempt and the arrival of the next, in seconds."""
    return [
        after.received_at - (before.completed_at or before.answered_at or before.received_at)
        for before, after in itertools.pairwise(entries)
    ]


@clause("retries.attempts.total")
async def test_attempts_are_counted(gateway: Gateway, worker: Worker) -> None:
    """The configured number is that of all attempts, the first among them."""
    script = failing(worker)
    expect_status(await gateway.chat(script), 503)
    expect_equal("another number of attempts", len(await script.received(ATTEMPTS)), ATTEMPTS)


@clause("retries.attempts.same_request")
async def test_the_same_request_is_sent_again(gateway: Gateway, worker: Worker) -> None:
    """Each attempt has the same body, request id, credential and trace."""
    script = mended(worker, wire.json(503, TROUBLE))
    trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    own = gateway.credential() or [("authorization", "Bearer of-the-client")]
    answer = await gateway.chat(script, headers=[*own, trace], temperature=0.5)
    await expect_mended(answer, script)
    first, second = await script.received(2)
    assert first.body == second.body
    for name in ("authorization", "content-type", "x-request-id", trace[0]):
        expect_equal(f"another {name}", second.header(name), first.header(name))


@clause("retries.attempts.large_body")
async def test_a_large_body_is_sent_whole_or_not_again(gateway: Gateway, worker: Worker) -> None:
    """Of a body that may be too large to be kept every attempt has the whole; whoever keeps none makes one attempt."""
    script = failing(worker)
    prompt = [{"role": "user", "content": script.prompt + " large" * LARGE_WORDS}]
    answer = expect_status(await gateway.chat(script, messages=prompt), 503)
    attempts = await script.received()
    expect_equal("another attempt's answer", answer.headers.get_all("x-attempt"), [str(len(attempts) - 1)])
    for attempt in attempts:
        expect_equal("a body cut short", attempt.json["messages"], prompt)


@clause("retries.attempts.one_at_a_time")
async def test_attempts_do_not_overlap(gateway: Gateway, worker: Worker) -> None:
    """No worker gets the next attempt while the one before may still answer."""
    held = wire.json(503, TROUBLE)
    script = worker.script(Wire(steps=[Hold(name="thinking"), *held.steps]), Reply())
    async with gateway.open_chat(script) as live:
        assert await script.reached("thinking")
        await live.listen(0.5)
        expect_equal("attempts at once", len(await script.look()), 1)
        await script.release("thinking")
        await expect_mended(await live.rest(), script)


@clause("retries.last.headers")
async def test_the_last_attempts_headers(gateway: Gateway, worker: Worker) -> None:
    """When no attempt succeeds, the client gets the headers of the last one, and none of an earlier one."""
    script = failing(worker)
    answer = expect_status(await gateway.chat(script), 503)
    attempts = await script.received(ATTEMPTS)
    expect_equal("headers of another attempt", answer.headers.get_all("x-attempt"), [str(len(attempts) - 1)])


@clause("retries.last.wait_hint")
async def test_the_last_attempts_wait_hint(gateway: Gateway, worker: Worker) -> None:
    """A worker's Retry-After comes with its answer when that is relayed at last, and does not when another succeeds."""
    busy = wire.json(503, TROUBLE, [("retry-after", "7")])
    script = worker.script(busy)
    answer = expect_status(await gateway.chat(script), 503)
    expect_equal("another wait hint", answer.headers.get_all("retry-after"), ["7"])
    script = mended(worker, busy)
    answer = await gateway.chat(script)
    await expect_mended(answer, script)
    expect_equal("wait hint with a success", answer.headers.get_all("retry-after"), [])


@clause("retries.backoff.first_pause")
async def test_the_first_pause(gateway: Gateway, worker: Worker) -> None:
    """Between the first attempt and the second lies the configured pause."""
    script = mended(worker, wire.json(503, TROUBLE))
    await expect_mended(await gateway.chat(script), script)
    (pause_s,) = pauses_s(await script.received(2))
    if pause_s < FIRST_PAUSE_S - EARLY_S:
        raise Disproved("pause too short", f"the second attempt came {pause_s:.3f} s after the first had failed")


@clause("retries.backoff.grows")
async def test_pauses_grow(gateway: Gateway, worker: Worker) -> None:
    """The second pause is longer than the first by the multiplier, as far as the longest pause allows."""
    script = failing(worker)
    expect_status(await gateway.chat(script), 503)
    second = pauses_s(await script.received(ATTEMPTS))[1]
    if second < LONGEST_PAUSE_S - EARLY_S:
        raise Disproved("pause does not grow", f"the third attempt came {second:.3f} s after the second had failed")


@clause("retries.backoff.bounded")
async def test_pauses_are_bounded(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """No pause is longer than the longest one. The best of three, for a machine may add to any pause."""
    shortest = UNBOUNDED_PAUSE_S
    for _ in range(3):
        script = failing(worker)
        expect_status(await gateway.chat(script), 503)
        shortest = min(shortest, pauses_s(await script.received(ATTEMPTS))[1])
        if shortest < noise.allow(LONGEST_PAUSE_S):
            break
    if shortest >= UNBOUNDED_PAUSE_S - EARLY_S:
        raise Disproved("pause too long", f"the third attempt never came in less than {shortest:.3f} s")


@clause("retries.client_gone")
async def test_nobody_tries_for_a_client_that_has_gone(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A client that leaves in the pause between two attempts ends them; one that stays is served by the second."""
    stays = mended(worker, wire.json(503, TROUBLE))
    await expect_mended(await gateway.chat(stays), stays)
    script = mended(worker, wire.json(503, TROUBLE))
    async with gateway.open_chat(script) as live:
        await script.completed()
        live.abort()
        await live.listen(0)
    # A pause and a half: the attempt that a client who stays would have had by now.
    late = await script.look(at_least=2, within_s=noise.allow(1.5 * FIRST_PAUSE_S))
    expect_equal("attempts for nobody", len(late), 1)
