"""Vices of tenants' budgets and of overload protection."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from reference_server.errors import Refused
from tests.mutants.vice import Vice, add, swap
from tests.mutants.vices.admission import before
from tests.mutants.vices.sheds import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.answers import Answer
    from reference_server.call import Call

LIMITER = "reference_server.tenants.limiter:TenantLimiter"
CHARGE = "reference_server.tenants.limiter:Charge"
BUCKET = "reference_server.tenants.buckets:Bucket"
GUARD = "reference_server.workers.overload:OverloadGuard"
DISPATCHER = "reference_server.workers.dispatch:Dispatcher"
OVER, SHED = "rate_limiting.tenant_rate_limit_exceeded", "rate_limiting.worker_overload_protection_shed"


def charged_to(edit: Callable[[str, Any], str]) -> Vice:
    """Requests charged to another tenant than their own."""
    return swap(
        f"{LIMITER}.charge",
        lambda original, self, tenant, request, model: original(self, edit(tenant, request), request, model),
    )


def _waits(edit: Callable[[int], int]) -> Vice:
    """Another Retry-After where there is one."""

    def change(answer: Answer) -> None:
        answer.headers = [
            (name, str(edit(int(value))) if name == "retry-after" else value) for name, value in answer.headers
        ]

    return told("tenant_rate_limit_exceeded", change)


add(
    "budgets_nobody",
    "Budgets are not looked at.",
    (f"{OVER}.status", f"{OVER}.own_bucket", f"{OVER}.never_admittable"),
    Vice(settings=lambda s: dataclasses.replace(s, tenant_rate_limits=None)),
)
add(
    "waits_too_short", "Retry-After is five seconds too short.", (f"{OVER}.retry_after",), _waits(lambda wait: wait - 5)
)
add(
    "waits_too_long",
    "Retry-After is always a minute and more.",
    (f"{OVER}.retry_after",),
    _waits(lambda wait: wait + 60),
)
add("waits_for_nothing", "Retry-After is left out always.", (f"{OVER}.retry_after", f"{OVER}.settled_by_usage"),
    told("tenant_rate_limit_exceeded", lambda answer: setattr(answer, "headers", [pair for pair in answer.headers if pair[0] != "retry-after"])))  # fmt: skip
add(
    "gives_hope",
    "What never fits is told to wait a minute.",
    (f"{OVER}.never_admittable",),
    swap(
        f"{BUCKET}.wait_ns",
        lambda original, self, amount, now_ns: (
            60_000_000_000 if amount > self.capacity else original(self, amount, now_ns)
        ),
    ),
)
add(
    "never_settles",
    "What an answer has cost is not charged.",
    (f"{OVER}.settled_by_usage",),
    swap(f"{CHARGE}.settle", lambda _original, self, _tokens: self.keep()),
)
add(
    "charges_the_answer_only",
    "The prompt's tokens are not charged, nor debts allowed.",
    (f"{OVER}.settled_by_usage",),
    swap(f"{CHARGE}.settle", lambda original, self, tokens: original(self, min(tokens, 600))),
)
add(
    "charges_one_for_all",
    "All tenants share one budget.",
    (f"{OVER}.others_untouched",),
    charged_to(lambda _tenant, _request: "auth:everybody"),
)
add(
    "charges_strangers_together",
    "Tenants without an entry share the default budget.",
    (f"{OVER}.own_bucket",),
    charged_to(lambda tenant, _request: "auth:others" if tenant in {"auth:team-red", "auth:team-grey"} else tenant),
)
add(
    "charges_by_route",
    "Each route has budgets of its own.",
    (f"{OVER}.one_budget",),
    charged_to(lambda tenant, request: f"{tenant}/{request.endpoint.name}"),
)
add(
    "charges_addresses_the_default",
    "An address has the default budget, whatever its entry says.",
    (f"{OVER}.address_identity",),
    charged_to(lambda tenant, _request: tenant.replace("ip:", "ip:from:")),
)
add(
    "trusts_everybody",
    "The tenant header is read though nobody said it could be trusted.",
    ("request_headers.tenant_id.ignored_without_trust",),
    Vice(settings=lambda s: dataclasses.replace(s, trust_tenant_header=True)),
)
add("charges_no_addresses", "Who is known by an address only is not charged.", (f"{OVER}.address_identity",),
    charged_to(lambda tenant, request: f"ip:{id(request)}" if tenant.startswith("ip:") else tenant))  # fmt: skip


async def _charged_though_refused(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
    """What is refused is charged."""
    from reference_server import pipeline  # noqa: PLC0415 - its functions are replaced by vices, so it comes late

    try:
        return await original(this, endpoint, state)
    except Refused as refused:
        if refused.status in {400, 404} and state.tenant_limits is not None:
            caller = pipeline.enter(this, state, pipeline.Group.SERVING)
            request = await pipeline.parse(this, endpoint)
            state.tenant_limits.charge(caller.tenant_key, request, request.model)
        raise


async def _judged_first(this: Call, endpoint: Any, state: Any) -> None:
    """The budget is looked at before anything else, and what it would have cost is given back."""
    from reference_server import pipeline  # noqa: PLC0415 - as above

    if state.tenant_limits is None:
        return
    caller = pipeline.enter(this, state, pipeline.Group.SERVING)
    charge = state.tenant_limits.charge(caller.tenant_key, await pipeline.parse(this, endpoint), "")
    charge.settle(0)


add(
    "charges_for_refusals",
    "A refused request costs as much as another.",
    (f"{OVER}.not_charged_when_refused",),
    swap("reference_server.pipeline:serve", _charged_though_refused),
)
add(
    "looks_at_budgets_first",
    "Budgets are looked at before bodies and models.",
    (f"{OVER}.after_validation",),
    before(_judged_first),
)


# -- overload


def guarded(edit: Callable[[Any, Any], bool]) -> Vice:
    """Another opinion of when a worker is over: `edit(settings, report)`."""
    return swap(
        f"{GUARD}.over", lambda _original, self, report, _now: report is not None and edit(self._settings, report)
    )


add(
    "sheds_never",
    "Load is not looked at.",
    (f"{SHED}.status", f"{SHED}.every_worker", f"{SHED}.waiting_inclusive"),
    guarded(lambda _settings, _report: False),
)
add(
    "sheds_above_waiting",
    "As many waiting as the threshold are not too many.",
    (f"{SHED}.waiting_inclusive",),
    guarded(lambda s, report: report.waiting > s.waiting_requests or report.usage >= s.token_usage),
)
add(
    "sheds_above_usage",
    "Usage at the threshold is not too much.",
    (f"{SHED}.usage_inclusive",),
    guarded(lambda s, report: report.waiting >= s.waiting_requests or report.usage > s.token_usage),
)
add(
    "sheds_one_early",
    "One waiting less than the threshold is too many.",
    (f"{SHED}.waiting_under",),
    guarded(lambda s, report: report.waiting >= s.waiting_requests - 1 or report.usage >= s.token_usage),
)
add(
    "sheds_at_less_usage",
    "Usage a little under the threshold is too much.",
    (f"{SHED}.usage_under",),
    guarded(lambda s, report: report.waiting >= s.waiting_requests or report.usage >= s.token_usage - 0.05),
)


def _remembers(original: Any, self: Any, report: Any, now: float) -> bool:
    """Once over, always over."""
    known = self.__dict__.setdefault("once_over", set())
    if original(self, report, now):
        known.add("over")
    return bool(known) and report is not None


def _any_over(original: Any, self: Any, model: str, serving: Any) -> Any:
    """One worker over is enough to shed."""
    found = original(self, model, serving)
    return (
        found if len(found) == len(serving) else original(self, model, [each for each in serving if each not in found])
    )


add(
    "never_recovers",
    "Whoever was overloaded once stays so.",
    (f"{SHED}.recovers", f"{SHED}.waiting_under"),
    swap(f"{GUARD}.over", _remembers),
)
add(
    "sheds_for_one",
    "One overloaded worker of several is enough to shed.",
    (f"{SHED}.every_worker",),
    swap(f"{DISPATCHER}._available", _any_over),
)
add("monitors_every_five_seconds", "The load monitor's interval is five seconds by default.", (f"{SHED}.default_interval",),
    Vice(settings=lambda s: dataclasses.replace(s, overload=dataclasses.replace(s.overload, interval_s=5.0 if s.overload.interval_s == 10.0 else s.overload.interval_s))))  # fmt: skip
