"""All workers of one gateway behind one object: what the front of the server talks to."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING

from reference_server.workers.detect import Detector
from reference_server.workers.dispatch import Dispatcher
from reference_server.workers.lifecycle import Lifecycle
from reference_server.workers.loads import LoadMonitor
from reference_server.workers.policies import POLICIES
from reference_server.workers.registry import Registry, WorkerExistsError
from reference_server.workers.upstream import UpstreamClient
from reference_server.workers.watcher import Watcher
from reference_server.workers.worker import WorkerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.settings import Settings
    from reference_server.workers.exchange import ModelCard, Readiness, UpstreamRequest
    from reference_server.workers.response import UpstreamResponse
    from reference_server.workers.worker import Worker


class Fleet:
    """Registers the workers of the settings, watches them, and sends requests to them.

    Attributes:
        registry: Every worker known, whatever its state.
    """

    def __init__(self, settings: Settings, watcher: Watcher | None = None) -> None:
        clock = time.monotonic
        watcher = watcher or Watcher()
        self._settings = settings
        self._client = UpstreamClient(
            request_timeout_s=settings.request_timeout_s,
            pool_idle_timeout_s=settings.upstream_pool_idle_timeout_s,
        )
        self.registry = Registry(settings, clock, watcher)
        self._detector = detector = Detector(settings, self._client)
        monitor = LoadMonitor(settings.overload.interval_s, partial(detector.ask, with_key=True), clock)
        self._lifecycle = Lifecycle(
            settings=settings, registry=self.registry, detector=detector, monitor=monitor, clock=clock, watcher=watcher
        )
        self._dispatcher = Dispatcher(
            settings=settings,
            registry=self.registry,
            policy=POLICIES[settings.policy](),
            client=self._client,
            clock=clock,
            watcher=watcher,
            source=random.Random(),  # noqa: S311 - jitter of pauses needs no secrecy
        )

    async def start(self) -> None:
        """Open the client and begin to register the workers of the settings; does not wait for them.

        With `enable_igw` workers come by the workers API only.
        """
        await self._client.start()
        if not self._settings.enable_igw:
            for url in self._settings.worker_urls:
                self._add_once(WorkerSpec(url=url))

    async def stop(self) -> None:
        """End the background jobs and cut every connection to a worker."""
        await self._lifecycle.stop()
        await self._client.stop()

    def add(self, spec: WorkerSpec) -> Worker:
        """Register a worker and begin to probe it.

        Raises:
            WorkerExistsError: Its URL is registered already.
        """
        worker = self.registry.add(spec)
        self._lifecycle.begin(worker)
        return worker

    def reprobe(self, worker: Worker) -> None:
        """Probe a worker again whose registration has changed."""
        self._lifecycle.begin(worker)

    def remove(self, worker: Worker) -> None:
        """Let a worker finish what is under way, send it nothing more, then forget it."""
        self._lifecycle.begin_removal(worker)

    def watch_slots(self, callback: Callable[[int], None]) -> None:
        """Call back with the slots of all healthy workers whenever they may have changed."""
        self.registry.on_slots = callback

    def models(self) -> list[ModelCard]:
        """The models the workers serve, each once, in a stable order."""
        return self.registry.models()

    def readiness(self) -> Readiness:
        """How many workers there are and how many are healthy."""
        return self.registry.readiness()

    async def post(self, worker: Worker, path: str) -> int:
        """Ask a worker to do something about itself; returns the status of its answer.

        Raises:
            UpstreamError: it could not be asked, or did not answer in time.
        """
        status, _ = await self._detector.ask(worker.spec, path, with_key=True, method="POST")
        return status

    def require(self, model: str) -> None:
        """Raise what `dispatch` would raise at once for lack of a worker."""
        self._dispatcher.require(model)

    async def dispatch(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request to a worker that serves its model; see `Dispatcher.dispatch`."""
        return await self._dispatcher.dispatch(request)

    def _add_once(self, spec: WorkerSpec) -> None:
        try:
            self.add(spec)
        except WorkerExistsError:
            return  # the same worker named twice is one worker
