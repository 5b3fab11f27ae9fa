"""Vices of retries: what is tried again, how often, after how long, and what is left of the earlier attempts."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import to_client
from tests.mutants.vice import Vice, add, both, swap

if TYPE_CHECKING:
    from collections.abc import Callable

DISPATCHER = "reference_server.workers.dispatch:Dispatcher"
IS_RETRIED = "reference_server.workers.dispatch:is_retried"
PAUSE = f"{DISPATCHER}._pause_s"
ATTEMPT = f"{DISPATCHER}._attempt"
CHAT = "/v1/chat/completions"


def _clauses(*words: str) -> tuple[str, ...]:
    return tuple(f"retries.{word}" for word in words)


def _retried(edit: Callable[[Callable[[], bool], int, bool], bool]) -> Vice:
    """Another opinion of which statuses are tried again: of the status, and of whether another worker is left."""
    return swap(IS_RETRIED, lambda original, status, *, another_worker: edit(lambda: original(status, another_worker=another_worker), status, another_worker))  # fmt: skip


def _final(when: Callable[[Any, Any], bool]) -> Vice:
    """What the first attempt brings stands, for requests and results that pass the test."""

    def pause(original: Any, self: Any, request: Any, schedule: Any, *rest: Any) -> Any:
        return None if when(request, rest[0]) else original(self, request, schedule, *rest)

    return swap(PAUSE, pause)


def _settings(**edits: Callable[[Any], Any]) -> Vice:
    """Other settings of retries than the configured ones, where there are retries."""

    def change(settings: Any) -> Any:
        found = {name: edit(getattr(settings.retry, name)) for name, edit in edits.items()}
        return dataclasses.replace(settings, retry=dataclasses.replace(settings.retry, **found))

    return Vice(settings=change)


for _status in (408, 429, 502, 503, 504):
    add(f"relays_the_first_{_status}", f"A {_status} is not tried again.", _clauses("passing_trouble"),
        _retried(lambda known, status, _another, mine=_status: status != mine and known()))  # type: ignore[misc]  # fmt: skip
add(
    "tries_refusals_again",
    "Every 4xx is tried again.",
    _clauses("not_for_refusals"),
    _retried(lambda known, status, _another: 400 <= status < 500 or known()),
)
add(
    "tries_conflicts_again",
    "A 409 and a 425 are tried again.",
    _clauses("not_for_refusals"),
    _retried(lambda known, status, _another: status in {409, 425} or known()),
)
add(
    "tries_every_failure_again",
    "Every 5xx but 500 is tried again.",
    _clauses("not_for_other_failures"),
    _retried(lambda known, status, _another: status > 500 or known()),
)
add(
    "tries_successes_again",
    "Successes are tried again.",
    _clauses("not_for_answers"),
    _retried(lambda known, status, _another: status in {200, 201} or known()),
)
add(
    "tries_internal_errors_again",
    "A 500 is tried again at the same worker.",
    _clauses("internal_error_same_worker"),
    _retried(lambda known, status, _another: status == 500 or known()),
)
add(
    "relays_internal_errors",
    "A 500 is not tried elsewhere.",
    _clauses("internal_error_other_worker"),
    _retried(lambda known, status, _another: status != 500 and known()),
)
add(
    "gives_up_on_broken_connections",
    "What the transport fails is not tried again.",
    _clauses("no_answer", "dead_worker"),
    _final(lambda _request, result: isinstance(result, Exception)),
)
add(
    "retries_chat_only",
    "Only chat completions are tried again.",
    _clauses("every_route"),
    _final(lambda request, _result: request.path != CHAT),
)
add(
    "never_retries_streams",
    "Streams are not tried again.",
    _clauses("streams"),
    _final(lambda request, _result: b'"stream":true' in request.body.replace(b" ", b"")),
)
add("sticks_to_the_worker", "The worker that failed is asked again.", _clauses("prefers_another_worker"),
    swap(f"{DISPATCHER}._choose", lambda original, self, request, serving, tried=(): next(iter(tried), None) or original(self, request, serving)))  # fmt: skip
add("forgets_who_failed", "The next worker in turn is asked, whoever failed.", _clauses("prefers_another_worker"),
    swap(f"{DISPATCHER}._choose", lambda original, self, request, serving, _tried=(): original(self, request, serving)), alone=True)  # fmt: skip
add(
    "retries_although_it_is_disabled",
    "Retries cannot be switched off.",
    _clauses("disabled"),
    _settings(max_attempts=lambda number: 5 if number == 1 else number),
)
add(
    "counts_retries_only",
    "The first attempt is not counted.",
    _clauses("attempts.total"),
    _settings(max_attempts=lambda number: number + 1 if number > 1 else number),
)
add(
    "tries_again_at_once",
    "There is no pause between attempts.",
    _clauses("backoff.first_pause"),
    _settings(initial_backoff_ms=lambda _ms: 1, max_backoff_ms=lambda _ms: 1),
)
add(
    "waits_the_same_each_time",
    "Pauses do not grow.",
    _clauses("backoff.grows"),
    _settings(backoff_multiplier=lambda _factor: 1.0),
)
add(
    "waits_without_bound",
    "Pauses grow without bound.",
    _clauses("backoff.bounded"),
    _settings(max_backoff_ms=lambda _ms: 60_000),
)

_FIRST: ContextVar[Any] = ContextVar("first", default=None)
"""What the first attempt of this request brought."""


def _later(edit: Callable[[Any], Any]) -> Vice:
    """The request of every attempt but the first, changed."""

    async def attempt(original: Any, self: Any, worker: Any, request: Any) -> Any:
        first = _FIRST.get() is None
        result = await original(self, worker, request if first else edit(request))
        if first:
            _FIRST.set(result)
        return result

    return swap(ATTEMPT, attempt)


def _without(headers: Any, name: str) -> Any:
    return [pair for pair in headers if pair[0].lower() != name]


add("drops_keys_of_later_attempts", "Later attempts lack the credential.", _clauses("attempts.same_request"),
    _later(lambda request: dataclasses.replace(request, headers=_without(request.headers, "authorization"))))  # fmt: skip
add("drops_ids_of_later_attempts", "Later attempts have another request id.", _clauses("attempts.same_request"),
    _later(lambda request: dataclasses.replace(request, headers=[*_without(request.headers, "x-request-id"), ("x-request-id", "another")])))  # fmt: skip
add("cools_later_attempts", "Later attempts have another temperature.", _clauses("attempts.same_request"),
    _later(lambda request: dataclasses.replace(request, body=request.body.replace(b"0.5", b"0.4"))))  # fmt: skip


async def _beside(original: Any, self: Any, worker: Any, request: Any) -> Any:
    """Who has not answered after 0.2 s gets company."""
    first = asyncio.ensure_future(original(self, worker, request))
    await asyncio.wait({first}, timeout=0.2)
    if first.done():
        return first.result()
    beside = asyncio.ensure_future(original(self, worker, request))
    try:
        return await first
    finally:
        for each in (first, beside):
            each.cancel()
        await asyncio.gather(first, beside, return_exceptions=True)


add(
    "tries_two_at_a_time",
    "A slow attempt gets another one beside it.",
    _clauses("attempts.one_at_a_time"),
    swap(ATTEMPT, _beside),
)


def _kept(edit: Callable[[Any, Any], None]) -> Vice:
    """The result that stands, changed by what the first attempt brought."""

    def conclude(original: Any, self: Any, worker: Any, result: Any) -> Any:
        found = original(self, worker, result)
        if _FIRST.get() is not None and _FIRST.get() is not found:
            edit(found, _FIRST.get())
        return found

    return both(_later(lambda request: request), swap(f"{DISPATCHER}._conclude", conclude))


def _first_headers(found: Any, first: Any) -> None:
    found.headers = [
        *[p for p in found.headers if p[0] != "x-attempt"],
        *[p for p in first.headers if p[0] == "x-attempt"],
    ]


def _first_hint(found: Any, first: Any) -> None:
    if found.status == 200:
        found.headers += [pair for pair in first.headers if pair[0].lower() == "retry-after"]


add(
    "keeps_headers_of_the_first",
    "The last answer has the first one's headers.",
    _clauses("last.headers"),
    _kept(_first_headers),
)
add(
    "keeps_wait_hints",
    "A success has the wait hint of the failure before it.",
    _clauses("last.wait_hint"),
    _kept(_first_hint),
)
add(
    "drops_wait_hints",
    "A worker's Retry-After is dropped.",
    _clauses("last.wait_hint"),
    to_client(lambda headers, _: _without(headers, "retry-after")),
)


async def _shielded(original: Any, self: Any, request: Any) -> Any:
    """Attempts go on when the client has gone."""
    if self._settings.retry.max_attempts == 1:
        return await original(self, request)
    return await asyncio.shield(asyncio.ensure_future(original(self, request)))


add(
    "tries_for_nobody",
    "Attempts go on when the client has gone.",
    _clauses("client_gone"),
    swap(f"{DISPATCHER}.dispatch", _shielded),
)
