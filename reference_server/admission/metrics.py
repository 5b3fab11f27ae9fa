"""Metrics of admission, under the real gateway's names. Gauges are read when they are asked for, not sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Summary

from reference_server.admission.priority import PriorityClass
from reference_server.admission.tickets import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from reference_server.admission.limiter import Limiter
    from reference_server.admission.scheduler import Scheduler

OTHER = "other"
_REASONS = {Verdict.FULL: "full", Verdict.LATE: "timeout"}
_OUTCOMES = {Verdict.FULL: "rejected_queue_full", Verdict.LATE: "rejected_queue_timeout"}


def _results(registry: CollectorRegistry) -> Counter:
    return Counter("smg_http_rate_limit", "Requests that were let in or sent away.", ("result",), registry=registry)


class LimiterMetrics:
    """What the plain limit tells."""

    def __init__(self, registry: CollectorRegistry, limiter: Limiter) -> None:
        self._results = _results(registry)
        self._rejected = Counter(
            "smg_admission_queue_rejected", "Requests that the admission queue sent away.", ("reason",),
            registry=registry,
        )  # fmt: skip
        depth = Gauge("smg_admission_queue_depth", "Requests that wait for a slot.", registry=registry)
        inside = Gauge("smg_admission_inflight", "Requests that hold a slot.", registry=registry)
        depth.set_function(lambda: limiter.waiting)
        inside.set_function(lambda: limiter.inside)

    def count(self, verdict: Verdict) -> None:
        """One verdict. A queue that is switched off sends nobody away: the limit itself does."""
        self._results.labels("allowed" if verdict is Verdict.ADMITTED else "rejected").inc()
        if verdict in _REASONS:
            self._rejected.labels(_REASONS[verdict]).inc()


class SchedulerMetrics:
    """What the priority scheduler tells. Every request has one outcome, counted when it can no longer change.

    Those that the rate sends away never come before the scheduler and are counted as by the plain limit.
    """

    def __init__(self, registry: CollectorRegistry, scheduler: Scheduler, tenant_top_n: int) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"smg_scheduler_{name}", text, labels, registry=registry)

        self._outcomes = counter("admit", "Requests by class and outcome.", "class", "outcome")
        self._results = _results(registry)
        self._promotions = counter("starvation_promotion", "Requests let in out of order, by class.", "class")
        self._preemptions = counter("preemption", "Requests that gave way.", "victim_class", "by_class")
        self._clamps = counter(
            "clamp", "Requests below the class they asked for.", "tenant", "requested_class", "effective_class"
        )
        self._unknown = counter("unknown_priority_value", "Requests with a priority that is none.", "tenant")
        self._waits = Summary(
            "smg_scheduler_queue_wait_seconds", "Time in the queue, however it ended.", ("class",), registry=registry
        )
        self._tenants = TenantLabels(tenant_top_n)
        self._gauges(registry, scheduler)

    def _gauges(self, registry: CollectorRegistry, scheduler: Scheduler) -> None:
        def by_class(name: str, text: str, read: Callable[[PriorityClass], float]) -> None:
            gauge = Gauge(f"smg_scheduler_{name}", text, ("class",), registry=registry)
            for level in PriorityClass:
                gauge.labels(level.label).set_function(lambda level=level: read(level))  # type: ignore[misc]  # bound now

        by_class("inflight", "Requests that hold a slot.", scheduler.inside)
        by_class("queue_depth", "Requests that wait for a slot.", scheduler.waiting)
        by_class("queue_size_limit", "Requests that may wait.", scheduler.queue_size)
        by_class("class_capacity_pressure", "0 to 1: the fuller of queue and slots.", scheduler.pressure)
        use = Gauge(
            "smg_scheduler_utilization", "Requests that hold a slot, as a share of the slots.", registry=registry
        )
        use.set_function(lambda: scheduler.total_inside / max(1, scheduler.capacity))

    def outcome(self, level: PriorityClass, outcome: str) -> None:
        """One request's outcome: admitted, preempted, rejected_queue_full, rejected_queue_timeout, client_cancelled."""
        self._outcomes.labels(level.label, outcome).inc()

    def refused(self, level: PriorityClass, verdict: Verdict) -> None:
        """A request was sent away."""
        if verdict is Verdict.HASTY:
            self._results.labels("rejected").inc()
        else:
            self.outcome(level, _OUTCOMES[verdict])

    def promoted(self, level: PriorityClass) -> None:
        """A request was let in out of order."""
        self._promotions.labels(level.label).inc()

    def preempted(self, victim: PriorityClass, by: PriorityClass) -> None:
        """A request gave way."""
        self._preemptions.labels(victim.label, by.label).inc()
        self.outcome(victim, "preempted")

    def waited(self, level: PriorityClass, seconds: float) -> None:
        """A request has left the queue."""
        self._waits.labels(level.label).observe(seconds)

    def clamped(self, tenant: str, asked: PriorityClass, got: PriorityClass) -> None:
        """A tenant asked for more than it may have."""
        self._clamps.labels(self._tenants.label(tenant), asked.label, got.label).inc()

    def unknown(self, tenant: str) -> None:
        """A tenant asked for a class that is none."""
        self._unknown.labels(self._tenants.label(tenant)).inc()


class TenantLabels:
    """A bounded number of tenants as label values: the first ones to need one; all others are one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, tenant: str) -> str:
        """The label of a tenant."""
        if tenant in self._known:
            return tenant
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(tenant)
        return tenant
