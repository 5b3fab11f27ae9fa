"""Tenant limits on the way of a request: what comes before them, what a refusal looks like, and how an account ends."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from reference_server.errors import GatewayError
from reference_server.settings import Settings, TenantKey
from reference_server.tenants.limiter import TenantLimiter
from reference_server.tenants.policy import Limits, ModelRule, RateLimitPolicy, TenantPolicy
from tests.reference_server.front import CHAT, HI, Front, StubResponse, StubWorkers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reference_server.stages.parse import ParsedRequest
    from tests.reference_server.front import Reply

PROMPT_TOKENS = 12
OVER = "tenant_rate_limit_exceeded"
RED, BLUE = [("authorization", "Bearer red-key")], [("authorization", "Bearer blue-key")]
KEYS = Settings(
    tenant_api_keys=(TenantKey("red", "red-key"), TenantKey("blue", "blue-key")), model_aliases={"alias": "m"}
)
EVENTS = (("content-type", "text/event-stream; charset=utf-8"),)
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def usage(tokens: int) -> bytes:
    """A usage report of the prompt and as many more."""
    return json.dumps({"usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens}}).encode()


class Counter:
    """Every prompt has twelve tokens."""

    def input_tokens(self, request: ParsedRequest) -> int:
        """Twelve."""
        del request
        return PROMPT_TOKENS


class LimitedFront(Front):
    """A front whose tenants have limits, with a clock that a test moves."""

    def __init__(
        self, tokens: int = 10_000, requests: int = 100, rules: Sequence[ModelRule] = (), **tenants: Limits
    ) -> None:
        super().__init__(KEYS, StubWorkers())
        self.now_s = 100.0
        policy = RateLimitPolicy(
            TenantPolicy(Limits(tokens, requests), tuple(rules)),
            {f"auth:{name}": TenantPolicy(limits) for name, limits in tenants.items()},
        )
        self.limiter = TenantLimiter(policy, Counter(), lambda: int(self.now_s * 1e9))
        self.state.tenant_limits = self.limiter

    async def red(self, **fields: Any) -> Reply:
        """A chat of the tenant red."""
        return await self.chat(RED, **fields)

    def answer(self, *pieces: bytes, headers: Sequence[tuple[str, str]] = (), status: int = 200, **how: Any) -> None:
        """What workers answer from now on."""
        kind = headers or (("content-type", "application/json"),)
        self.workers.answer = StubResponse(status, kind, pieces, **how)

    async def spent_by(self, **fields: Any) -> int:
        """How many tokens a chat of red costs in the end, told by the wait that a request after it is given.

        Requires a budget of 60 tokens a minute, so that a second brings one token.
        """
        assert (await self.red(**fields)).status < 500
        return await self.spent()

    async def spent(self) -> int:
        """How many of red's 60 tokens are missing."""
        self.answer(b"{}")
        spent = 0
        while True:  # the level is 60 - spent; each probe that is admitted costs twelve more
            reply = await self.red()
            if reply.status == 429:
                return int(reply.header("retry-after") or 0) + 60 - PROMPT_TOKENS - spent
            spent += PROMPT_TOKENS


def test_the_limit_is_off_by_default() -> None:
    """Without a policy there is nothing to charge."""
    assert Front().state.tenant_limits is None


async def test_a_refusal_is_an_envelope_with_the_wait() -> None:
    """Over the budget: 429, the envelope, the code in the header, the seconds to wait, and no worker hears of it."""
    front = LimitedFront(requests=3)
    for _ in range(3):
        assert (await front.red()).status == 200
    for stream in (False, True):
        refused = await front.red(stream=stream)
        assert (refused.status, refused.header("x-smg-error-code")) == (429, OVER)
        assert refused.error == {
            "type": "Too Many Requests", "code": OVER, "message": "Tenant rate limit exceeded for this request",
            "param": None,
        }  # fmt: skip
        assert (refused.header("retry-after"), refused.header("content-type")) == ("20", "application/json")
    assert len(front.workers.seen) == 3
    front.now_s += 19.0
    assert (await front.red()).header("retry-after") == "1"
    front.now_s += 1.0
    assert (await front.red()).status == 200


