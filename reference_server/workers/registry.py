"""The workers there are, by id, by URL and by model. Plain data: whoever probes or sends tells it what happened."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

from reference_server.workers.breaker import Breaker
from reference_server.workers.exchange import ModelCard, Readiness
from reference_server.workers.health import HealthState
from reference_server.workers.urls import identity
from reference_server.workers.watcher import Watcher
from reference_server.workers.worker import ModelInfo, Status, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reference_server.settings import Settings
    from reference_server.workers.worker import WorkerFacts, WorkerSpec


class WorkerExistsError(Exception):
    """A worker with this URL is registered already; `worker` is that one."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker.url)
        self.worker = worker


class Registry:
    """Workers in the order of their registration."""

    def __init__(self, settings: Settings, clock: Callable[[], float], watcher: Watcher | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._watcher = watcher or Watcher()
        self._workers: dict[str, Worker] = {}
        self._by_identity: dict[str, Worker] = {}
        self._next_order = 0
        self.on_slots: Callable[[int], None] | None = None  # called with the slots whenever they may have changed

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, worker_id: str) -> Worker | None:
        """The worker with this id, if there is one."""
        return self._workers.get(worker_id)

    def add(self, spec: WorkerSpec) -> Worker:
        """Register a worker; it is pending until `mark_ready`.

        Raises:
            WorkerExistsError: Its URL is registered, also in another spelling.
        """
        key = identity(spec.url)
        if known := self._by_identity.get(key):
            raise WorkerExistsError(known)
        worker = Worker(
            id=str(uuid.uuid4()),
            order=self._next_order,
            spec=spec,
            breaker=self._breaker(spec.url),
            health=HealthState(self._settings.health, self._clock()),
        )
        self._next_order += 1
        self._workers[worker.id] = worker
        self._by_identity[key] = worker
        return worker

    def mark_ready(self, worker: Worker, facts: WorkerFacts) -> None:
        """Probing succeeded: the worker takes requests, with a fresh breaker and a fresh health state."""
        worker.facts = facts
        worker.models = _models(worker.spec, facts)
        worker.last_problem = None
        worker.job = None
        worker.breaker = self._breaker(worker.url)
        worker.health = HealthState(self._settings.health, self._clock())
        worker.status = Status.READY
        self.count_slots()

    def _breaker(self, url: str) -> Breaker:
        return Breaker(self._settings.breaker, partial(self._watcher.moved, url))

    def replace_spec(self, worker: Worker, spec: WorkerSpec) -> None:
        """Change what was registered, not the URL; the worker keeps its id, its place and what was found out."""
        worker.spec = spec

    def remove(self, worker: Worker) -> None:
        """Forget a worker; one that is not there is no error, for removals may cross."""
        if self._workers.pop(worker.id, None) is not None:
            self._by_identity.pop(identity(worker.url), None)
            self.count_slots()

    def count_slots(self) -> None:
        """Tell how many requests the healthy workers together serve at a time; called when one comes, goes or ails."""
        if self.on_slots is not None:
            self.on_slots(sum(each.facts.slots for each in self if each.healthy and each.facts is not None))

    def serving(self, model: str) -> list[Worker]:
        """Every probed worker that serves the model, whether or not it takes requests now."""
        return [worker for worker in self._workers.values() if worker.serves(model)]

    def models(self) -> list[ModelCard]:
        """Each served model once, in the order in which workers brought them (clauses: models.*).

        Models of unhealthy and draining workers stay listed: the workers serve them, they only take nothing now.
        """
        seen = {known.id: None for worker in self._workers.values() for known in worker.models}
        return [ModelCard(model_id) for model_id in seen]

    def readiness(self) -> Readiness:
        """How many workers are probed, and how many of these are healthy; breakers do not count."""
        probed = [worker for worker in self._workers.values() if worker.facts is not None]
        return Readiness(healthy=sum(worker.healthy for worker in probed), total=len(probed))


def _models(spec: WorkerSpec, facts: WorkerFacts) -> tuple[ModelInfo, ...]:
    """The models registered, with what was found out about the worker's own first one; else those it lists itself."""
    if not spec.models:
        return facts.models
    details = facts.models[0].details if facts.models else {}
    return tuple(ModelInfo(model.id, model.details or details) for model in spec.models)
