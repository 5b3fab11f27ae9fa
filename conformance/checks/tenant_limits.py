"""Rate budgets of tenants: when one is over, for whom, for how long, and who is whom."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import SHEDS, TENANT
from conformance.checks.routes_support import ROUTES, expect_code, expect_status, send
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause, configured
from fake_workers.script import Reply

if TYPE_CHECKING:
    from typing import Any

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

CODE = "tenant_rate_limit_exceeded"
BUDGET = 2
"""Requests a minute of whoever has no entry of its own, in both configurations."""
ADDRESS_BUDGET = 30
MINUTE_S = 60
DEBT_TOKENS, DEBT_PER_S = 2100, 10
"""What one answer is said to have cost, and what team-debt gets each second (600 a minute)."""
MOST_ESTIMATED_TOKENS = 100
"""More than any way of counting makes of the suite's one-line prompt."""


def expect_over(answer: Exchange) -> Exchange:
    """The answer, if it says that a budget is over; Disproved otherwise. Its status is a clause of its own."""
    expect_code(expect_status(answer, *SHEDS), CODE)
    return answer


async def exhaust(gateway: Gateway, worker: Worker, at_most: int = BUDGET, **how: Any) -> Exchange:
    """Send requests until one is over the budget; Disproved when more than `at_most` are served first."""
    for _ in range(at_most + 1):
        answer = await gateway.chat(worker.script(), **how)
        if answer.status != 200:
            return expect_over(answer)
    raise Disproved("not refused", f"{at_most + 1} requests were served, where the budget is {at_most} a minute")


def seconds(answer: Exchange) -> int:
    """The Retry-After of an answer, which must be there once and in digits."""
    said = answer.headers.get_all("retry-after")
    if len(said) != 1 or not said[0].isdigit():
        raise Disproved("no whole Retry-After", f"Retry-After is {said}: {answer.brief()}")
    return int(said[0])


@clause("rate_limiting.tenant_rate_limit_exceeded.retry_after")
async def test_the_wait_for_a_request_is_told(gateway: Gateway, worker: Worker) -> None:
    """With one request a minute, the second is told the seconds until the minute since the first is over."""
    first = expect_status(await gateway.chat(worker.script(), key=gateway.keys["green"]), 200)
    second = expect_over(await gateway.chat(worker.script(), key=gateway.keys["green"]))
    assert first.times.ended is not None
    assert second.times.head is not None
    # The first was charged somewhere between its start and its end, the second judged between its start and its head.
    shortest = MINUTE_S - (second.times.head - first.times.started)
    longest = MINUTE_S - (second.times.started - first.times.ended)
    # Who comes back before the budget is there is sent away again, so the wait is never told too short.
    assert shortest <= seconds(second) <= math.ceil(longest)


@clause("rate_limiting.tenant_rate_limit_exceeded.settled_by_usage")
async def test_usage_is_charged(gateway: Gateway, worker: Worker) -> None:
    """What the worker says an answer has cost is charged: the wait is as long as the debt takes to be paid off."""
    key = gateway.keys["debt"]
    costly = worker.script(Reply(prompt_tokens=100, completion_tokens=DEBT_TOKENS - 100))
    first = expect_status(await gateway.chat(costly, key=key), 200)
    second = expect_over(await gateway.chat(worker.script(), key=key))
    assert second.times.head is not None
    # From 600 tokens 2100 were taken, so 1500 are owed; the next needs what its prompt is estimated to cost besides.
    owed_s = (DEBT_TOKENS - MINUTE_S * DEBT_PER_S) / DEBT_PER_S
    passed_s = second.times.head - first.times.started
    assert owed_s - passed_s <= seconds(second) <= math.ceil(owed_s + MOST_ESTIMATED_TOKENS / DEBT_PER_S)


@clause("rate_limiting.tenant_rate_limit_exceeded.never_admittable")
async def test_what_never_fits_gets_no_time(gateway: Gateway, worker: Worker) -> None:
    """A prompt of more tokens than the budget ever holds is refused without Retry-After, the first time already."""
    answer = await gateway.chat(worker.script(), key=gateway.keys["tiny"])
    expect_over(answer)
    assert "retry-after" not in answer.headers


@clause("rate_limiting.tenant_rate_limit_exceeded.others_untouched")
async def test_others_are_served(gateway: Gateway, worker: Worker) -> None:
    """While one tenant is over its budget, another is served."""
    await exhaust(gateway, worker, key=gateway.keys["red"])
    for _ in range(BUDGET + 1):
        expect_status(await gateway.chat(worker.script(), key=gateway.keys["blue"]), 200)


@clause("rate_limiting.tenant_rate_limit_exceeded.own_bucket")
async def test_the_default_budget_is_each_tenants_own(gateway: Gateway, worker: Worker) -> None:
    """Two tenants without an entry of their own have the default budget each, not one together."""
    await exhaust(gateway, worker, key=gateway.keys["red"])
    expect_status(await gateway.chat(worker.script(), key=gateway.keys["grey"]), 200)
    await exhaust(gateway, worker, key=gateway.keys["grey"])