async def test_what_can_never_be_paid_gets_no_wait() -> None:
    """A prompt larger than the whole budget is refused without Retry-After."""
    refused = await LimitedFront(tokens=PROMPT_TOKENS - 1).red()
    assert (refused.status, refused.header("retry-after")) == (429, None)
    assert (await LimitedFront(tokens=PROMPT_TOKENS).red()).status == 200


async def test_tenants_do_not_pay_for_each_other() -> None:
    """Each tenant has a budget of its own, also two without an entry; an entry replaces the default."""
    front = LimitedFront(requests=1, blue=Limits(10_000, 2))
    assert [(await front.red()).status for _ in range(2)] == [200, 429]
    assert [(await front.chat(BLUE)).status for _ in range(3)] == [200, 200, 429]


async def test_a_rule_holds_besides_the_tenants_limits() -> None:
    """A model's rule is charged on top, under its canonical name, and leaves other models alone."""
    rule = ModelRule("r", "m", exact=True, limits=Limits(10_000, 1))
    front = LimitedFront(requests=3, rules=[rule])
    alias = {**HI, "model": "alias"}
    assert (await front.post(CHAT, alias, RED)).status == 200
    assert (await front.red()).status == 429
    assert [(await front.post(CHAT, {**HI, "model": "other"}, RED)).status for _ in range(3)] == [200, 200, 429]


async def test_what_comes_before_the_budget_costs_nothing() -> None:
    """Over the budget, a missing key is 401, a bad body 400, an unknown model 404, no worker 503; none is charged."""
    front = LimitedFront(requests=1)
    missing = [GatewayError(404, "model_not_found", "none"), GatewayError(503, "no_available_workers", "none")]
    for _ in range(2):
        assert (await front.chat()).status == 401
        assert (await front.post(CHAT, b"{", RED)).status == 400
        assert (await front.red(temperature=3)).status == 400
        for error in missing:
            front.workers.answer = error
            assert (await front.red()).status == error.status
        front.answer(b"{}")
        assert (await front.red()).status == (200 if not front.workers.seen[1:] else 429)
        front.workers.seen.append(front.workers.seen[0])


@pytest.mark.parametrize(
    ("path", "body", "charged"),
    [
        (CHAT, HI, True), ("/v1/completions", {"model": "m", "prompt": "hi"}, True),
        ("/v1/embeddings", {"model": "m", "input": "hi"}, False),
    ],
)  # fmt: skip
async def test_chat_and_completions_are_charged(path: str, body: dict[str, Any], charged: bool) -> None:  # noqa: FBT001 - a case
    """Chat and completions count against the budget, embeddings do not."""
    front = LimitedFront(requests=1)
    statuses = [(await front.post(path, body, RED)).status for _ in range(2)]
    assert statuses == ([200, 429] if charged else [200, 200])


@pytest.mark.parametrize(
    ("pieces", "stream", "spent"),
    [
        ([usage(8)], False, 20), ([usage(0)], False, 12), ([usage(2000)], False, 2012),
        ([b'{"usage":{"prompt_tokens":0,"completion_tokens":0}}'], False, 0),
        ([b'{"usage":{"prompt_tokens":3}}'], False, 3), ([b"{}"], False, 12), ([b"no json"], False, 12),
        ([DELTA, b"data: " + usage(8) + b"\n\n", DONE], True, 20), ([DELTA, DONE], True, 12),
        ([DELTA, b"data: " + usage(8) + b"\n\n"], True, 20),
    ],
)  # fmt: skip
async def test_the_account_is_settled_at_the_reported_usage(pieces: list[bytes], stream: bool, spent: int) -> None:  # noqa: FBT001 - a case
    """What the worker reports is charged, more or less than the estimate; without a report the estimate stands."""
    front = LimitedFront(tokens=60)
    front.answer(*pieces, headers=EVENTS if stream else ())
    assert await front.spent_by(stream=stream) == spent


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_error_of_the_worker_keeps_the_estimate(status: int) -> None:
    """An error answer settles nothing, whatever usage it speaks of."""
    front = LimitedFront(tokens=60)
    front.answer(usage(0).replace(b"12", b"0"), status=status)
    await front.red()
    assert await front.spent() == PROMPT_TOKENS


