"""Vices of the plain limit: too many, too few, the wrong ones, and a rate that is none."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from reference_server.admission import refusals
from reference_server.admission.tickets import Place, Verdict
from reference_server.errors import RequestRefusal
from tests.mutants.vice import Vice, add, both, swap
from tests.mutants.vices.sheds import ask_a_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.call import Call
    from reference_server.settings import Settings

LIMITER = "reference_server.admission.limiter:Limiter"
RATE = "reference_server.admission.rate:RequestRate"
SERVE = "reference_server.pipeline:serve"
ADMIT = "reference_server.pipeline:admit"
FULL = "rate_limiting.admission_queue_full"
TIMEOUT = "rate_limiting.admission_queue_timeout"


def limits(**changes: Callable[[Any], Any]) -> Vice:
    """Other settings of admission: each named one as its edit makes of it."""

    def change(settings: Settings) -> Settings:
        edited = {name: edit(getattr(settings.admission, name)) for name, edit in changes.items()}
        return dataclasses.replace(settings, admission=dataclasses.replace(settings.admission, **edited))

    return Vice(settings=change)


# -- how many

add(
    "runs_one_too_few",
    "One slot less than configured.",
    ("admission.limit.reached",),
    limits(max_concurrent_requests=lambda n: n - 1),
)
add(
    "runs_one_too_many",
    "One slot more than configured.",
    ("admission.limit.respected", f"{FULL}.when_*"),
    limits(max_concurrent_requests=lambda n: n + 1),
)
add(
    "admits_everyone",
    "The limit is not looked at.",
    ("admission.limit.respected", f"{FULL}.when_*", "admission.every_route"),
    limits(max_concurrent_requests=lambda _n: 0),
)
add(
    "queues_one_too_many",
    "One queue place more than configured.",
    (f"{FULL}.when_*",),
    limits(queue_size=lambda n: n + 1),
)
add(
    "queues_one_too_few",
    "One queue place less than configured.",
    (f"{FULL}.when_full", "admission.queue.waits"),
    limits(queue_size=lambda n: max(0, n - 1)),
)
add(
    "never_queues",
    "The queue is not built.",
    ("admission.queue.waits", f"{FULL}.when_full"),
    limits(queue_size=lambda _n: 0),
)
add(
    "waits_half_the_time",
    "The queue timeout is half of what is configured.",
    (f"{TIMEOUT}.after",),
    limits(queue_timeout_s=lambda s: s / 2),
)
add(
    "waits_three_times",
    "The queue timeout is three times what is configured.",
    (f"{TIMEOUT}.after",),
    limits(queue_timeout_s=lambda s: 3 * s),
)


def _dispatched(original: Any, self: Any, now: float) -> None:
    """Nobody who waits is let in."""
    kept, self._is_open = self._is_open, lambda: False
    try:
        original(self, now)
    finally:
        self._is_open = kept


add(
    "forgets_the_queue",
    "Who waits stays waiting, whatever is free.",
    ("admission.queue.waits", "admission.slot.returned"),
    swap(f"{LIMITER}.advance", _dispatched),
)
add(
    "serves_the_last_first",
    "The one that came last is served first.",
    ("admission.queue.fifo",),
    swap(f"{LIMITER}._first", lambda _original, self: next(reversed(self._waiting))),
)


def _ghosts(original: Any, self: Any, now: float) -> Any:
    """The places of those who timed out stay taken."""
    self.__dict__.setdefault("ghosts", 0)
    kept = self._queue_size
    self._queue_size = max(0, kept - self.ghosts)
    try:
        return original(self, now)
    finally:
        self._queue_size = kept


def _counted(original: Any, self: Any) -> Any:
    """Count those who timed out."""
    verdicts = original(self)
    self.__dict__["ghosts"] = self.__dict__.get("ghosts", 0) + sum(verdict is Verdict.LATE for _, verdict in verdicts)
    return verdicts


add("keeps_places_of_the_late", "Who waited too long keeps the queue place.", ("admission.queue.place_freed_by_timeout",),
    both(swap(f"{LIMITER}.arrive", _ghosts), swap(f"{LIMITER}.take", _counted)))  # fmt: skip
add("keeps_places_of_leavers", "Who leaves the queue keeps the place.", ("admission.queue.released_on_disconnect",),
    swap(f"{LIMITER}.leave", lambda original, self, ticket, now: None if ticket.place is Place.WAITING else original(self, ticket, now)))  # fmt: skip


async def _asked_for_leavers(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
    """Serve; when the client leaves before there is a place, ask a worker all the same."""
    try:
        return await original(this, endpoint, state)
    except asyncio.CancelledError:
        if this.permit is None:
            late = asyncio.ensure_future(ask_a_worker(this, endpoint, state))
            _LATE.add(late)
            late.add_done_callback(_LATE.discard)
        raise


_LATE: set[asyncio.Future[None]] = set()
add(
    "dispatches_leavers",
    "A request whose client left while it waited reaches a worker.",
    ("admission.queue.disconnect_not_dispatched",),
    swap(SERVE, _asked_for_leavers),
)


# -- what needs a slot, and when


def _is_full(state: Any) -> bool:
    """Whether every slot of the plain limit is taken."""
    core = getattr(state.admission, "_core", None)
    return core is not None and core.inside >= getattr(core, "_limit", math.inf)


def _refuse_if_full(state: Any) -> None:
    if _is_full(state):
        raise refusals.refusal(refusals.LIMITER, Verdict.DISABLED)


def asks_for_a_slot(group: str, paths: tuple[str, ...]) -> Vice:
    """Routes of a group that are not served while every slot is taken."""

    def enter(original: Any, this: Call, state: Any, kind: Any) -> Any:
        """Look at the slots first."""
        if kind.value == group and this.path.startswith(paths):
            _refuse_if_full(state)
        return original(this, state, kind)

    return Vice(
        {
            f"{module}:enter": enter
            for module in ("reference_server.routes.public", "reference_server.routes.workers_api")
        }
    )


add(
    "models_need_a_slot",
    "The list of models is not shown while every slot is taken.",
    ("admission.public_needs_no_slot",),
    asks_for_a_slot("public", ("/v1/models",)),
)
add(
    "health_needs_a_slot",
    "Health routes are not answered while every slot is taken.",
    ("admission.health_needs_no_slot",),
    asks_for_a_slot("public", ("/health", "/readiness")),
)
add(
    "admin_needs_a_slot",
    "Admin routes are not answered while every slot is taken.",
    ("admission.admin_needs_no_slot",),
    asks_for_a_slot("admin", ("/workers",)),
)


async def _open_door(original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Embeddings and completions need no slot."""
    if this.path == "/v1/chat/completions":
        await original(this, caller, admission)


