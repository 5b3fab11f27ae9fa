"""The budgets against a model of them: random tenants, requests, settlements and pauses, in virtual time."""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from reference_server.tenants.buckets import NS_PER_S, UNIT, Budgets, Denial, Reserve
from reference_server.tenants.policy import Limits, ModelRule, RateLimitPolicy, TenantPolicy

RUNS, STEPS = 220, 50  # a few more than needed: a run may end early
RED = TenantPolicy(
    Limits(100, 7),
    (
        ModelRule("small", "m", exact=True, limits=Limits(40, 2)),
        ModelRule("family", "m-", exact=False, limits=Limits(13, 30)),
        ModelRule("member", "m-x", exact=False, limits=Limits(90, 5)),
    ),
)
POLICY = RateLimitPolicy(TenantPolicy(Limits(12, 3)), MappingProxyType({"auth:red": RED}))
TENANTS = ("auth:red", "auth:blue", "ip:127.0.0.1")
MODELS = {"m": "small", "m-1": "family", "m-x9": "member", "other": None}
TAKEN = {"steps": 0}

Key = tuple[str, str | None, str]


class Account:
    """One bucket of the model, in fractions."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.level = Fraction(capacity)

    def refill(self, passed_ns: int) -> None:
        """Time passes."""
        self.level = min(Fraction(self.capacity), self.level + Fraction(passed_ns * self.capacity, UNIT))

    def spend(self, amount: int) -> None:
        """Take out or, below zero, put back."""
        self.level = min(Fraction(self.capacity), self.level - amount)


class BudgetsMachine(RuleBasedStateMachine):
    """Invariants: see the methods whose names say them."""

    open_reserves = Bundle("open_reserves")

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 1_000
        self.budgets = Budgets(POLICY)
        self.accounts: dict[Key, Account] = {}
        self.reserved: dict[Reserve, tuple[str, str, int]] = {}
        self.admitted: list[tuple[str, int]] = []  # (tenant, time) of each admission
        self.settled = 0

    def concerned(self, tenant: str, model: str) -> list[Key]:
        """The buckets a request concerns: the tenant's, and those of the one rule that fits, on top."""
        rule_id = MODELS[model] if tenant == "auth:red" else None
        scopes = [None] if rule_id is None else [None, rule_id]
        keys = [(tenant, scope, kind) for scope in scopes for kind in ("tokens", "requests")]
        for key in keys:
            self.accounts.setdefault(key, Account(self.capacity(key)))
        return keys

    def capacity(self, key: Key) -> int:
        """What the policy says of a bucket."""
        tenant, scope, kind = key
        policy = POLICY.of(tenant)
        limits = policy.limits if scope is None else {r.rule_id: r.limits for r in policy.model_rules}[scope]
        return limits.tokens_per_minute if kind == "tokens" else limits.requests_per_minute

    def amounts(self, keys: list[Key], tokens: int) -> list[tuple[Account, int]]:
        """What a request wants of each bucket."""
        return [(self.accounts[key], tokens if key[2] == "tokens" else 1) for key in keys]

    @rule(ns=st.integers(0, 90 * NS_PER_S) | st.sampled_from([1, 333_333_333, NS_PER_S, 20 * NS_PER_S, 60 * NS_PER_S]))
    def time_passes(self, ns: int) -> None:
        """Everything refills."""
        self.advance(ns)

    def advance(self, ns: int) -> None:
        """Let the model and the clock go on."""
        self.now_ns += ns
        for account in self.accounts.values():
            account.refill(ns)

    @rule(
        target=open_reserves,
        tenant=st.sampled_from(TENANTS),
        model=st.sampled_from(sorted(MODELS)),
        tokens=st.integers(1, 20) | st.sampled_from([12, 13, 14, 40, 41, 100, 101]),
        retry=st.booleans(),
    )
    def request(self, tenant: str, model: str, tokens: int, retry: bool) -> object:  # noqa: FBT001 - drawn
        """A request is admitted exactly if every bucket can pay; otherwise the wait it is told is honest."""
        outcome = self.ask(tenant, model, tokens)
        if isinstance(outcome, Denial) and retry and outcome.retry_after_s is not None:
            outcome = self.wait_honestly(tenant, model, tokens, outcome.retry_after_s)
        return outcome if isinstance(outcome, Reserve) else multiple()

    def ask(self, tenant: str, model: str, tokens: int) -> Reserve | Denial:
        """Compare the answer with the model's, and book what was admitted."""
        wanted = self.amounts(self.concerned(tenant, model), tokens)
        outcome = self.budgets.reserve(tenant, model, tokens, self.now_ns)
        if all(account.level >= amount for account, amount in wanted):
            assert isinstance(outcome, Reserve), "refused although everything could be paid"
            for account, amount in wanted:
                account.spend(amount)
            self.reserved[outcome] = (tenant, model, tokens)
            self.admitted.append((tenant, self.now_ns))
            return outcome
        assert isinstance(outcome, Denial), "admitted although something could not be paid"
        never = any(amount > account.capacity for account, amount in wanted)
        assert (outcome.retry_after_s is None) == never, "a wait is told exactly if waiting helps"
        assert never or outcome.retry_after_s >= 1  # type: ignore[operator] # not None unless never
        return outcome

    @rule(tenant=st.sampled_from(TENANTS), model=st.sampled_from(sorted(MODELS)), tokens=st.integers(1, 100))
    def each_bucket_knows_its_wait(self, tenant: str, model: str, tokens: int) -> None:
        """To the nanosecond: at the end of the wait the amount is there, a nanosecond earlier it is not."""
        self.concerned(tenant, model)
        for (whose, _), budget in self.budgets._budgets.items():
            for bucket, amount in ((budget.tokens, tokens), (budget.requests, 1)):
                wait_ns = bucket.wait_ns(amount, self.now_ns)
                if whose != tenant or wait_ns is None:
                    continue
                assert bucket.units(self.now_ns + wait_ns) >= amount * UNIT
                assert not wait_ns or bucket.units(self.now_ns + wait_ns - 1) < amount * UNIT

    def wait_honestly(self, tenant: str, model: str, tokens: int, wait_s: int) -> Reserve | Denial:
        """A second before the time the request is still refused; at the time it is admitted, if nobody else came."""
        self.advance((wait_s - 1) * NS_PER_S)
        assert isinstance(self.ask(tenant, model, tokens), Denial), "the wait told was longer than needed"
        self.advance(NS_PER_S)
        outcome = self.ask(tenant, model, tokens)
        assert isinstance(outcome, Reserve), "the wait told was too short"
        return outcome

    @rule(reserve=consumes(open_reserves), tokens=st.none() | st.integers(0, 30) | st.sampled_from([0, 500, 10_000]))
    def settle(self, reserve: Reserve, tokens: int | None) -> None:
        """A reserve is settled at what it took, or at the estimate; a second settlement changes nothing."""
        tenant, model, estimate = self.reserved.pop(reserve)
        if tokens is not None:
            for key in self.concerned(tenant, model):
                if key[2] == "tokens":
                    self.accounts[key].spend(tokens - estimate)
        before = [budget.tokens.units(self.now_ns) for budget in reserve.budgets]
        assert self.budgets.settle(reserve, tokens, self.now_ns)
        for budget, units in zip(reserve.budgets, before, strict=True):
            refund = budget.tokens.units(self.now_ns) - units
            assert refund <= estimate * UNIT, "a refund gave more than was reserved"
        assert not self.budgets.settle(reserve, 10_000, self.now_ns), "settled twice"
        self.settled += 1

    @invariant()
    def each_bucket_is_as_the_model_says(self) -> None:
        """Exactly, in units: no drift; and what was forgotten was full and owed nothing."""
        kept = {
            (*key, kind): getattr(budget, kind).units(self.now_ns)
            for key, budget in self.budgets._budgets.items()
            for kind in ("tokens", "requests")
        }
        for key, account in self.accounts.items():
            expected = account.level * UNIT
            assert kept.get(key, account.capacity * UNIT) == expected, key

    @invariant()
    def no_bucket_is_above_its_capacity(self) -> None:
        """Neither refill nor refund gives more than there can be."""
        for budget in self.budgets._budgets.values():
            for bucket in (budget.tokens, budget.requests):
                assert bucket.units(self.now_ns) <= bucket.capacity * UNIT
                assert bucket.units(self.now_ns + 10**12) <= bucket.capacity * UNIT

    @invariant()
    def no_window_admits_more_than_capacity_and_refill(self) -> None:
        """Requests of a tenant in any window: at most what its bucket holds, and what came back within the window."""
        if not self.admitted:
            return
        tenant, ended = self.admitted[-1]  # the windows that end earlier were looked at when they ended
        capacity = self.capacity((tenant, None, "requests"))
        times = [at for whose, at in self.admitted if whose == tenant]
        for number, began in enumerate(reversed(times), start=1):
            assert number * UNIT <= capacity * (UNIT + ended - began)

    @invariant()
    def every_reserve_is_settled_once(self) -> None:
        """Open reserves are exactly those that were made and not settled."""
        assert len(self.admitted) == self.settled + len(self.reserved)
        held = sum(budget.open for (_, scope), budget in self.budgets._budgets.items() if scope is None)
        assert held == len(self.reserved), "a budget with an open reserve was forgotten"

    @invariant()
    def count_the_step(self) -> None:
        """So that the run can show how far it went."""
        TAKEN["steps"] += 1

    def teardown(self) -> None:
        """At rest, everything is full again and forgotten."""
        for reserve in list(self.reserved):
            self.budgets.settle(reserve, None, self.now_ns)
        self.now_ns += 10**15
        for number in range(len(self.budgets) + 1):
            self.budgets.reserve(f"ip:{number}", "m", 13, self.now_ns)  # never admitted: leaves nothing behind
        assert len(self.budgets) <= 2


@pytest.mark.timeout(600)  # eight seconds of work; a busy machine takes its time
def test_budgets_keep_their_word() -> None:
    """More than ten thousand steps of the machine above, none of which breaks an invariant."""
    TAKEN["steps"] = 0
    quick = settings(
        max_examples=RUNS,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(BudgetsMachine, settings=quick)
    print(f"budgets: {TAKEN['steps']} steps")  # noqa: T201 - shown with -s
    assert TAKEN["steps"] >= 10_000
