"""Rate budgets of tenants: rules for single models, and what a request costs in the end, whatever becomes of it."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import TENANT
from conformance.checks.routes_support import expect_equal, expect_status
from conformance.checks.tenant_limits import (
    BUDGET,
    DEBT_PER_S,
    DEBT_TOKENS,
    MINUTE_S,
    MOST_ESTIMATED_TOKENS,
    exhaust,
    expect_over,
    seconds,
)
from conformance.harness.errors import Disproved
from conformance.harness.marks import clause
from fake_workers import wire
from fake_workers.script import Hold, Reply, Wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker
    from fake_workers.script import Step

OTHER_MODEL, THIRD_MODEL = "conformance-tokenspeed", "conformance-sglang"
FAILURE = wire.json(500, {"error": {"message": "broken"}})
LONG_PROMPT = "the quick brown fox jumps over the lazy dog " * 8
"""Of some eighty words, so that it costs something however it is counted."""
REFUNDED_REQUESTS = 40
"""So many of those cost over twice what team-refund has, if nothing is given back, and refills meanwhile."""


# -- rules for models


@clause("rate_limiting.tenant_rate_limit_exceeded.model_rule")
async def test_a_rule_bounds_its_model(gateway: Gateway, worker: Worker) -> None:
    """A tenant whose rule allows one request a minute of a model gets one; of another model it gets more."""
    key = gateway.keys["rule"]
    await exhaust(gateway, worker, at_most=1, key=key)
    expect_status(await gateway.chat(worker.script(), key=key, model=OTHER_MODEL), 200)


@clause("rate_limiting.tenant_rate_limit_exceeded.model_rule_on_top")
async def test_a_rule_is_on_top(gateway: Gateway, worker: Worker) -> None:
    """The tenant's own budget, of three requests a minute, counts what its rule has let pass and what no rule names."""
    key = gateway.keys["both"]
    models = (gateway.model, OTHER_MODEL, OTHER_MODEL, OTHER_MODEL)
    answers = [await gateway.chat(worker.script(), key=key, model=model) for model in models]
    expect_equal("other statuses", [answer.status for answer in answers[:-1]], [200, 200, 200])
    expect_over(answers[-1])


@clause("rate_limiting.tenant_rate_limit_exceeded.model_rule_exact")
async def test_the_exact_rule_comes_first(gateway: Gateway, worker: Worker) -> None:
    """Of two rules the one that names the model allows it two requests; other models have the one of the prefix."""
    key = gateway.keys["rules"]
    answers = [await gateway.chat(worker.script(), key=key) for _ in range(3)]
    expect_equal("other statuses", [answer.status for answer in answers[:-1]], [200, 200])
    expect_over(answers[-1])
    await exhaust(gateway, worker, at_most=1, key=key, model=THIRD_MODEL)


# -- what a request costs


@clause("rate_limiting.tenant_rate_limit_exceeded.streams_settled")
async def test_usage_of_streams_is_charged(gateway: Gateway, worker: Worker) -> None:
    """What a stream's usage says it has cost is charged as that of any answer is."""
    key = gateway.keys["streams"]
    costly = worker.script(Reply(prompt_tokens=100, completion_tokens=DEBT_TOKENS - 100))
    first = await gateway.chat(costly, key=key, stream=True, stream_options={"include_usage": True})
    expect_status(first, 200)
    second = expect_over(await gateway.chat(worker.script(), key=key))
    assert second.times.head is not None
    owed_s = (DEBT_TOKENS - MINUTE_S * DEBT_PER_S) / DEBT_PER_S
    passed_s = second.times.head - first.times.started
    assert owed_s - passed_s <= seconds(second) <= math.ceil(owed_s + MOST_ESTIMATED_TOKENS / DEBT_PER_S)


@clause("rate_limiting.tenant_rate_limit_exceeded.refunded")
async def test_what_was_not_used_is_given_back(gateway: Gateway, worker: Worker) -> None:
    """Requests whose answers cost nothing leave the budget as it was; as many that failed, and tell nothing, do not."""
    key = gateway.keys["refund"]
    for _ in range(REFUNDED_REQUESTS):
        free = worker.script(Reply(prompt_tokens=0, completion_tokens=0))
        prompt = [{"role": "user", "content": LONG_PROMPT + free.prompt}]
        expect_status(await gateway.chat(free, key=key, messages=prompt), 200)
    for _ in range(REFUNDED_REQUESTS):
        failed = worker.script(FAILURE)
        answer = await gateway.chat(
            failed, key=key, messages=[{"role": "user", "content": LONG_PROMPT + failed.prompt}]
        )
        if answer.status != 500:
            expect_over(answer)
            return
    raise Disproved("not refused", f"{REFUNDED_REQUESTS} long prompts were not charged at all")


def _fresh() -> list[tuple[str, str | None]]:
    """A tenant that nobody else is, with the default budget of two requests a minute."""
    return [(TENANT, f"fresh-{secrets.token_hex(8)}")]


@pytest.mark.parametrize(
    ("steps", "statuses"),
    [
        pytest.param(wire.json(503, {"error": {"message": "busy"}}), (200, 503), id="busy"),
        pytest.param(wire.json(429, {"error": {"message": "busy"}}), (200, 429), id="rated"),
    ],
)
@clause("rate_limiting.tenant_rate_limit_exceeded.retried_once")
async def test_a_retry_is_free(gateway: Gateway, worker: Worker, steps: Wire, statuses: tuple[int, ...]) -> None:
    """A request that takes more than one attempt costs as much as one that takes one."""
    who = _fresh()
    expect_status(await gateway.chat(worker.script(steps, Reply()), headers=who), *statuses)
    expect_status(await gateway.chat(worker.script(), headers=who), 200)
    await exhaust(gateway, worker, at_most=0, headers=who)


@clause("rate_limiting.tenant_rate_limit_exceeded.failures_charged")
async def test_a_failure_costs_a_request(gateway: Gateway, worker: Worker) -> None:
    """A request that its worker failed counts as one."""
    who = _fresh()
    expect_status(await gateway.chat(worker.script(FAILURE), headers=who), 500)
    expect_status(await gateway.chat(worker.script(), headers=who), 200)
    await exhaust(gateway, worker, at_most=0, headers=who)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@clause("rate_limiting.tenant_rate_limit_exceeded.leavers_charged")
async def test_who_leaves_has_had_a_request(gateway: Gateway, worker: Worker, stream: bool) -> None:
    """A request whose client left while a worker had it counts as one."""
    who = _fresh()
    held: list[Step] = [wire.sse_head(), Hold(name="go")] if stream else [Hold(name="go")]
    script = worker.script(Wire(steps=held))
    async with gateway.open_chat(script, headers=who, stream=stream) as live:
        assert await script.reached("go")
        live.abort()
        await script.peer_left()
    for _ in range(BUDGET - 1):
        expect_status(await gateway.chat(worker.script(), headers=who), 200)
    await exhaust(gateway, worker, at_most=0, headers=who)


@clause("auth.tenant.several_keys_one_identity")
async def test_keys_of_a_tenant_share_a_budget(gateway: Gateway, worker: Worker) -> None:
    """What a tenant has used up with one of its keys it has used up with the other."""
    await exhaust(gateway, worker, key=gateway.keys["red"])
    await exhaust(gateway, worker, at_most=0, key=gateway.keys["red-too"])
