"""Slot and reservation together: whatever ends a request, at whatever turn of the loop, each comes back just once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from reference_server.admission.configuration import AdmissionSettings, ClassSettings, SchedulerSettings
from reference_server.admission.priority import PriorityClass
from reference_server.app import create_app
from reference_server.errors import GatewayError
from reference_server.settings import Settings
from reference_server.state import ServerState
from reference_server.tenants.buckets import Budgets, Reserve
from reference_server.tenants.limiter import TenantLimiter
from reference_server.tenants.policy import Limits, RateLimitPolicy, TenantPolicy
from tests.reference_server.front import Front, StubResponse, StubWorkers
from tests.reference_server.tenants.test_budget_stage import DELTA, DONE, EVENTS, PROMPT_TOKENS, usage
from tests.reference_server.tenants.test_budget_stage import Counter as Tokens

if TYPE_CHECKING:
    from reference_server.tenants.buckets import Denial

CLASSES = {level: ClassSettings(0, 9, 60.0, 60.0, can_preempt=level > PriorityClass.DEFAULT) for level in PriorityClass}
SCHEDULER = SchedulerSettings(CLASSES, default_max_class=PriorityClass.SYSTEM)
POLICY = RateLimitPolicy(TenantPolicy(Limits(10_000, 100)))
ADMISSIONS = {
    "limit": AdmissionSettings(max_concurrent_requests=1),
    "scheduler": AdmissionSettings(max_concurrent_requests=1, scheduler=SCHEDULER),
}
GAUGES = {
    "limit": ("smg_admission_inflight", "smg_admission_queue_depth"),
    "scheduler": ("smg_scheduler_inflight", "smg_scheduler_queue_depth"),
}
TURNS = 45  # more than any of these requests takes


class Book(Budgets):
    """Budgets that keep what was reserved, and how often it was settled."""

    def __init__(self) -> None:
        super().__init__(POLICY)
        self.settled: dict[Reserve, int] = {}

    def reserve(self, tenant_key: str, model: str, tokens: int, now_ns: int) -> Reserve | Denial:
        """Keep it."""
        outcome = super().reserve(tenant_key, model, tokens, now_ns)
        assert isinstance(outcome, Reserve)
        self.settled[outcome] = 0
        return outcome

    def settle(self, reserve: Reserve, tokens: int | None, now_ns: int) -> bool:
        """Count it where it counts."""
        counted = super().settle(reserve, tokens, now_ns)
        self.settled[reserve] += counted
        return counted


class Crowded(Front):
    """A front with one slot, a queue and tenant limits; time stands still for the limits."""

    def __init__(self, admission: str, behaviour: str) -> None:
        workers = StubWorkers(hang=behaviour == "silent")
        super().__init__(Settings(admission=ADMISSIONS[admission]), workers)
        self.kind = admission
        self.state = ServerState(self.state.settings, workers)
        self.book = Book()
        limiter = TenantLimiter(POLICY, Tokens(), lambda: 0)
        limiter._budgets = self.book
        self.state.tenant_limits = limiter
        self.app = create_app(self.state)
        answers: dict[str, StubResponse | BaseException] = {
            "whole": StubResponse(200, (("content-type", "application/json"),), [usage(3)]),
            "stream": StubResponse(200, EVENTS, [DELTA, b"data: " + usage(3) + b"\n\n", DONE]),
            "stops": StubResponse(200, EVENTS, [DELTA], hang=True),
            "breaks": StubResponse(200, EVENTS, [DELTA], then=GatewayError(500, "read_response_body_failed", "cut")),
            "fails": GatewayError(500, "call_upstream_request_error", "cut"),
        }
        self.workers.answer = answers.get(behaviour, StubResponse())

    def judge(self) -> None:
        """Nobody is inside, nobody waits, and each reserve was settled once, at a price that was asked."""
        for name in GAUGES[self.kind]:
            for family in self.state.metrics.registry.collect():
                if family.name == name:
                    assert [sample.value for sample in family.samples if sample.value] == []
        assert self.state.open_requests == 0
        assert set(self.book.settled.values()) <= {1}
        for budget in self.book._budgets.values():
            assert budget.open == 0
            requests = budget.requests.capacity * 60 * 10**9 - budget.requests.units(0)
            assert requests == len(self.book.settled) * 60 * 10**9
        prices = Counter(
            (budget.tokens.capacity * 60 * 10**9 - budget.tokens.units(0)) // (60 * 10**9)
            for budget in self.book._budgets.values()
        )
        most = len(self.book.settled) * (PROMPT_TOKENS + 3)
        assert all(0 <= spent <= most for spent in prices)


@pytest.mark.parametrize("behaviour", ["silent", "whole", "stream", "stops", "breaks", "fails"])
@pytest.mark.parametrize("end", ["leaves", "is cut", "is preempted"])
@pytest.mark.parametrize("admission", ["limit", "scheduler"])
async def test_each_comes_back_once(admission: str, end: str, behaviour: str) -> None:
    """One request at the worker and one in the queue; the client leaves, the server stops, or another goes before."""
    outcomes: Counter[int] = Counter()
    for turn in range(TURNS):
        front = Crowded(admission, behaviour)
        stream = behaviour not in {"whole", "silent", "fails"}
        asking = [asyncio.ensure_future(front.chat([("x-smg-priority", "bulk")], stream=stream)) for _ in range(2)]
        for _ in range(turn):
            await asyncio.sleep(0)
        if end == "is preempted":
            asking.append(asyncio.ensure_future(front.chat([("x-smg-priority", "system")], stream=stream)))
            for _ in range(TURNS):
                await asyncio.sleep(0)
            front.leave.set()
        elif end == "leaves":
            front.leave.set()
        else:
            front.state.cut()
        replies = await asyncio.wait_for(asyncio.gather(*asking), 5)
        outcomes.update(reply.status for reply in replies)
        front.judge()
    if end == "is cut":
        assert outcomes[503]
    if end == "is preempted" and admission == "scheduler" and behaviour == "silent":
        assert outcomes[503]
