"""Vices of what tenants pay: rules for models, settlement, retries, failures; and of breakers and loads besides."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from reference_server.errors import GatewayError
from tests.mutants.hooks import FROM_SCOPE, refusing, wire
from tests.mutants.vice import Vice, add, both, swap
from tests.mutants.vices.admission import before
from tests.mutants.vices.auth import _lets_in
from tests.mutants.vices.budgets import CHARGE, DISPATCHER, GUARD, OVER, SHED
from tests.mutants.vices.retries import ATTEMPT
from tests.mutants.vices.sheds import SHEDS, _set, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.answers import Answer
    from reference_server.call import Call

RULE = "reference_server.tenants.policy:TenantPolicy.rule_for"
CONCERNED = "reference_server.tenants.buckets:Budgets._concerned"
BUDGET = "reference_server.tenants.buckets:Budget"
STREAM_USAGE = "reference_server.tenants.usage:StreamUsage"
BREAKER = "codes.no_available_workers.breaker"


# -- rules for models


def _prefix_first(_original: Any, self: Any, model: str) -> Any:
    prefixes = [rule for rule in self.model_rules if not rule.exact and model.startswith(rule.value)]
    return next(iter(prefixes), None) or next((rule for rule in self.model_rules if rule.value == model), None)


def _rule_alone(original: Any, self: Any, tenant: str, model: str, now_ns: int) -> Any:
    found = list(original(self, tenant, model, now_ns))
    return iter(found[-1:])


add(
    "reads_no_rules",
    "Rules for models are not looked at.",
    (f"{OVER}.model_rule", f"{OVER}.model_rule_exact"),
    swap(RULE, lambda _original, _self, _model: None),
)
add(
    "applies_rules_to_all_models",
    "A rule for one model holds for all.",
    (f"{OVER}.model_rule",),
    swap(RULE, lambda _original, self, _model: next(iter(self.model_rules), None)),
)
add(
    "takes_prefixes_first",
    "A rule for a prefix comes before the one for the model itself.",
    (f"{OVER}.model_rule_exact",),
    swap(RULE, _prefix_first),
)
add(
    "charges_rules_alone",
    "Where there is a rule for the model, the tenant's own budget is not charged.",
    (f"{OVER}.model_rule_on_top",),
    swap(CONCERNED, _rule_alone),
)


# -- settlement


def _settled_twice(original: Any, self: Any, tokens: int) -> None:
    original(self, tokens)
    self._reserve.settled = False
    for budget in self._reserve.budgets:
        budget.open += 1
    original(self, tokens)


def _refunded(charge: Any) -> None:
    """The request is given back."""
    for budget in charge._reserve.budgets:
        budget.requests.take(-1, time.monotonic_ns())


def _free(original: Any, self: Any) -> None:
    """What nobody reports on was no request."""
    if not self._reserve.settled:
        _refunded(self)
    original(self)


def _failures_free(original: Any, this: Call, answer: Answer, charge: Any) -> Any:
    if charge is not None and answer.status >= 500:
        _refunded(charge)
    return original(this, answer, charge)


add(
    "settles_no_streams",
    "The usage of streams is not charged.",
    (f"{OVER}.streams_settled",),
    both(
        swap(f"{STREAM_USAGE}.feed", lambda _original, _self, _data: None),
        swap(f"{STREAM_USAGE}.finish", lambda _original, _self: None),
    ),
)
add(
    "refunds_nothing",
    "What was estimated too high is not given back.",
    (f"{OVER}.refunded",),
    swap(f"{CHARGE}.settle", lambda original, self, tokens: original(self, max(tokens, self._reserve.tokens))),
)
add("estimates_nothing", "Nothing is charged before the usage is known.", (f"{OVER}.refunded", f"{OVER}.never_admittable"),
    swap("reference_server.tenants.counting:EstimatedTokens.input_tokens", lambda _original, _self, _request: 0))  # fmt: skip
add(
    "settles_twice",
    "What an answer has cost beyond its estimate is charged twice.",
    (f"{OVER}.settled_by_usage", f"{OVER}.streams_settled"),
    swap(f"{CHARGE}.settle", _settled_twice),
)
add(
    "waits_for_the_nearer_bucket",
    "A request is let in when one of the two buckets has room for it.",
    (f"{OVER}.settled_by_usage", f"{OVER}.retry_after"),
    swap(f"{BUDGET}.wait_ns", lambda _original, self, tokens, now: min(self.tokens.wait_ns(tokens, now) or 0, self.requests.wait_ns(1, now) or 0)),
)  # fmt: skip
add(
    "rounds_waits_down",
    "Retry-After is a second too short.",
    (f"{OVER}.retry_after",),
    told("tenant_rate_limit_exceeded", lambda answer: setattr(answer, "headers", [(name, str(int(value) - 1) if name == "retry-after" else value) for name, value in answer.headers])),
)  # fmt: skip
add(
    "failures_are_free",
    "A request that its worker failed is given back.",
    (f"{OVER}.failures_charged",),
    swap("reference_server.pipeline:meter", _failures_free),
)
add(
    "the_unreported_is_free",
    "A request that nobody has told the usage of is given back.",
    (f"{OVER}.failures_charged", f"{OVER}.leavers_charged"),
    swap(f"{CHARGE}.keep", _free),
)


AGAIN: ContextVar[Any] = ContextVar("again", default=None)


def _reserved(original: Any, this: Call, caller: Any, request: Any, *rest: Any) -> Any:
    """Remember how to charge once more."""
    outgoing, state = rest
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        if len(attempts) > 1:
            state.tenant_limits.charge(caller.tenant_key, request, outgoing.model)

    AGAIN.set(attempt if state.tenant_limits is not None else None)
    return original(this, caller, request, *rest)


async def _charged(original: Any, *arguments: Any) -> Any:
    """An attempt, charged."""
    if (attempt := AGAIN.get()) is not None:
        attempt()
    return await original(*arguments)


add("charges_each_attempt", "Each attempt of a request is charged.", (f"{OVER}.retried_once",),
    both(swap("reference_server.pipeline:reserve", _reserved), swap(ATTEMPT, _charged)))  # fmt: skip


# -- whose key it is


def _tenants(edit: Callable[[Any], Any]) -> Vice:
    """Other tenant keys than the configured ones."""
    return Vice(settings=lambda s: dataclasses.replace(s, tenant_api_keys=tuple(edit(s.tenant_api_keys))))


def _first_ones(known: Any) -> Any:
    seen: set[str] = set()
    for each in known:
        if each.tenant_id not in seen:
            seen.add(each.tenant_id)
            yield each


def _apart(known: Any) -> Any:
    seen: set[str] = set()
    for each in known:
        again = each.tenant_id in seen
        seen.add(each.tenant_id)
        yield dataclasses.replace(each, tenant_id=f"{each.tenant_id}-again") if again else each


add("knows_one_key_of_a_tenant", "Of a tenant's keys the first one is known.", ("auth.tenant.several_keys", "auth.tenant.several_keys_one_identity"), _tenants(_first_ones))  # fmt: skip
add("takes_keys_for_tenants", "Each key is a tenant of its own.", ("auth.tenant.several_keys_one_identity",), _tenants(_apart))  # fmt: skip
add("lets_anyone_change_workers", "PATCH and PUT on a worker ask for no key.", ("auth.admin.change_without_key_refused",),
    _lets_in(lambda this, _s, group: group.value == "admin" and this.method in {"PATCH", "PUT"}))  # fmt: skip
add("tells_anyone_the_loads", "The workers' loads ask for no key.", ("auth.admin.loads_without_key_refused",),
    _lets_in(lambda this, _s, _group: this.path == "/get_loads"))  # fmt: skip


# -- what a shed says besides

PATH: ContextVar[str] = ContextVar("path", default="")


def _without_id(_this: Call, answer: Answer, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    shed = any(name == "x-smg-error-code" and value in SHEDS for name, value in answer.headers)
    return [pair for pair in headers if not shed or pair[0] != b"x-request-id"]


def _of_sheds(edit: Callable[[Answer], None]) -> Vice:
    """The answers of all sheds but preemption, changed."""

    def change(refused: Any, answer: Answer) -> None:
        if getattr(refused, "code", None) in SHEDS and refused.code != "scheduler_preempted":
            edit(answer)

    return refusing(change)


add("sheds_without_an_id", "A shed has no request id.", ("response_headers.request_id.shed",), wire(_without_id))
add(
    "sheds_name_a_worker",
    "A shed names a worker.",
    ("response_headers.routed_worker.not_on_shed",),
    _of_sheds(_set("x-smg-routed-worker-id", "http://127.0.0.1:9")),
)
add(
    "calls_every_shed_a_preemption",
    "Every shed says that it preempted.",
    ("response_headers.preempted.not_on_other_sheds",),
    _of_sheds(_set("x-smg-preempted", "true")),
)
for _code, (_wait, _) in SHEDS.items():
    if _wait is not None:
        add(
            f"{_code}_waits_until_a_date",
            f"{_code} says a date.",
            (f"rate_limiting.{_code}.retry_after",),
            told(_code, _set("retry-after", "Mon, 30 Nov 2026 00:00:02 GMT")),
        )
        add(
            f"{_code}_waits_not_at_all",
            f"{_code} says zero seconds.",
            (f"rate_limiting.{_code}.retry_after",),
            told(_code, _set("retry-after", "0")),
        )


# -- what workers bear


async def _loads_first(this: Call, endpoint: Any, state: Any) -> None:
    """Whoever wants an overloaded model is sent away before the body is judged."""
    from reference_server import pipeline  # noqa: PLC0415 - its functions are replaced by vices, so it comes late

    request = await pipeline.parse(this, endpoint)
    try:
        state.workers.require(state.settings.canonical_model(request.model))
    except GatewayError as refused:
        if refused.code == "worker_overload_protection_shed":
            raise


def _path_noted(original: Any, scope: Any, *rest: Any) -> Any:
    PATH.set(scope["path"])
    return original(scope, *rest)


add("looks_at_loads_first", "Loads are looked at before the body is judged.", (f"{SHED}.after_validation",), before(_loads_first))  # fmt: skip
add("sheds_chat_only", "Overloaded workers get completions and embeddings.", (f"{SHED}.every_route",),
    Vice({FROM_SCOPE: _path_noted, f"{GUARD}.over": lambda original, self, report, now: PATH.get() in {"", "/v1/chat/completions"} and original(self, report, now)}))  # fmt: skip


def _refusals_fail(original: Any, status: int) -> Any:
    from reference_server.workers.breaker import Outcome  # noqa: PLC0415 - the list of mutants needs no server

    return Outcome.FAILURE if 400 <= status < 500 else original(status)


def _never_reset(original: Any, self: Any, outcome: Any, now: float) -> None:
    if outcome.value != "success":
        original(self, outcome, now)


def _one_for_all(original: Any, self: Any, model: str, serving: Any) -> Any:
    """One open breaker keeps every worker from being asked."""
    now = self._clock()
    if any(not worker.breaker.allows(now) for worker in self._registry):
        raise GatewayError(503, "no_available_workers", "Some worker has failed too often.")
    return original(self, model, serving)


def _forgiven(_original: Any, self: Any, outcome: Any, now: float) -> None:
    """Closed again, with whatever has just happened as its first outcome."""
    self._opened_at, self._in_a_row = None, 0
    self._record_closed(outcome, now)


add("counts_refusals_as_failures", "A worker's 4xx counts against its breaker.", (f"{BREAKER}.refusals_not_counted",),
    both(swap("reference_server.workers.dispatch:outcome_of_status", _refusals_fail), swap("reference_server.workers.response:outcome_of_status", _refusals_fail)))  # fmt: skip
add("counts_all_failures", "A success does not reset the count of failures.", (f"{BREAKER}.success_resets",),
    swap("reference_server.workers.breaker:Breaker._record_closed", _never_reset))  # fmt: skip
add(
    "has_one_breaker",
    "One worker's open breaker keeps every worker from being asked.",
    (f"{BREAKER}.other_models_served",),
    swap(f"{DISPATCHER}._available", _one_for_all),
)


add("never_closes_breakers", "A breaker that has opened stays open.", (f"{BREAKER}.asked_again", f"{BREAKER}.opens_again"),
    Vice(settings=lambda s: dataclasses.replace(s, breaker=dataclasses.replace(s.breaker, timeout_s=3600.0))))  # fmt: skip
add("asks_again_early", "A breaker is open for half the configured time.", (f"{BREAKER}.asked_again",),
    Vice(settings=lambda s: dataclasses.replace(s, breaker=dataclasses.replace(s.breaker, timeout_s=s.breaker.timeout_s / 2))))  # fmt: skip
add("forgives_at_once", "A breaker that has been open long enough is closed.", (f"{BREAKER}.opens_again",),
    swap("reference_server.workers.breaker:Breaker._record_half_open", _forgiven))  # fmt: skip


async def _half(original: Any, self: Any, worker: Any, request: Any) -> Any:
    """From the second attempt on a large body is cut."""
    seen = TRIED.get()
    if seen is None:
        seen = []
        TRIED.set(seen)
    seen.append(1)
    if len(seen) > 1 and len(request.body) > 1 << 20:
        request = dataclasses.replace(request, body=request.body[: 1 << 20])
    return await original(self, worker, request)


TRIED: ContextVar[list[int] | None] = ContextVar("tried", default=None)
add(
    "cuts_large_bodies",
    "From the second attempt on, a body over a megabyte is cut.",
    ("retries.attempts.large_body",),
    swap(ATTEMPT, _half),
)
