"""Budgets of tenants: buckets that refill continuously, a reserve before a request, and its settlement after it.

A plain object that is told what is wanted and when, and says yes or how long to wait; no clock, no I/O. Each budget
(a tenant's own, and one for each of its rules a model meets) has a bucket of tokens and one of requests. Both begin
full, hold what the policy allows a minute, and get that much back within a minute.

A request *reserves* an estimate of its tokens and one request, in every budget it concerns or in none of them. It
*settles* once: at the tokens it really took, which may leave a debt or give something back, never beyond what the
bucket holds; or, where nobody says what it took, at the estimate. The request itself is never given back.

Arithmetic is exact: amounts are integers in sixty-billionths, so that a nanosecond refills a whole number of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference_server.tenants.policy import Limits, RateLimitPolicy

NS_PER_S = 1_000_000_000
UNIT = 60 * NS_PER_S  # units of one token or request; a bucket gets `capacity` units a nanosecond
_LOOKED_AT = 4  # budgets tried for forgetting at each reserve, more than one reserve can add


class Bucket:
    """A continuously refilled amount. It may be below zero and is never above its capacity."""

    def __init__(self, capacity: int, now_ns: int) -> None:
        self.capacity = capacity
        self._units = capacity * UNIT
        self._at_ns = now_ns

    def is_full(self, now_ns: int) -> bool:
        """Whether nothing is missing."""
        return self.units(now_ns) == self.capacity * UNIT

    def wait_ns(self, amount: int, now_ns: int) -> int | None:
        """Nanoseconds until `amount` is there: 0 if it is, `None` if it never will be."""
        if amount > self.capacity:
            return None
        missing = amount * UNIT - self.units(now_ns)
        return -(-missing // self.capacity) if missing > 0 else 0

    def take(self, amount: int, now_ns: int) -> None:
        """Take out `amount`, whether or not it is there; a negative amount is put back, and what runs over is lost."""
        self._units = self.units(now_ns) - amount * UNIT
        self._at_ns = max(self._at_ns, now_ns)

    def units(self, now_ns: int) -> int:
        """What is there, in units of a sixty-billionth; a clock that goes back changes nothing."""
        passed_ns = max(0, now_ns - self._at_ns)
        return min(self.capacity * UNIT, self._units + passed_ns * self.capacity)


class Budget:
    """The two buckets of one tenant, or of one rule of a tenant. `open` reserves are not settled yet."""

    def __init__(self, limits: Limits, now_ns: int) -> None:
        self.tokens = Bucket(limits.tokens_per_minute, now_ns)
        self.requests = Bucket(limits.requests_per_minute, now_ns)
        self.open = 0

    def wait_ns(self, tokens: int, now_ns: int) -> int | None:
        """Nanoseconds until the request can be paid; `None`: never."""
        waits = [self.tokens.wait_ns(tokens, now_ns), self.requests.wait_ns(1, now_ns)]
        return _longest(waits)

    def is_untouched(self, now_ns: int) -> bool:
        """Whether it is as good as a new one."""
        return not self.open and self.tokens.is_full(now_ns) and self.requests.is_full(now_ns)


@dataclass(eq=False, slots=True)
class Reserve:
    """A request's hold on its budgets, until it is settled."""

    budgets: tuple[Budget, ...]
    tokens: int
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Denial:
    """A request that cannot be paid. `retry_after_s`: in how many seconds it can, `None` where it never can."""

    retry_after_s: int | None


class Budgets:
    """The budgets of all tenants of one policy. What is full again and unused is forgotten."""

    def __init__(self, policy: RateLimitPolicy) -> None:
        self._policy = policy
        self._budgets: OrderedDict[tuple[str, str | None], Budget] = OrderedDict()

    def __len__(self) -> int:
        return len(self._budgets)

    def reserve(self, tenant_key: str, model: str, tokens: int, now_ns: int) -> Reserve | Denial:
        """Reserve `tokens` and a request for a tenant's request to a model, or say how long that would take."""
        self._forget_some(now_ns)
        budgets = tuple(self._concerned(tenant_key, model, now_ns))
        wait_ns = _longest([budget.wait_ns(tokens, now_ns) for budget in budgets])
        if wait_ns is None:
            return Denial(None)
        if wait_ns > 0:
            return Denial(-(-wait_ns // NS_PER_S))
        for budget in budgets:
            budget.tokens.take(tokens, now_ns)
            budget.requests.take(1, now_ns)
            budget.open += 1
        return Reserve(budgets, tokens)

    def settle(self, reserve: Reserve, tokens: int | None, now_ns: int) -> bool:
        """Charge what the request really took; `None`: what was reserved. Only the first time counts."""
        if reserve.settled:
            return False
        reserve.settled = True
        for budget in reserve.budgets:
            budget.open -= 1
            if tokens is not None:
                budget.tokens.take(tokens - reserve.tokens, now_ns)
        return True

    def _concerned(self, tenant_key: str, model: str, now_ns: int) -> Iterator[Budget]:
        policy = self._policy.of(tenant_key)
        yield self._budget((tenant_key, None), policy.limits, now_ns)
        rule = policy.rule_for(model)
        if rule is not None:
            yield self._budget((tenant_key, rule.rule_id), rule.limits, now_ns)

    def _budget(self, key: tuple[str, str | None], limits: Limits, now_ns: int) -> Budget:
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = Budget(limits, now_ns)
        return budget

    def _forget_some(self, now_ns: int) -> None:
        """Look at a few budgets in turn, so that no request pays for the tidying of thousands."""
        for _ in range(min(_LOOKED_AT, len(self._budgets))):
            key, budget = self._budgets.popitem(last=False)
            if not budget.is_untouched(now_ns):
                self._budgets[key] = budget


def _longest(waits: list[int | None]) -> int | None:
    """The longest of several waits; one that never ends is the longest."""
    ending = [wait for wait in waits if wait is not None]
    return max(ending) if len(ending) == len(waits) else None