add(
    "only_chat_needs_a_slot",
    "Completions and embeddings need no slot.",
    ("admission.every_route",),
    swap(ADMIT, _open_door),
)


def before(step: Callable[[Call, Any, Any], Any]) -> Vice:
    """Something that happens before credentials and admission: `step(call, endpoint, state)` may refuse."""

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
        """The step first."""
        await step(this, endpoint, state)
        return await original(this, endpoint, state)

    return swap(SERVE, serve)


async def _parses(this: Call, endpoint: Any, _state: Any) -> None:
    from reference_server import pipeline  # noqa: PLC0415 - its functions are replaced by vices, so it comes late

    request = await pipeline.parse(this, endpoint)
    pipeline.validate(request, pipeline.choose_profile(request.model))


async def _knows(this: Call, endpoint: Any, state: Any) -> None:
    from reference_server import pipeline  # noqa: PLC0415 - as above

    try:
        request = await pipeline.parse(this, endpoint)
    except RequestRefusal:
        return
    state.workers.require(state.settings.canonical_model(request.model))


async def _has_room(_this: Call, _endpoint: Any, state: Any) -> None:
    _refuse_if_full(state)


add(
    "parses_before_it_admits",
    "The body is judged before there is a slot.",
    ("admission.before_parse",),
    before(_parses),
)
add(
    "looks_for_models_before_it_admits",
    "The model is looked for before there is a slot.",
    ("admission.before_model",),
    before(_knows),
)
add(
    "admits_before_it_asks_who",
    "Slots are looked at before credentials and size.",
    ("admission.after_credentials", "admission.after_size"),
    before(_has_room),
)


# -- requests a second

add(
    "rates_nobody",
    "The rate is not looked at.",
    ("admission.request_rate.refused", "admission.request_rate.bounded"),
    limits(requests_per_s=lambda _rate: None),
)
add(
    "rates_tenfold",
    "Ten times as many requests a second as configured.",
    ("admission.request_rate.bounded",),
    limits(requests_per_s=lambda rate: rate and 10 * rate),
)
add(
    "never_refills",
    "The rate's bucket does not fill again.",
    ("admission.request_rate.bounded", "admission.request_rate.burst"),
    swap(f"{RATE}._fill", lambda _original, self, now: setattr(self, "_filled_at", now)),
)
add("has_no_burst", "The rate's bucket holds one.", ("admission.request_rate.burst",),
    swap(f"{RATE}.ready", lambda original, self, now: (setattr(self, "_burst", 1.0), setattr(self, "_tokens", min(1.0, self._tokens)), original(self, now))[-1]))  # fmt: skip
