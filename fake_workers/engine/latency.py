"""When an engine would produce each token: a pure core in virtual time.

Requests take a slot or wait in order; prompts are prefilled one after the other, cached tokens for nothing; each
further token takes a step whose length grows with the number of running requests. The core is told what happens and
when, and answers with times; it never sleeps and never reads a clock.

Figures of the profiles: public benchmarks of an 8B model on one H100-class GPU and of a 70B model on four.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

_BYTES_PER_BLOCK = 48  # 16 tokens of 3 bytes: the block size of both engines' caches
TOKENS_PER_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Profile:
    """Speed of an engine: seconds, and tokens per second (0 means infinitely fast)."""

    first_token_s: float = 0.0
    prefill_tokens_per_s: float = 0.0
    step_s: float = 0.0
    step_per_running_s: float = 0.0
    jitter: float = 0.0

    @property
    def instant(self) -> bool:
        """Whether nothing ever takes time."""
        return not (self.first_token_s or self.prefill_tokens_per_s or self.step_s or self.step_per_running_s)


PROFILES: dict[str, Profile] = {
    "none": Profile(),
    "8b": Profile(0.020, 8000.0, 0.006, 0.00035, 0.1),
    "70b": Profile(0.060, 8000.0 / 3, 0.016, 0.00035, 0.1),
}


@dataclass(slots=True)
class _Job:
    prompt_tokens: int
    uncached_tokens: int
    first_token_at: float | None = None  # known once it runs
    generated: int = 0


class EngineCore:
    """Slots, queue, prefill and decode speed of one engine. All times are seconds of the caller's clock."""

    def __init__(self, profile: Profile, *, slots: int = 0, max_queued: int | None = None, seed: int = 0) -> None:
        """``slots`` 0 and ``max_queued`` None mean no limit."""
        self._profile = profile
        self._slots = slots
        self._max_queued = max_queued
        self._seed = seed
        self._running: dict[int, _Job] = {}
        self._waiting: OrderedDict[int, _Job] = OrderedDict()
        self._prefill_free_at = 0.0

    @property
    def running(self) -> int:
        """Number of requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    @property
    def used_tokens(self) -> int:
        """Tokens in the KV cache: prompts and what was generated, of running requests."""
        return sum(job.prompt_tokens + job.generated for job in self._running.values())

    def submit(
        self, key: int, now: float, prompt_tokens: int, cached_tokens: int = 0
    ) -> Literal["running", "waiting", "refused"]:
        """Take a request: it runs, waits its turn, or is refused because the queue is full."""
        job = _Job(prompt_tokens, max(prompt_tokens - cached_tokens, 0))
        if not self._slots or len(self._running) < self._slots:
            self._start(key, job, now)
            return "running"
        if self._max_queued is not None and len(self._waiting) >= self._max_queued:
            return "refused"
        self._waiting[key] = job
        return "waiting"

    def _start(self, key: int, job: _Job, now: float) -> None:
        speed = self._profile.prefill_tokens_per_s
        prefill_s = job.uncached_tokens / speed if speed else 0.0
        self._prefill_free_at = max(now, self._prefill_free_at) + prefill_s
        job.first_token_at = self._prefill_free_at + self._profile.first_token_s * self._spread(key, 0)
        self._running[key] = job

    def first_token_at(self, key: int) -> float:
        """Return when a running request has its first token."""
        at = self._running[key].first_token_at
        if at is None:  # pragma: no cover - a running job has always been started
            raise LookupError(key)
        return at

    def next_token_at(self, key: int, now: float, tokens: int = 1) -> float:
        """Return when a running request has so many further tokens, with as many requests running as now."""
        job = self._running[key]
        job.generated += tokens
        step = self._profile.step_s + self._profile.step_per_running_s * len(self._running)
        return now + tokens * step * self._spread(key, job.generated)

    def leave(self, key: int, now: float) -> list[int]:
        """Note that a request is over or aborted; return the requests that start because of it."""
        self._waiting.pop(key, None)
        self._running.pop(key, None)
        started = []
        while self._waiting and (not self._slots or len(self._running) < self._slots):
            next_key, job = self._waiting.popitem(last=False)
            self._start(next_key, job, now)
            started.append(next_key)
        return started

    def _spread(self, key: int, step: int) -> float:
        """Return a factor around 1 that depends on seed, request and step only."""
        if not self._profile.jitter:
            return 1.0
        digest = hashlib.blake2b(f"{self._seed}/{key}/{step}".encode(), digest_size=4).digest()
        return 1.0 + self._profile.jitter * (int.from_bytes(digest, "big") / 0x7FFFFFFF - 1.0)


class PrefixCache:
    """Which blocks of prompts are still cached; the least recently used leave first."""

    def __init__(self, capacity_tokens: int) -> None:
        """Hold at most so many tokens, in blocks of 16."""
        self._capacity = capacity_tokens // TOKENS_PER_BLOCK
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self.queries = 0
        self.hits = 0

    def use(self, prompt: str) -> int:
        """Note a prompt; return how many of its tokens were cached (whole blocks from the start, never all of it)."""
        if not self._capacity:
            return 0
        data = prompt.encode("utf-8", "surrogatepass")
        chain = b""
        cached, missed = 0, False
        for at in range(0, len(data) - _BYTES_PER_BLOCK + 1, _BYTES_PER_BLOCK):
            chain = hashlib.blake2b(chain + data[at : at + _BYTES_PER_BLOCK], digest_size=16).digest()
            missed = missed or chain not in self._blocks
            cached += 0 if missed else 1
            self._blocks[chain] = None
            self._blocks.move_to_end(chain)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)
        total = -(-len(data) // 3)
        self.queries += total
        cached_tokens = min(cached * TOKENS_PER_BLOCK, max(total - 1, 0))
        self.hits += cached_tokens
        return cached_tokens

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
