"""Choose a worker, send, repeat where that may help: the loop around the cores of policy, retry and breaker."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reference_server.errors import GatewayError
from reference_server.workers.breaker import Outcome, outcome_of_status
from reference_server.workers.exchange import UpstreamError, WorkersOverloadedError
from reference_server.workers.overload import OverloadGuard
from reference_server.workers.retry import RetrySchedule, is_retried

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterator, Sequence

    from reference_server.settings import Settings
    from reference_server.workers.exchange import UpstreamRequest
    from reference_server.workers.policies import Policy
    from reference_server.workers.registry import Registry
    from reference_server.workers.response import UpstreamResponse
    from reference_server.workers.upstream import UpstreamClient
    from reference_server.workers.watcher import Watcher
    from reference_server.workers.worker import Worker

AUTHORIZATION = "authorization"


class Dispatcher:
    """Sends client requests to workers. It keeps no state between requests beyond what it was given."""

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        policy: Policy,
        client: UpstreamClient,
        clock: Callable[[], float],
        source: random.Random,
        watcher: Watcher,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._policy = policy
        self._client = client
        self._clock = clock
        self._random = source
        self._watcher = watcher
        self._guard = OverloadGuard(settings.overload)

    async def dispatch(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request to a worker that serves its model and return the answer once its head is here.

        Answers of busy workers and failures of the transport are repeated, each time preferring a worker not yet
        tried; the last answer or failure is the client's. Nothing is repeated after a response was returned.
        Cancelling cuts the connection to the worker.

        Raises:
            GatewayError: 404 `model_not_found`, 503 `no_available_workers` or `worker_overload_protection_shed`, or the
                last failure of the transport.
        """
        schedule = RetrySchedule(self._settings.retry, self._random.random)
        with self._sheds_counted():
            worker = self._choose(request, self._serving(request.model))
        outcomes: dict[Worker, Outcome] = {}  # of attempts that were not the last one; one for each worker
        try:
            while True:
                with self._sheds_counted():
                    self._refuse_if_it_crossed(worker, request.model)
                schedule.begin()
                result = await self._attempt(worker, request)
                outcomes[worker] = _outcome(result)
                following = await self._following(request, schedule, result, outcomes)
                if following is None:
                    del outcomes[worker]
                    return self._conclude(worker, result)
                worker = following
        finally:
            for tried, outcome in outcomes.items():
                self._record(tried, outcome)

    def require(self, model: str) -> None:
        """Make sure that a request for this model could be sent now.

        Raises:
            GatewayError: As `dispatch` for lack of a worker.
        """
        with self._sheds_counted():
            self._available(model, self._serving(model))

    @contextmanager
    def _sheds_counted(self) -> Iterator[None]:
        """Count a shed that ends a request; one that only ends its repetitions is none."""
        try:
            yield
        except WorkersOverloadedError as shed:
            self._watcher.shed(shed.stage)
            raise

    def _refuse_if_it_crossed(self, worker: Worker, model: str) -> None:
        """A worker that has reported overload since it was chosen gets nothing."""
        if self._guard.over(worker.load, self._clock()):
            raise WorkersOverloadedError(model, "dispatch", self._guard.retry_after_s)

    def _serving(self, model: str) -> list[Worker]:
        serving = self._registry.serving(model)
        if not serving:
            raise GatewayError(404, "model_not_found", f"No worker serves the model '{model}'.")
        return serving

    def _choose(self, request: UpstreamRequest, serving: Sequence[Worker], tried: Collection[Worker] = ()) -> Worker:
        available = self._available(request.model, serving)
        fresh = [worker for worker in available if worker not in tried]
        return self._policy.choose(request.model, fresh or available, request.routing)

    def _available(self, model: str, serving: Sequence[Worker]) -> list[Worker]:
        now = self._clock()
        available = [worker for worker in serving if worker.available(now)]
        if not available:
            message = f"Every worker that serves the model '{model}' is unhealthy, leaving or has failed too often."
            raise GatewayError(503, "no_available_workers", message)
        free = [worker for worker in available if not self._guard.over(worker.load, now)]
        if not free:
            raise WorkersOverloadedError(model, "selection", self._guard.retry_after_s)
        return free

    async def _attempt(self, worker: Worker, request: UpstreamRequest) -> UpstreamResponse | UpstreamError:
        headers = request.headers
        if worker.spec.api_key is not None and not any(name.lower() == AUTHORIZATION for name, _ in headers):
            headers = [*headers, (AUTHORIZATION, f"Bearer {worker.spec.api_key}")]
        worker.enter()
        self._watcher.sent(worker.url, request.model)
        try:
            response = await self._client.send(
                worker.url, request.method, request.path, headers=headers, body=request.body
            )
        except UpstreamError as failure:
            worker.leave()
            return failure
        except BaseException:
            worker.leave()
            raise
        response.on_settled(lambda _outcome: worker.leave())
        if request.read_limit_bytes is not None and not response.is_event_stream:
            try:
                await response.read(request.read_limit_bytes)
            except UpstreamError as failure:
                return failure
        return response

    async def _following(
        self,
        request: UpstreamRequest,
        schedule: RetrySchedule,
        result: UpstreamResponse | UpstreamError,
        tried: Collection[Worker],
    ) -> Worker | None:
        """The worker to try next, after the pause that is due, with `result` given up; `None`: `result` stands."""
        try:
            pause_s = self._pause_s(request, schedule, result, tried)
            if pause_s is None:
                if schedule.exhausted:
                    self._watcher.exhausted(request.path)
                return None
            await asyncio.sleep(pause_s)
            try:
                worker = self._choose(request, self._registry.serving(request.model), tried)
            except GatewayError:
                return None  # nobody is left to ask
            if not isinstance(result, UpstreamError) and not is_retried(
                result.status, another_worker=worker not in tried
            ):
                return None  # the other worker has gone meanwhile
            self._watcher.repeated(request.path, schedule.attempts, pause_s)
        except BaseException:
            await _give_up(result)
            raise
        await _give_up(result)
        return worker

    def _pause_s(
        self,
        request: UpstreamRequest,
        schedule: RetrySchedule,
        result: UpstreamResponse | UpstreamError,
        tried: Collection[Worker],
    ) -> float | None:
        if isinstance(result, UpstreamError):
            if result.stale:
                return 0.0 if schedule.may_replace_stale() else None
            return schedule.pause_s()
        now = self._clock()
        serving = self._registry.serving(request.model)
        another = any(
            worker not in tried and worker.available(now) and not self._guard.over(worker.load, now)
            for worker in serving
        )
        return schedule.pause_s() if is_retried(result.status, another_worker=another) else None

    def _conclude(self, worker: Worker, result: UpstreamResponse | UpstreamError) -> UpstreamResponse:
        """Hand over the result. Its head speaks for or against the worker; a good one's body may still break off."""
        if isinstance(result, UpstreamError):
            self._record(worker, Outcome.FAILURE)
            raise result
        head = outcome_of_status(result.status)
        self._record(worker, head)
        if head is not Outcome.FAILURE:
            result.on_settled(lambda end: self._record(worker, end) if end is Outcome.FAILURE else None)
        return result

    def _record(self, worker: Worker, outcome: Outcome) -> None:
        worker.breaker.record(outcome, self._clock())
        self._watcher.ended(worker.url, outcome)


def _outcome(result: UpstreamResponse | UpstreamError) -> Outcome:
    return Outcome.FAILURE if isinstance(result, UpstreamError) else outcome_of_status(result.status)


async def _give_up(result: UpstreamResponse | UpstreamError) -> None:
    if not isinstance(result, UpstreamError):
        await result.aclose()
