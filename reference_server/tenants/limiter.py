"""The shell round the budgets: the clock, the counter, and a charge that is settled once on every way out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from reference_server.errors import GatewayError
from reference_server.tenants.buckets import Budgets, Denial
from reference_server.tenants.counting import EstimatedTokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.stages.parse import ParsedRequest
    from reference_server.tenants.buckets import Reserve
    from reference_server.tenants.counting import TokenCounter
    from reference_server.tenants.policy import RateLimitPolicy


class TenantLimiter:
    """The tenant limits of one server. `counter` says what a request will cost (module `counting`)."""

    def __init__(
        self,
        policy: RateLimitPolicy,
        counter: TokenCounter | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._budgets = Budgets(policy)
        self._counter = counter or EstimatedTokens()
        self._clock_ns = clock_ns

    def charge(self, tenant_key: str, request: ParsedRequest, model: str) -> Charge:
        """Reserve what the request will cost; whoever holds the charge settles it.

        Raises:
            GatewayError: 429 `tenant_rate_limit_exceeded`; with the seconds to wait, unless waiting cannot help.
        """
        tokens = self._counter.input_tokens(request)
        outcome = self._budgets.reserve(tenant_key, model, tokens, self._clock_ns())
        if isinstance(outcome, Denial):
            wait = [] if outcome.retry_after_s is None else [("retry-after", str(outcome.retry_after_s))]
            message = "Tenant rate limit exceeded for this request"
            raise GatewayError(429, "tenant_rate_limit_exceeded", message, wait)
        return Charge(self, outcome)

    def settle(self, reserve: Reserve, tokens: int | None) -> None:
        """Settle at what was reported, or at the estimate."""
        self._budgets.settle(reserve, tokens, self._clock_ns())


class Charge:
    """What one request owes. Only the first settlement counts."""

    def __init__(self, limiter: TenantLimiter, reserve: Reserve) -> None:
        self._limiter = limiter
        self._reserve = reserve

    def settle(self, tokens: int) -> None:
        """The worker has reported what the request took."""
        self._limiter.settle(self._reserve, tokens)

    def keep(self) -> None:
        """Nobody has reported anything: the estimate stands."""
        self._limiter.settle(self._reserve, None)
