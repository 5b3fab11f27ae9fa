"""Vices of bounds: bodies over the configured size in both directions, and bodies that stand still."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import incoming, outgoing, refusing, wire
from tests.mutants.vice import Vice, add, both, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.answers import Answer
    from reference_server.call import Call

READ = "reference_server.workers.response:UpstreamResponse.read"
INBOUND = "reference_server.call:InboundBody"
SERVE = "reference_server.pipeline:serve"
TOO_LARGE, ANSWER_TOO_LARGE, STALLED = "request_body_too_large", "upstream_response_too_large", "request_body_stalled"
CHAT = "/v1/chat/completions"
NO_LIMIT_BYTES = 1 << 30


def _clauses(code: str, *words: str) -> tuple[str, ...]:
    return tuple(f"codes.{code}.{word}" if word else f"codes.{code}" for word in words)


def _refused(code: str, edit: Callable[[Answer], None]) -> Vice:
    """A change of the answers with one code."""
    return refusing(lambda refused, answer: edit(answer) if getattr(refused, "code", "") == code else None)  # type: ignore[func-returns-value]  # None keeps the answer


def _plain(answer: Answer) -> None:
    answer.headers, answer.body = [("content-type", "text/plain")], b"too much"


for _code, _word, _breaks in (
    (TOO_LARGE, "too_large_bodies", ("envelope", "code", "chunked_code")),
    (ANSWER_TOO_LARGE, "too_large_answers", ("envelope", "code", "every_route", "worker_errors")),
    (STALLED, "stalled_bodies", ("envelope", "", "chunked")),
):
    add(
        f"explains_{_word}_in_plain_text",
        f"What is said of {_word.replace('_', ' ')} is plain text.",
        _clauses(_code, *_breaks),
        _refused(_code, _plain),
    )
    add(f"keeps_the_code_of_{_word}", f"The header lacks the code of {_word.replace('_', ' ')}.", _clauses(_code, "envelope"),
        _refused(_code, lambda answer: setattr(answer, "headers", [p for p in answer.headers if p[0] != "x-smg-error-code"])))  # fmt: skip
add("gives_too_large_bodies_no_id", "A 413 has no request id.", _clauses(TOO_LARGE, "request_id"),
    wire(lambda _this, answer, headers: [p for p in headers if answer.status != 413 or p[0] != b"x-request-id"]))  # fmt: skip


def _limit(limit_bytes: Callable[[Call], int | None]) -> Vice:
    """Another limit for some requests: neither the announced length nor the body is judged by the configured one."""

    def other(this: Call) -> None:
        if (found := limit_bytes(this)) is not None:
            this.body._limit_bytes = found

    return both(incoming(other), swap("reference_server.pipeline:refuse_announced_excess",
        lambda original, this, settings: None if limit_bytes(this) is not None else original(this, settings)))  # fmt: skip


def _is_chunked(this: Call) -> bool:
    return this.header("transfer-encoding") is not None


add(
    "bounds_no_admin_bodies",
    "Bodies for admin routes may have any size.",
    _clauses(TOO_LARGE, "admin"),
    _limit(lambda this: NO_LIMIT_BYTES if this.path == "/workers" else None),
)
add(
    "counts_the_framing",
    "The framing of chunks counts as body.",
    _clauses(TOO_LARGE, "chunked_at_limit"),
    _limit(lambda this: 19_950 if _is_chunked(this) else None),
)
add(
    "bounds_no_chunks",
    "Bodies in chunks may have any size.",
    _clauses(TOO_LARGE, "chunked", "chunked_code"),
    _limit(lambda this: NO_LIMIT_BYTES if _is_chunked(this) else None),
)


async def _read_first(original: Any, this: Call, endpoint: Any) -> Any:
    """A body is read before its size is judged."""
    from reference_server.call import too_large  # noqa: PLC0415 - the list of mutants needs no server

    found = await original(this, endpoint)
    if len(await this.body.read()) > 20_000:
        raise too_large(20_000)
    return found


async def _unreadable(original: Any, this: Call, endpoint: Any) -> Any:
    """What is too large in chunks is told as what cannot be parsed."""
    from reference_server.errors import GatewayError, ParseRefusal  # noqa: PLC0415 - as above

    try:
        return await original(this, endpoint)
    except GatewayError as refused:
        if refused.status == 413 and _is_chunked(this):
            raise ParseRefusal("length limit exceeded") from None
        raise


add("reads_what_is_too_large", "A body is judged before its size.", _clauses(TOO_LARGE, "any_body"),
    both(_limit(lambda this: 200_000 if this.path == CHAT else None), swap("reference_server.pipeline:parse", _read_first)))  # fmt: skip
add(
    "cannot_parse_long_chunks",
    "What is too large in chunks cannot be parsed.",
    _clauses(TOO_LARGE, "chunked_code"),
    swap("reference_server.pipeline:parse", _unreadable),
)


async def _reads_errors(original: Any, self: Any, limit_bytes: int) -> bytes:
    """Errors may have any size."""
    found: bytes = await original(self, NO_LIMIT_BYTES if self.status >= 400 else limit_bytes)
    return found


async def _hears_out(original: Any, self: Any, limit_bytes: int) -> bytes:
    """What is too large is heard to its end, and then refused."""
    from reference_server.workers.exchange import UpstreamTooLargeError  # noqa: PLC0415 - as above

    found: bytes = await original(self, NO_LIMIT_BYTES)
    if len(found) > limit_bytes:
        raise UpstreamTooLargeError(limit_bytes, self.worker_url)
    return found


def _unbounded_route(upstream: Any, _this: Call, request: Any) -> Any:
    return upstream if request.endpoint.path == CHAT else dataclasses.replace(upstream, read_limit_bytes=NO_LIMIT_BYTES)


add(
    "relays_large_errors",
    "Workers' errors may have any size.",
    _clauses(ANSWER_TOO_LARGE, "worker_errors"),
    swap(READ, _reads_errors),
)
add(
    "hears_workers_out",
    "A worker that sends too much is heard out.",
    _clauses(ANSWER_TOO_LARGE, "at_once"),
    swap(READ, _hears_out),
)
add(
    "bounds_answers_to_chat_only",
    "Answers of other routes may have any size.",
    _clauses(ANSWER_TOO_LARGE, "every_route"),
    outgoing(_unbounded_route),
)


def _stall(edit: Callable[[float], float]) -> Vice:
    """Another patience than the configured one."""
    return Vice(settings=lambda s: dataclasses.replace(s, body_stall_timeout_s=edit(s.body_stall_timeout_s)))


def _feeds(original: Any, self: Any, data: bytes) -> None:
    """The time is that of the whole body."""
    began_at = self._fed_at
    original(self, data)
    self._fed_at = began_at


def _patient_with_chunks(this: Call) -> None:
    this.body._stall_timeout_s = 0.0 if _is_chunked(this) else this.body._stall_timeout_s


async def _serves_what_came(original: Any, this: Call, endpoint: Any, state: Any) -> Answer:
    """What came of a stalled body is mended and handed on, and then refused."""
    from reference_server.call import InboundBody  # noqa: PLC0415 - as above
    from reference_server.errors import GatewayError  # noqa: PLC0415 - as above

    try:
        found: Answer = await original(this, endpoint, state)
    except GatewayError as refused:
        if refused.code != STALLED:
            raise
        mended, this.body = this.body._chunks, InboundBody(NO_LIMIT_BYTES)
        this.body.feed(b"".join(mended) + b"}")
        this.body.finish()
        this.permit = None
        await original(this, endpoint, state)
        raise
    return found


_ONE_AT_A_TIME: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}


async def _one_body_at_a_time(original: Any, this: Call, endpoint: Any, state: Any) -> Answer:
    """Nobody is served while a body is awaited."""
    async with _ONE_AT_A_TIME.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        found: Answer = await original(this, endpoint, state)
        return found


add("waits_for_stalled_bodies", "A body may stand still for ever.", _clauses(STALLED, ""), _stall(lambda _s: 0.0))
add(
    "loses_patience_with_bodies",
    "A body may stand still for 0.3 s.",
    _clauses(STALLED, "not_before", "slow_is_not_stalled"),
    _stall(lambda s: 0.3 if s == 1 else s),
)
add(
    "bounds_uploads_as_wholes",
    "A body has a second in all.",
    _clauses(STALLED, "slow_is_not_stalled"),
    swap(f"{INBOUND}.feed", _feeds),
)
add(
    "waits_for_stalled_chunks",
    "A body in chunks may stand still for ever.",
    _clauses(STALLED, "chunked"),
    incoming(_patient_with_chunks),
)
add(
    "serves_what_came",
    "What came of a stalled body is handed on.",
    _clauses(STALLED, "never_whole"),
    swap(SERVE, _serves_what_came),
)
add(
    "serves_one_body_at_a_time",
    "Nobody is served while a body is awaited.",
    _clauses(STALLED, "others_served"),
    swap(SERVE, _one_body_at_a_time),
)
add("reads_on_behind_stalled_bodies", "The connection of a stalled body is kept.", _clauses(STALLED, "closes"),
    _refused(STALLED, lambda answer: setattr(answer, "headers", [p for p in answer.headers if p[0] != "connection"])))  # fmt: skip
