"""The loop of dispatch in virtual time: any workers, any failures, any end; a client may leave at any moment."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reference_server.errors import GatewayError
from reference_server.settings import BreakerSettings, RetrySettings, Settings
from reference_server.workers.breaker import Outcome
from reference_server.workers.dispatch import Dispatcher
from reference_server.workers.exchange import (
    UpstreamBodyError,
    UpstreamConnectionError,
    UpstreamRequest,
    UpstreamRequestError,
    UpstreamTimeoutError,
)
from reference_server.workers.registry import Registry
from reference_server.workers.retry import RETRIED_ELSEWHERE_STATUSES, RETRIED_STATUSES
from reference_server.workers.watcher import Watcher
from reference_server.workers.worker import ModelInfo, WorkerFacts, WorkerSpec
from tests.virtual_time import run_virtually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reference_server.workers.exchange import RoutingHints
    from reference_server.workers.worker import Worker

LEFT = object()


@dataclass
class Attempt:
    """What one attempt meets: a status, or a kind of failure, after some time."""

    ends: int | str
    takes_s: float


@dataclass
class Case:
    """One client request: what its attempts meet, how its answer ends, and when the client leaves."""

    attempts: list[Attempt]
    workers: int
    retry: RetrySettings
    whole: bool  # the answer is read inside of dispatch
    then: str  # what the client does with the answer: "reads", "leaves", or finds it "broken"
    leaves_at_s: float | None


class Answer:
    """A worker's response as far as dispatch looks at it."""

    is_event_stream = False

    def __init__(self, status: int, *, breaks: bool) -> None:
        self.status = status
        self._breaks = breaks
        self._told: list[Callable[[Outcome], None]] = []
        self.ended = False

    def on_settled(self, callback: Callable[[Outcome], None]) -> None:
        """Remember whom to tell."""
        self._told.append(callback)

    async def read(self, limit_bytes: int) -> bytes:
        """The body, or its break."""
        del limit_bytes
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:  # the real one closes itself too
            await self.aclose()
            raise
        if self._breaks:
            self.end(Outcome.FAILURE)
            raise UpstreamBodyError("cut", "http://w")
        return b""

    def end(self, outcome: Outcome) -> None:
        """The exchange is over; told once."""
        if not self.ended:
            self.ended = True
            for callback in self._told:
                callback(outcome)

    async def aclose(self) -> None:
        """Given up."""
        self.end(Outcome.UNCOUNTED)


