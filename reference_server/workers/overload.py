"""When a worker has too much to do: its load as it reports it, and the thresholds. A plain object; no clock, no I/O.

A worker is over when its waiting requests, summed over its data-parallel ranks, or its use of the KV cache, the mean of
its ranks, have reached a threshold. What a worker has not reported, or has reported too long ago, counts nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reference_server.settings import OverloadSettings

_STALE_AFTER_INTERVALS, _AND_S = 2, 5.0  # a poll may fail and the next one be slow before a report says nothing more


@dataclass(frozen=True, slots=True)
class RankLoad:
    """One data-parallel rank: requests, tokens, and shares from 0 to 1, in the engine's own words."""

    dp_rank: int = 0
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_waiting_uncached_tokens: int = 0
    num_total_reqs: int = 0
    num_used_tokens: int = 0
    max_total_num_tokens: int = 0
    token_usage: float = 0.0
    gen_throughput: float = 0.0
    cache_hit_rate: float = 0.0
    utilization: float = 0.0
    max_running_requests: int = 0


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a worker has reported, and when (seconds of the clock that its reader uses). There is at least one rank."""

    ranks: tuple[RankLoad, ...]
    at: float

    @property
    def waiting(self) -> int:
        """Waiting requests of all ranks."""
        return sum(rank.num_waiting_reqs for rank in self.ranks)

    @property
    def usage(self) -> float:
        """The mean use of the KV cache."""
        return math.fsum(rank.token_usage for rank in self.ranks) / len(self.ranks)


class OverloadGuard:
    """The thresholds of one gateway."""

    def __init__(self, settings: OverloadSettings) -> None:
        self._settings = settings
        self._stale_after_s = settings.interval_s * _STALE_AFTER_INTERVALS + _AND_S

    @property
    def retry_after_s(self) -> int:
        """Whole seconds after which loads will have been asked for again."""
        return max(1, math.ceil(self._settings.interval_s))

    def over(self, report: LoadReport | None, now: float) -> bool:
        """Whether a worker with this last report is to be left alone."""
        settings = self._settings
        if not settings.enabled or report is None or now - report.at > self._stale_after_s:
            return False
        return report.waiting >= settings.waiting_requests or report.usage >= settings.token_usage
