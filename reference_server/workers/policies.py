"""Which of the available workers gets a request. A policy is a class with one method and a name in `POLICIES`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reference_server.workers.exchange import RoutingHints
    from reference_server.workers.worker import Worker


class Policy(Protocol):
    """Chooses one of at least one candidate; candidates come in the order of their registration."""

    def choose(self, model: str, candidates: Sequence[Worker], hints: RoutingHints) -> Worker:
        """The worker that gets this request."""
        ...


class RandomPolicy:
    """Each candidate is as likely as any other."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._random = source or random.Random()  # noqa: S311 - balancing load needs no secrecy

    def choose(self, model: str, candidates: Sequence[Worker], hints: RoutingHints) -> Worker:  # noqa: ARG002 - one signature for all policies
        """Any candidate."""
        return self._random.choice(candidates)


class RoundRobinPolicy:
    """Each model's workers in turn: the next one registered after the last one chosen, then from the start."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def choose(self, model: str, candidates: Sequence[Worker], hints: RoutingHints) -> Worker:  # noqa: ARG002 - one signature for all policies
        """The candidate after the last one chosen for this model; exact also while candidates come and go."""
        last = self._last.get(model, -1)
        chosen = next((worker for worker in candidates if worker.order > last), candidates[0])
        self._last[model] = chosen.order
        return chosen


POLICIES: Mapping[str, Callable[[], Policy]] = {"random": RandomPolicy, "round_robin": RoundRobinPolicy}