@dataclass
class Upstream:
    """The client towards workers, scripted; it keeps what was sent when, and every answer."""

    script: list[Attempt]
    sent: list[tuple[float, str]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    async def send(self, worker_url: str, *_: Any, **__: Any) -> Answer:
        """The next attempt's end; the last one's for all beyond."""
        attempt = self.script[min(len(self.sent), len(self.script) - 1)]
        self.sent.append((asyncio.get_running_loop().time(), worker_url))
        await asyncio.sleep(attempt.takes_s)
        failures: dict[int | str, Exception] = {
            "refused": UpstreamConnectionError(),
            "closed": UpstreamRequestError("it closed"),
            "stale": UpstreamRequestError("it closed", stale=True),
            "late": UpstreamTimeoutError(1),
        }
        if attempt.ends in failures:
            raise failures[attempt.ends]
        answer = Answer(200 if attempt.ends == "breaks" else int(attempt.ends), breaks=attempt.ends == "breaks")
        self.answers.append(answer)
        return answer


class First:
    """A policy that would always take the same worker."""

    def choose(self, _model: str, candidates: Sequence[Worker], _hints: RoutingHints) -> Worker:
        """The first candidate."""
        return candidates[0]


class Outcomes(Watcher):
    """Keeps the outcomes told for each worker."""

    def __init__(self) -> None:
        self.of: defaultdict[str, list[Outcome]] = defaultdict(list)

    def ended(self, worker_url: str, outcome: Outcome) -> None:
        """One more."""
        self.of[worker_url].append(outcome)


class World:
    """A dispatcher with ready workers."""

    def __init__(self, case: Case) -> None:
        clock = asyncio.get_running_loop().time
        config = Settings(retry=case.retry, breaker=BreakerSettings(failure_threshold=10**6))
        self.outcomes = Outcomes()
        self.registry = Registry(config, clock, self.outcomes)
        self.upstream = Upstream(case.attempts)
        for number in range(case.workers):
            worker = self.registry.add(WorkerSpec(f"http://w{number}"))
            self.registry.mark_ready(worker, WorkerFacts("vllm", (ModelInfo("m"),)))
        self.dispatcher = Dispatcher(
            settings=config,
            registry=self.registry,
            policy=First(),
            client=self.upstream,  # type: ignore[arg-type]  # scripted
            clock=clock,
            source=random.Random(1),  # noqa: S311 - jitter needs no secrecy
            watcher=self.outcomes,
        )


async def _serve(world: World, case: Case) -> object:
    """The client's side of the request; returns its last status, or `LEFT`."""
    request = UpstreamRequest("POST", "/x", [], b"", "m", read_limit_bytes=10 if case.whole else None)
    answer: Any = None
    try:
        async with asyncio.timeout_at(case.leaves_at_s):
            answer = await world.dispatcher.dispatch(request)
            with suppress(UpstreamBodyError):
                await asyncio.sleep(0.5)
                if case.then == "broken":
                    answer.end(Outcome.FAILURE)
                elif case.then == "reads":
                    answer.end(Outcome.SUCCESS)
            await answer.aclose()
            return answer.status
    except GatewayError as refused:
        return refused.status
    except TimeoutError:
        if answer is not None:
            await answer.aclose()  # the front's settling
        return LEFT


ENDS = st.sampled_from([200, 400, 408, 429, 500, 501, 502, 503, 504, "refused", "closed", "stale", "late", "breaks"])
CASES = st.builds(
    Case,
    attempts=st.lists(st.builds(Attempt, ENDS, st.floats(0, 2)), min_size=1, max_size=6),
    workers=st.integers(1, 3),
    retry=st.builds(RetrySettings, max_attempts=st.integers(1, 5), initial_backoff_ms=st.integers(1, 500)),
    whole=st.booleans(),
    then=st.sampled_from(["reads", "leaves", "broken"]),
    leaves_at_s=st.none() | st.floats(0, 6),
)


@given(case=CASES)
@settings(max_examples=1500, deadline=None)
def test_one_outcome_each_and_nothing_left_behind(case: Case) -> None:
    """Each worker that was asked has one outcome at most, and one exactly when the client stayed.

    Only what was handed over with a good head and broke off then has two: the head's, and the failure.

    Nothing is sent too often, nothing after an answer was handed over, every answer is closed, every worker is left.
    """

    async def run() -> tuple[World, object, int]:
        world = World(case)
        result = await _serve(world, case)
        before = len(world.upstream.sent)
        await asyncio.sleep(1000)
        return world, result, before

    world, result, before = run_virtually(run())
    sent = world.upstream.sent
    assert len(sent) == before
    assert len(sent) <= case.retry.max_attempts + any(attempt.ends == "stale" for attempt in case.attempts)
    assert all(answer.ended for answer in world.upstream.answers)
    assert all(worker.in_flight == 0 for worker in world.registry)
    doubles = [told for told in world.outcomes.of.values() if len(told) > 1]
    assert all(len(told) == 2 and told[0] is not Outcome.FAILURE and told[1] is Outcome.FAILURE for told in doubles)
    assert len(doubles) <= (case.then == "broken")
    if result is not LEFT:
        assert world.outcomes.of.keys() == {url for _, url in sent}


@given(case=CASES)
@settings(max_examples=500, deadline=None)
def test_what_is_repeated_is_what_may_be(case: Case) -> None:
    """Behind each attempt that was repeated stands a failure that may be; behind the last one, an end of its own.

    Either its result is final, or no attempt was left; and a worker not yet tried goes before one that was.
    """
    case.leaves_at_s = None

    async def run() -> tuple[World, object]:
        world = World(case)
        return world, await _serve(world, case)

    world, _ = run_virtually(run())
    urls = [url for _, url in world.upstream.sent]
    met = [case.attempts[min(number, len(case.attempts) - 1)].ends for number in range(len(urls))]
    for number, end in enumerate(met[:-1]):
        others = case.workers > len(set(urls[: number + 1]))
        assert _may_be_repeated(end, whole=case.whole, others=others), met
    left = case.workers > len(set(urls))
    spent = len(urls) >= case.retry.max_attempts
    assert spent or not _may_be_repeated(met[-1], whole=case.whole, others=left), met
    assert len(set(urls)) == min(case.workers, len(urls))


def _may_be_repeated(end: int | str, *, whole: bool, others: bool) -> bool:
    if end == "breaks":
        return whole
    return not isinstance(end, int) or end in RETRIED_STATUSES or (others and end in RETRIED_ELSEWHERE_STATUSES)