@clause("rate_limiting.tenant_rate_limit_exceeded.not_charged_when_refused")
async def test_refused_bodies_cost_nothing(gateway: Gateway, worker: Worker) -> None:
    """Requests refused for their body or their model cost nothing: the whole budget is there afterwards."""
    who = [(TENANT, f"fresh-{secrets.token_hex(8)}")]
    for _ in range(BUDGET):
        expect_status(await gateway.chat(worker.script(), headers=who, temperature=9), 400)
        expect_status(await gateway.chat(worker.script(), headers=who, model="conformance-nobody"), 404)
    for _ in range(BUDGET):
        expect_status(await gateway.chat(worker.script(), headers=who), 200)
    await exhaust(gateway, worker, at_most=0, headers=who)


@clause("rate_limiting.tenant_rate_limit_exceeded.after_validation")
async def test_a_bad_body_is_told_first(gateway: Gateway, worker: Worker) -> None:
    """Over the budget, a body that is wrong is still told so, and so is an unknown model."""
    key = gateway.keys["red"]
    await exhaust(gateway, worker, key=key)
    expect_status(await gateway.chat(worker.script(), key=key, temperature=9), 400)
    expect_status(await gateway.chat(worker.script(), key=key, model="conformance-nobody"), 404)


@pytest.mark.parametrize("path", [ROUTES["chat"], ROUTES["completions"]], ids=["chat", "completions"])
@clause("rate_limiting.tenant_rate_limit_exceeded.one_budget")
async def test_routes_share_a_budget(gateway: Gateway, worker: Worker, path: str) -> None:
    """What chat completions have used up is used up for this route too."""
    key = gateway.keys["red"]
    await exhaust(gateway, worker, key=key)
    expect_over(await send(gateway, path, worker.script(), key=key))


# -- who is whom


@clause("auth.shared.one_identity")
async def test_the_shared_key_is_one_tenant(gateway: Gateway, worker: Worker) -> None:
    """Callers of the shared key have one budget together, though each says it is another tenant."""
    key = gateway.keys["shared"]
    for number in range(BUDGET):
        await gateway.chat(worker.script(), headers=[(TENANT, f"caller-{number}")], key=key)
    await exhaust(gateway, worker, at_most=0, headers=[(TENANT, f"caller-{secrets.token_hex(8)}")], key=key)


@clause("rate_limiting.tenant_rate_limit_exceeded.key_wins")
async def test_a_header_buys_no_second_budget(gateway: Gateway, worker: Worker) -> None:
    """Over its budget, a tenant known by its key stays over it, whatever tenant its header names."""
    key = gateway.keys["red"]
    await exhaust(gateway, worker, key=key)
    for name in ("team-blue", "auth:team-blue", secrets.token_hex(8)):
        answer = await gateway.chat(worker.script(), headers=[(TENANT, name)], key=key)
        expect_over(answer)


@clause("rate_limiting.tenant_rate_limit_exceeded.header_identity")
async def test_the_header_is_a_tenant(gateway: Gateway, worker: Worker) -> None:
    """Without keys, each tenant that the trusted header names has a budget of its own."""
    one, other = ([(TENANT, f"{name}-{secrets.token_hex(8)}")] for name in ("one", "other"))
    await exhaust(gateway, worker, headers=one)
    expect_status(await gateway.chat(worker.script(), headers=other), 200)
    await exhaust(gateway, worker, at_most=0, headers=one)


@clause("rate_limiting.tenant_rate_limit_exceeded.address_identity")
async def test_else_the_address_is_the_tenant(gateway: Gateway, worker: Worker) -> None:
    """Without keys the client's address is the tenant, with the budget it has, whether or not the header is empty."""
    for _ in range(2 * BUDGET):
        expect_status(await gateway.chat(worker.script()), 200)
    await exhaust(gateway, worker, at_most=ADDRESS_BUDGET)
    await exhaust(gateway, worker, at_most=0, headers=[(TENANT, "")])
    named = [(TENANT, f"named-{secrets.token_hex(8)}")]
    expect_status(await gateway.post(CHAT, gateway.chat_body(worker.script()), named), 200)


@configured("tenant-untrusted")
@clause("request_headers.tenant_id.ignored_without_trust")
async def test_a_header_nobody_trusts_buys_nothing(gateway: Gateway, worker: Worker) -> None:
    """Without the trust flag the client's address stays the tenant, whatever tenant the header names."""
    await exhaust(gateway, worker, at_most=ADDRESS_BUDGET)
    for name in (f"fresh-{secrets.token_hex(8)}", "ip:127.0.0.2"):
        await exhaust(gateway, worker, at_most=0, headers=[(TENANT, name)])
