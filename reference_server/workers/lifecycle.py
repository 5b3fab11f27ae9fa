"""The jobs in the background: register workers, watch their health, let leaving ones finish.

Each worker has one task of its own from registration to removal, so no worker waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from reference_server.workers.detect import DetectionError
from reference_server.workers.worker import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from reference_server.settings import Settings
    from reference_server.workers.detect import Detector
    from reference_server.workers.loads import LoadMonitor
    from reference_server.workers.registry import Registry
    from reference_server.workers.watcher import Watcher
    from reference_server.workers.worker import Worker, WorkerFacts

_log = logging.getLogger(__name__)
_ADD, _REMOVE = "AddWorker", "RemoveWorker"  # names of the jobs in the workers API


class Lifecycle:
    """Starts and ends the task of each worker. Use in one event loop; `stop` ends all of them."""

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        detector: Detector,
        monitor: LoadMonitor,
        clock: Callable[[], float],
        watcher: Watcher,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._detector = detector
        self._monitor = monitor
        self._clock = clock
        self._watcher = watcher
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, worker: Worker) -> None:
        """Probe a new or changed worker until it is ready or its time is up, then watch over it.

        A new worker whose time is up is forgotten; a changed one that was ready before stays as it was.
        """
        self._replace_task(worker, _ADD, self._register_and_watch(worker))

    def begin_removal(self, worker: Worker) -> None:
        """Send nothing more to the worker and forget it once what is under way has ended.

        A worker that was never ready, or whose removal has begun already, is forgotten at once; requests under way
        still end in peace.
        """
        if worker.status is not Status.READY:
            self._end_task(worker)
            self._registry.remove(worker)
            return
        worker.status = Status.DRAINING
        self._registry.count_slots()
        self._replace_task(worker, _REMOVE, self._drain(worker))

    async def stop(self) -> None:
        """End all tasks and wait until they have ended."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end_task(self, worker: Worker) -> None:
        if running := self._tasks.pop(worker.id, None):
            running.cancel()

    def _replace_task(self, worker: Worker, name: str, job: Coroutine[None, None, None]) -> None:
        self._end_task(worker)
        worker.job, worker.job_began_at, worker.last_problem = name, time.time(), None
        task = asyncio.get_running_loop().create_task(job)
        self._tasks[worker.id] = task
        task.add_done_callback(lambda done: self._forget_task(worker, done))

    def _forget_task(self, worker: Worker, task: asyncio.Task[None]) -> None:
        if self._tasks.get(worker.id) is task:
            del self._tasks[worker.id]
        if not task.cancelled() and (error := task.exception()):
            _log.error("the task of worker %s ended by %r; the worker stays as it is", worker.url, error)

    async def _register_and_watch(self, worker: Worker) -> None:
        facts = await self._detect_in_time(worker)
        if facts is not None:
            self._registry.mark_ready(worker, facts)
            names = ", ".join(model.id for model in worker.models)
            _log.info("worker %s is ready: %s, models %s", worker.url, facts.runtime, names)
        elif worker.facts is None:
            _log.warning("worker %s is given up: %s", worker.url, worker.last_problem)
            self._registry.remove(worker)
            return
        else:
            worker.job = None
            _log.warning("worker %s keeps what was known of it: %s", worker.url, worker.last_problem)
        await self._watch_over(worker)

    async def _watch_over(self, worker: Worker) -> None:
        """Health and load, each at its own pace, for as long as the worker is there."""
        async with asyncio.TaskGroup() as watching:
            if self._settings.health.enabled:
                watching.create_task(self._watch(worker))
            if self._settings.overload.polled:
                watching.create_task(self._monitor.watch(worker))

    async def _detect_in_time(self, worker: Worker) -> WorkerFacts | None:
        startup = self._settings.worker_startup
        deadline = self._clock() + startup.timeout_s
        await asyncio.sleep(startup.delay_s)
        while True:
            try:
                return await self._detector.detect(worker.spec)
            except DetectionError as problem:
                worker.last_problem = str(problem)
            if self._clock() + startup.check_interval_s > deadline:
                return None
            _log.info("worker %s is not ready yet: %s", worker.url, worker.last_problem)
            await asyncio.sleep(startup.check_interval_s)

    async def _watch(self, worker: Worker) -> None:
        while True:
            await asyncio.sleep(max(0.0, worker.health.due - self._clock()))
            worker.health.begin(self._clock())
            alive = await self._detector.is_alive(worker.spec)
            self._watcher.probed(ok=alive)
            if worker.health.record(ok=alive):
                if worker.health.healthy:
                    worker.breaker.recovered(self._clock())
                self._registry.count_slots()
                _log.warning("worker %s is now %s", worker.url, "healthy" if worker.health.healthy else "unhealthy")

    async def _drain(self, worker: Worker) -> None:
        idle = asyncio.Event()
        worker.on_idle = idle.set
        if worker.in_flight:
            await idle.wait()
        self._registry.remove(worker)
        _log.info("worker %s is removed", worker.url)
