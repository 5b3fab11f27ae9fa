"""Vices that show over HTTP/2 only: slots, refusals, credentials, streams, and clients that take a request back."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
import itertools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from reference_server.admission.tickets import Place
from tests.mutants.hooks import FROM_SCOPE, refusing, streaming, to_client
from tests.mutants.vice import Vice, add, swap
from tests.mutants.vices.admission import ADMIT, LIMITER, SERVE
from tests.mutants.vices.auth import IDENTIFY
from tests.mutants.vices.budgets import charged_to
from tests.mutants.vices.keepalive import WITH_PINGS
from tests.mutants.vices.scheduler import SCHEDULER
from tests.mutants.vices.sheds import told
from tests.mutants.vices.slots import loses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reference_server.answers import Answer
    from reference_server.call import Call

OVER_HTTP2: ContextVar[bool] = ContextVar("over_http2", default=False)
SLOT, SCHEDULED, TELLS = "admission.http2", "admission.scheduler.http2", "rate_limiting"


def _looked_at(original: Any, scope: Any, *rest: Any) -> Call:
    """Note what the request came in; every task of it inherits that."""
    OVER_HTTP2.set(scope["http_version"].startswith("2"))
    call: Call = original(scope, *rest)
    return call


def _gated(replacement: Any) -> Any:
    return lambda original, *arguments, **named: (
        replacement(original, *arguments, **named) if OVER_HTTP2.get() else original(*arguments, **named)
    )


def over_http2(*vices: Vice) -> Vice:
    """These vices, for requests in HTTP/2."""
    swaps = {target: _gated(each) for vice in vices for target, each in vice.swaps.items()}
    return Vice({**swaps, FROM_SCOPE: _looked_at})


async def _open_door(_original: Any, *_arguments: Any) -> None:
    """No slot is needed."""


def _loses(original: Any, self: Any, ticket: Any, now: float) -> None:
    """The slot of whoever is inside is not given back."""
    if ticket.place is Place.INSIDE:
        victims = getattr(self, "_victims", None)
        if victims is not None:
            victims[ticket.level].pop(ticket, None)
        ticket.place = Place.GONE
        self.advance(now)
    else:
        original(self, ticket, now)


def _place_kept(original: Any, self: Any, ticket: Any, now: float) -> None:
    if ticket.place is not Place.WAITING:
        original(self, ticket, now)


async def _deaf(_original: Any, this: Call, receive: Any) -> None:
    """Take in the body; whether the client is there is not asked."""
    while True:
        message = await receive()
        if message["type"] == "http.request":
            this.body.feed(message.get("body", b""))
            if not message.get("more_body", False):
                this.body.finish()
        else:
            await asyncio.Event().wait()


async def _forgiving(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A break is an end."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    try:
        async for piece in pieces:
            yield piece
    except GatewayError:
        return


async def _at_once(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Everything when there is everything."""
    found = [piece async for piece in pieces]
    yield b"".join(found)


def _anyone(_original: Any, *_arguments: Any) -> Any:
    from reference_server.stages.identify import ANYONE  # noqa: PLC0415 - as above

    return ANYONE


def _bare(_refused: Any, answer: Answer) -> None:
    answer.headers = [pair for pair in answer.headers if pair[0] != "x-smg-error-code"]


def _empty(answer: Answer) -> None:
    answer.body = b""


ONCE = itertools.count()

add("http2_needs_no_slot", "Requests in HTTP/2 need no slot.", (f"{SLOT}.slot_returned", f"{SLOT}.beside_http1", f"{SCHEDULED}.slot_returned", f"{TELLS}.admission_queue_full.http2", f"{TELLS}.scheduler_queue_full.http2"),
    over_http2(swap(ADMIT, _open_door)))  # fmt: skip
add("http2_loses_slots", "The slots of requests in HTTP/2 are lost.", (f"{SLOT}.slot_returned", f"{SCHEDULED}.slot_returned", f"{SLOT}.slot_of_the_taken_back", f"{SCHEDULED}.slot_of_the_taken_back"),
    over_http2(swap(f"{LIMITER}.leave", _loses), swap(f"{SCHEDULER}.leave", _loses)))  # fmt: skip
add("http2_loses_slots_of_the_taken_back", "The slot of a request in HTTP/2 that is taken back is lost.", (f"{SLOT}.slot_of_the_taken_back", f"{SCHEDULED}.slot_of_the_taken_back"),
    over_http2(loses(left=True, ended="left")))  # fmt: skip
add("http2_keeps_places_of_the_taken_back", "The queue place of a request in HTTP/2 that is taken back stays taken.", (f"{SLOT}.place_of_the_taken_back",),
    over_http2(swap(f"{LIMITER}.leave", _place_kept)))  # fmt: skip
for _code in ("admission_queue_full", "scheduler_queue_full", "scheduler_preempted", "tenant_rate_limit_exceeded"):
    add(
        f"{_code}_loses_its_body_over_http2",
        f"Over HTTP/2 {_code} has no body.",
        (f"{TELLS}.{_code}.http2",),
        over_http2(told(_code, _empty)),
    )
add("http2_is_free", "Requests in HTTP/2 are charged to nobody.", (f"{TELLS}.tenant_rate_limit_exceeded.http2",),
    over_http2(charged_to(lambda _tenant, _request: f"auth:{next(ONCE)}")))  # fmt: skip
add(
    "http2_hears_no_reset",
    "Over HTTP/2 nobody notices that a request is taken back.",
    ("transport.http2.taken_back", f"{SLOT}.slot_of_the_taken_back", f"{SLOT}.place_of_the_taken_back"),
    over_http2(swap("reference_server.connection:_listen", _deaf)),
)
add(
    "http2_needs_no_key",
    "Requests in HTTP/2 need no key.",
    ("transport.http2.unauthorized",),
    over_http2(swap(IDENTIFY, _anyone)),
)
add(
    "http2_forgives_breaks",
    "Over HTTP/2 a stream that breaks off ends well.",
    ("transport.http2.broken_stream",),
    over_http2(streaming(_forgiving)),
)
add(
    "http2_collects_streams",
    "Over HTTP/2 a stream comes in one piece.",
    ("transport.http2.stream", "transport.http2.keepalive"),
    over_http2(streaming(_at_once)),
)
add(
    "http2_pings_nobody",
    "Over HTTP/2 a silent stream is left silent.",
    ("transport.http2.keepalive",),
    over_http2(swap(WITH_PINGS, lambda _original, body, _interval_s: body)),
)
add(
    "http2_names_no_worker",
    "Over HTTP/2 answers name no worker.",
    ("transport.http2.served",),
    over_http2(to_client(lambda headers, _sent: [pair for pair in headers if pair[0] != "x-smg-routed-worker-id"])),
)
add(
    "http2_hides_codes",
    "Over HTTP/2 refusals have no X-SMG-Error-Code.",
    ("transport.http2.refused", f"{TELLS}.admission_queue_full.http2"),
    over_http2(refusing(_bare)),
)


async def _unavailable(_original: Any, *_arguments: Any) -> Any:
    """Nothing is served."""
    from reference_server.errors import GatewayError  # noqa: PLC0415 - as above

    raise GatewayError(505, "http_version_not_supported", "HTTP/2 is not supported.")


add(
    "http2_is_refused",
    "A gateway that claims HTTP/2 serves nothing in it.",
    ("transport.http2.served", "transport.http2.refused", "transport.http2.stream"),
    over_http2(swap(SERVE, _unavailable)),
)
