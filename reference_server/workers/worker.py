"""One worker as the gateway knows it: what was registered, what was found out, and how it fares."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reference_server.workers.breaker import Breaker
    from reference_server.workers.health import HealthState
    from reference_server.workers.overload import LoadReport

DEFAULT_PRIORITY = 50
DEFAULT_COST = 1.0
DEFAULT_SLOTS = 64
DEFAULT_CONNECTION_ATTEMPTS = 20


class Status(Enum):
    """Life of a worker; the values are those of the workers API (`not_ready` is derived from health)."""

    PENDING = "pending"  # registered by URL, not yet probed with success
    READY = "ready"
    DRAINING = "draining"  # to be removed; requests under way go on, new ones are not sent


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model a worker serves. `details` are further keys of its entry in the workers API (context_length, ...)."""

    id: str
    details: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What an operator registers. `models` given here replace what the worker lists itself; the key is not shown."""

    url: str
    models: tuple[ModelInfo, ...] = ()
    api_key: str | None = field(default=None, repr=False)
    runtime: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    priority: int = DEFAULT_PRIORITY
    cost: float = DEFAULT_COST
    max_connection_attempts: int = DEFAULT_CONNECTION_ATTEMPTS  # shown only; --worker-startup-timeout-secs is the bound


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What probing found out: runtime `sglang`, `vllm` or `generic`, models in the worker's order, flat labels."""

    runtime: str
    models: tuple[ModelInfo, ...]
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    slots: int = DEFAULT_SLOTS  # how many requests it serves at a time; a worker that does not say so counts 64


@dataclass(slots=True, eq=False)
class Worker:
    """A registered worker. `order` is its place in the order of registration."""

    id: str
    order: int
    spec: WorkerSpec
    breaker: Breaker
    health: HealthState
    status: Status = Status.PENDING
    facts: WorkerFacts | None = None
    models: tuple[ModelInfo, ...] = ()  # what it serves; none until it is probed
    load: LoadReport | None = None  # the last one it gave
    in_flight: int = 0
    job: str | None = None  # the background job it is subject to, in the workers API's words
    job_began_at: float = 0.0  # wall clock, seconds
    on_idle: Callable[[], None] | None = None  # called whenever the last request under way has ended
    last_problem: str | None = None  # why the job has not succeeded yet

    @property
    def url(self) -> str:
        """The URL as registered; clients see it in the routed-worker header."""
        return self.spec.url

    @property
    def healthy(self) -> bool:
        """Whether it is ready and its probes succeed."""
        return self.status is Status.READY and self.health.healthy

    def serves(self, model: str) -> bool:
        """Whether it serves the model, whether or not it takes requests now."""
        return any(known.id == model for known in self.models)

    def available(self, now: float) -> bool:
        """Whether a request may be sent to it at `now`."""
        return self.healthy and self.breaker.allows(now)

    def enter(self) -> None:
        """A request is about to be sent to it."""
        self.in_flight += 1

    def leave(self) -> None:
        """A request that entered has ended, however it went."""
        self.in_flight -= 1
        if not self.in_flight and self.on_idle is not None:
            self.on_idle()
