"""Gateways that are wrong under pressure only: `python -m tests.loadtests.mutants NAME launch …flags`.

They are mutants as in `tests/mutants` (docs/mutation.md), but no check of the suite can notice them, so they have a
list of their own. Mutants of that other list are served here, too.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any

from tests.loadtests.crowded import CROWDED
from tests.mutants import named, serve
from tests.mutants.hooks import events, refusing
from tests.mutants.vice import Mutant, Vice, swap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIMITER = "reference_server.admission.limiter:Limiter"
SCHEDULER = "reference_server.admission.scheduler:Scheduler"
SEND = "reference_server.connection:_send"
LISTEN = "reference_server.connection:_listen"
BOUNDARY = "reference_server.keepalive.core:EventBoundary.reached"
SHEDS = {429, 503}
MARKER_OF_NOBODY = b"igc-" + b"0" * 16


async def _keeps(original: Any, this: Any, receive: Any) -> None:
    """Wait until the client has left; its permit is never given back then."""
    await original(this, receive)
    if this.permit is not None:
        this.permit._release = lambda: None


async def _cuts(original: Any, this: Any, *rest: Any) -> None:
    """Send until the answer is out, or somebody of a higher class wants the slot."""
    sending = asyncio.ensure_future(original(this, *rest))
    preempted = asyncio.ensure_future(this.preempted.wait())
    try:
        await asyncio.wait({sending, preempted}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        preempted.cancel()
        if not sending.done():
            sending.cancel()
        await asyncio.gather(sending, preempted, return_exceptions=True)


def _last_first(original: Any, limiter: Any, now: float) -> None:
    """Let in whoever came last, then see to those who have waited too long."""
    limiter._now = now
    while limiter._waiting and limiter._is_open():
        last = next(reversed(limiter._waiting))
        del limiter._waiting[last]
        limiter._admit(last)
    original(limiter, now)


_LENT = [MARKER_OF_NOBODY]


def _lent(event: bytes) -> bytes:
    """The event with the marker of the one before in its text."""
    if (found := re.search(rb"igc-[0-9a-f]{16}", event)) is None:
        return event
    _LENT.append(found.group())
    return event.replace(found.group(), _LENT.pop(0))


def _without(name: str, when: Callable[[int], bool]) -> Vice:
    """Refusals lose a header."""

    def edit(_refused: Any, answer: Any) -> None:
        if when(answer.status):
            answer.headers = [each for each in answer.headers if each[0].lower() != name]

    return refusing(edit)


MUTANTS: Mapping[str, Mutant] = {
    each.name: each
    for each in (
        Mutant(
            "keeps_the_slot_of_who_leaves",
            "The slot of a client that leaves is never free again.",
            ("admission.slot.released_on_disconnect",),
            swap(LISTEN, _keeps),
        ),
        Mutant(
            "preempts_what_has_begun",
            "Requests are preempted also after their first byte.",
            ("rate_limiting.scheduler_preempted.before_first_token",),
            Vice({f"{SCHEDULER}.first_byte": lambda _original, _scheduler, _ticket: True, SEND: _cuts}),
        ),
        Mutant(
            "starves_bulk",
            "Nobody is promoted, however long the wait.",
            ("admission.scheduler.starvation_bounded",),
            swap(f"{SCHEDULER}._longest_starving", lambda _original, _scheduler: None),
        ),
        Mutant(
            "pings_inside_events",
            "A ping comes after a silence, wherever the stream stands.",
            ("chat.stream.keepalive.between_events",),
            swap(BOUNDARY, lambda _original, _boundary: True),
        ),
        Mutant(
            "sheds_without_retry_after",
            "Sheds carry no Retry-After.",
            ("rate_limiting.admission_queue_full.retry_after",),
            _without("retry-after", SHEDS.__contains__),
        ),
        Mutant(
            "serves_the_last_first",
            "The queue is a stack.",
            ("admission.queue.fifo",),
            swap(f"{LIMITER}.advance", _last_first),
        ),
        Mutant(
            "lends_texts",
            "A stream gets the text of the one before it.",
            ("chat.stream.relay.own_events",),
            events(_lent),
        ),
        *CROWDED,
    )
}


if __name__ == "__main__":
    sys.exit(serve.main(sys.argv[1:], {**named.mutants(), **MUTANTS}))