async def test_a_compressed_answer_keeps_the_estimate() -> None:
    """What cannot be read reports nothing."""
    front = LimitedFront(tokens=60)
    front.answer(usage(8), headers=(("content-type", "application/json"), ("content-encoding", "gzip")))
    assert await front.spent_by() == PROMPT_TOKENS


async def test_a_worker_that_cannot_be_asked_keeps_the_estimate() -> None:
    """A failure of the connection costs what was reserved."""
    front = LimitedFront(tokens=60)
    front.workers.answer = GatewayError(500, "call_upstream_connection_failed", "down")
    assert (await front.red()).status == 500
    assert await front.spent() == PROMPT_TOKENS


async def test_a_stream_that_breaks_off_keeps_the_estimate() -> None:
    """A stream that failed before its end is charged the estimate."""
    front = LimitedFront(tokens=60)
    front.answer(DELTA, headers=EVENTS, then=GatewayError(500, "read_response_body_failed", "cut"))
    assert not (await front.red(stream=True)).ended
    assert await front.spent() == PROMPT_TOKENS


@pytest.mark.parametrize("pieces", [[DELTA], [DELTA, b"data: " + usage(8) + b"\n\n"]])
async def test_a_client_that_leaves_pays_the_estimate(pieces: list[bytes]) -> None:
    """Whoever leaves before the stream is complete is charged the estimate."""
    front = LimitedFront(tokens=60)
    front.answer(*pieces, headers=EVENTS, hang=True)
    asking = asyncio.ensure_future(front.red(stream=True))
    await front.first_chunk.wait()
    front.leave.set()
    await asking
    front.leave.clear()
    assert await front.spent() == PROMPT_TOKENS


async def test_a_client_that_leaves_behind_done_pays_the_usage() -> None:
    """Many clients hang up as soon as [DONE] is there; the usage before it is charged."""
    front = LimitedFront(tokens=60)
    front.answer(DELTA + b"data: " + usage(8) + b"\n\n" + DONE, headers=EVENTS, hang=True)
    asking = asyncio.ensure_future(front.red(stream=True))
    await front.first_chunk.wait()
    front.leave.set()
    await asking
    front.leave.clear()
    assert await front.spent() == 20


async def test_a_client_that_leaves_while_the_worker_is_silent_pays_the_estimate() -> None:
    """A request that was cut before any answer costs what was reserved, and its place in the budget is closed."""
    front = LimitedFront(tokens=60)
    front.workers.hang = True
    asking = asyncio.ensure_future(front.red())
    await front.workers.asked.wait()
    front.leave.set()
    await asking
    front.leave.clear()
    front.workers.hang = False
    assert await front.spent() == PROMPT_TOKENS
    assert all(budget.open == 0 for budget in front.limiter._budgets._budgets.values())


async def test_the_answer_passes_untouched() -> None:
    """Reading the usage changes neither the bytes nor their arrival in pieces."""
    front = LimitedFront()
    front.answer(DELTA, b"data: " + usage(8), b"\n\n", DONE, headers=EVENTS)
    reply = await front.red(stream=True)
    assert reply.body == DELTA + b"data: " + usage(8) + b"\n\n" + DONE
    assert reply.ended


async def test_full_budgets_are_forgotten() -> None:
    """Thousands of callers that come once leave nothing behind."""
    front = LimitedFront()
    request: Any = None
    for number in range(5000):
        charge = front.limiter.charge(f"ip:{number}", request, "m")
        charge.keep()
        front.now_s += 1.0
    assert len(front.limiter._budgets) < 100
