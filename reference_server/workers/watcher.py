"""Who is told what happens to workers; the metrics are (`reference_server.metrics.workers`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.workers.breaker import BreakerState, Outcome


class Watcher:
    """Told each thing once, when it happens; this one keeps nothing, others override what they want to know.

    Workers are named by their URL, requests by their path on the worker.
    """

    def sent(self, worker_url: str, model: str) -> None:
        """A request is being sent to a worker, for the first time or again."""

    def repeated(self, path: str, number: int, pause_s: float) -> None:
        """A client's request is sent again after a pause, for the `number`-th time (from 1)."""

    def exhausted(self, path: str) -> None:
        """A client's request would be repeated, and no attempt is left."""

    def ended(self, worker_url: str, outcome: Outcome) -> None:
        """The outcome of a client's request on one worker, as its breaker was told. A stream may have a second one."""

    def moved(self, worker_url: str, before: BreakerState, after: BreakerState) -> None:
        """A breaker went from one state to another."""

    def probed(self, *, ok: bool) -> None:
        """A registered worker's health was asked for."""

    def shed(self, stage: str) -> None:
        """A client's request was refused for overload, at `selection` or at `dispatch`."""
