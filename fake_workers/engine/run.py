"""The engine of one worker on the real clock: a thin shell around the latency core, and the counters for metrics."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from fake_workers.engine.latency import PROFILES, EngineCore, PrefixCache

if TYPE_CHECKING:
    from fake_workers.engine.outcome import Call, Outcome
    from fake_workers.spec import WorkerSpec

_BLOCK_OF_STEPS = 8  # how many tokens an answer that does not stream waits for at a time
CAPACITY_IN_CONTEXTS = 16  # size of the KV cache: so many contexts of full length


class QueueFull(Exception):  # noqa: N818 - an answer of the engine, not an error of this program
    """The engine's queue is full."""


class Ticket:
    """One request in the engine."""

    __slots__ = ("key", "started", "step")

    def __init__(self, key: int) -> None:
        """Start at step 0; ``started`` is set by the engine."""
        self.key = key
        self.step = 0
        self.started: asyncio.Event | None = None


class Engine:
    """Admits requests, tells each when its next token is due, and counts."""

    def __init__(self, spec: WorkerSpec) -> None:
        """Build the engine a spec describes."""
        profile = PROFILES[spec.latency]
        self._spec = spec
        self._core = EngineCore(profile, slots=spec.slots, max_queued=spec.max_queued, seed=spec.seed)
        self._instant = profile.instant
        self._tickets: dict[int, Ticket] = {}
        self._keys = 0
        self.cache = PrefixCache(spec.prefix_cache_tokens)
        self.prompt_tokens_total = 0
        self.generation_tokens_total = 0
        self.requests_total = 0
        self.aborted_total = 0
        self.rejected_total = 0
        self.override: dict[str, float] = {}

    @property
    def simple(self) -> bool:
        """Whether requests pass straight through: nothing takes time and nothing is limited."""
        return self._instant and not self._spec.slots

    @property
    def running(self) -> int:
        """Requests that hold a slot (or what a test says)."""
        return int(self.override.get("running", self._core.running))

    @property
    def waiting(self) -> int:
        """Requests in the queue (or what a test says)."""
        return int(self.override.get("waiting", self._core.waiting))

    @property
    def kv_usage(self) -> float:
        """Used part of the KV cache, 0 to 1 (or what a test says)."""
        capacity = self._spec.max_model_len * CAPACITY_IN_CONTEXTS
        return float(self.override.get("usage", min(self._core.used_tokens / capacity, 1.0)))

    @property
    def cache_hit_rate(self) -> float:
        """Cached part of all prompt tokens so far."""
        return self.cache.hits / self.cache.queries if self.cache.queries else 0.0

    def account(self, call: Call, outcome: Outcome) -> int:
        """Count a request, use the prefix cache; return the cached tokens."""
        self.requests_total += 1
        self.prompt_tokens_total += outcome.prompt_tokens
        self.generation_tokens_total += outcome.completion_tokens
        return sum(self.cache.use(prompt) for prompt in call.prompts)

    def submit(self, prompt_tokens: int, cached_tokens: int) -> Ticket:
        """Take a request; raises :class:`QueueFull`."""
        self._keys += 1
        ticket = Ticket(self._keys)
        state = self._core.submit(ticket.key, monotonic(), prompt_tokens, cached_tokens)
        if state == "refused":
            self.rejected_total += 1
            raise QueueFull
        ticket.started = asyncio.Event()
        if state == "running":
            ticket.started.set()
        self._tickets[ticket.key] = ticket
        return ticket

    async def admitted(self, ticket: Ticket) -> None:
        """Wait for a slot."""
        if ticket.started is not None:
            await ticket.started.wait()

    async def until_step(self, ticket: Ticket, step: int) -> None:
        """Wait until generation has come to a step (1 is the first token)."""
        while ticket.step < step:
            now = monotonic()
            if ticket.step == 0:
                due = self._core.first_token_at(ticket.key)
                ticket.step = 1
            else:
                due = self._core.next_token_at(ticket.key, now)
                ticket.step += 1
            if due > now:
                await asyncio.sleep(due - now)

    async def until_done(self, ticket: Ticket, steps: int) -> None:
        """Wait for a whole answer, a few steps at a time."""
        await self.until_step(ticket, 1)
        while ticket.step < steps:
            block = min(_BLOCK_OF_STEPS, steps - ticket.step)
            now = monotonic()
            due = self._core.next_token_at(ticket.key, now, block)
            ticket.step += block
            if due > now:
                await asyncio.sleep(due - now)

    def leave(self, ticket: Ticket) -> None:
        """Note that a request is over; whoever comes next starts."""
        if self._tickets.pop(ticket.key, None) is None:
            return
        for key in self._core.leave(ticket.key, monotonic()):
            started = self._tickets[key].started
            if started is not None:
                started.set()

    def abort(self, ticket: Ticket) -> None:
        """Note that a client left; the engine notices after the configured delay."""
        if ticket.key not in self._tickets:
            return
        self.aborted_total += 1
        if self._spec.abort_delay_s:
            asyncio.get_running_loop().call_later(self._spec.abort_delay_s, self.leave, ticket)
        else:
            self.leave(ticket)
