"""Admission: slots that do not come back, come back early, or come back twice."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from reference_server.admission.tickets import Place
from reference_server.errors import GatewayError, Refused
from tests.mutants.vice import Vice, add, both, swap
from tests.mutants.vices.admission import ADMIT, LIMITER, SERVE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from reference_server.call import Call

# -- slots that do not come back, come back early, or twice


class _Losable:
    """A permit that remembers that it is to be lost."""

    def __init__(self, permit: Any) -> None:
        self._permit = permit
        self.lost = False

    @property
    def may_be_preempted(self) -> bool:
        """As of the real one."""
        return bool(self._permit.may_be_preempted)

    def first_byte(self) -> bool:
        """As of the real one."""
        return bool(self._permit.first_byte())

    def release(self) -> None:
        """Give back, unless this one is to be lost."""
        if not self.lost:
            self._permit.release()


async def _losable(_original: Any, this: Call, caller: Any, admission: Any) -> None:
    """Admit with a permit that can be lost."""
    permit = _Losable(await admission.acquire(this, caller))
    this.permit = permit
    this.undo.callback(permit.release)


def loses(
    refused: Callable[[Refused], bool] = bool,
    left: bool = False,
    answered: Callable[[Any], bool] = bool,
    ended: str = "",
) -> Vice:
    """A slot is lost when the request ends in one way.

    Args:
        refused: the gateway refuses it, and this says yes.
        left: the client leaves before there is an answer.
        answered: it is answered in one piece, and this says yes.
        ended: its stream ends like this: `whole`, `broken`, `left`.
    """

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
        """Serve, and see how it ends."""
        try:
            answer = await original(this, endpoint, state)
        except Refused as problem:
            _lose(this, refused is not bool and refused(problem))
            raise
        except asyncio.CancelledError:
            _lose(this, left)
            raise
        if isinstance(answer.body, bytes):
            _lose(this, answered is not bool and answered(answer))
        else:
            answer.body = _watched(this, answer.body, ended)
        return answer

    return both(swap(SERVE, serve), swap(ADMIT, _losable))


def _lose(this: Call, when: bool) -> None:
    if when and isinstance(this.permit, _Losable):
        this.permit.lost = True


async def _watched(this: Call, body: AsyncIterator[bytes], ended: str) -> AsyncIterator[bytes]:
    """The pieces of a stream, and how they end."""
    try:
        async for piece in body:
            yield piece
    except GatewayError:
        _lose(this, ended == "broken")
        raise
    except (asyncio.CancelledError, GeneratorExit):
        _lose(this, ended == "left")
        raise
    _lose(this, ended == "whole")


def _slots(*names: str) -> tuple[str, ...]:
    return tuple(f"{door}.{name}" for door in ("admission.slot", "admission.scheduler.slot") for name in names)


def _code(*wanted: str) -> Callable[[Refused], bool]:
    return lambda refused: getattr(refused, "code", "") in wanted


add(
    "loses_slots_of_answers",
    "The slot of an answered request is lost.",
    _slots("returned"),
    loses(answered=lambda answer: answer.status == 200),
)
add(
    "loses_slots_of_streams",
    "The slot of a stream that ended well is lost.",
    _slots("after_stream"),
    loses(ended="whole"),
)
add(
    "loses_slots_of_errors",
    "The slot of a request that the worker failed is lost.",
    _slots("after_worker_error"),
    loses(answered=lambda answer: answer.status == 500),
)
add(
    "loses_slots_of_refusals",
    "The slot of a request that the worker refused is lost.",
    _slots("after_worker_refusal"),
    loses(answered=lambda answer: answer.status == 422),
)
add(
    "loses_slots_of_the_dead",
    "The slot of a request whose worker died is lost.",
    _slots("after_worker_death"),
    loses(refused=lambda refused: refused.status == 500),
)
add(
    "loses_slots_of_broken_streams",
    "The slot of a stream that broke off is lost.",
    _slots("after_broken_stream"),
    loses(ended="broken"),
)
add(
    "loses_slots_of_leavers",
    "The slot of a client that leaves before the answer is lost.",
    _slots("released_on_disconnect"),
    loses(left=True),
)
add(
    "loses_slots_of_stream_leavers",
    "The slot of a client that leaves in mid-stream is lost.",
    _slots("released_on_disconnect"),
    loses(ended="left"),
)
add(
    "loses_slots_of_bad_requests",
    "The slot of a request with a wrong body is lost.",
    _slots("after_bad_request"),
    loses(refused=_code(400)),
)  # type: ignore[arg-type]  # the code of these is a number
add(
    "loses_slots_of_unknown_models",
    "The slot of a request for an unknown model is lost.",
    _slots("after_unknown_model"),
    loses(refused=_code("model_not_found")),
)


def frees_early(transform: Callable[[Call, AsyncIterator[bytes]], AsyncIterator[bytes]]) -> Vice:
    """The slot of a stream is given back before its end."""

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
        """Serve; watch the stream."""
        answer = await original(this, endpoint, state)
        if not isinstance(answer.body, bytes):
            answer.body = transform(this, answer.body)
        return answer

    return swap(SERVE, serve)


async def _at_done(this: Call, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give back at [DONE]."""
    async for piece in body:
        if b"[DONE]" in piece and this.permit is not None:
            this.permit.release()
        yield piece


async def _at_read(this: Call, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Read ahead of the client, and give back when everything is read."""
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def ahead() -> None:
        """Everything, as fast as it comes."""
        async for piece in body:
            pieces.put_nowait(piece)
        if this.permit is not None:
            this.permit.release()
        pieces.put_nowait(b"")

    reading = asyncio.ensure_future(ahead())
    try:
        while piece := await pieces.get():
            yield piece
        await reading
    finally:
        reading.cancel()


add(
    "frees_at_done",
    "The slot is given back at [DONE], though the stream is still open.",
    _slots("until_stream_ends"),
    frees_early(_at_done),
)
add(
    "frees_when_read",
    "The slot is given back when the worker is done, though the client still reads.",
    _slots("until_delivered"),
    frees_early(_at_read),
)


def _twice(original: Any, self: Any, ticket: Any, now: float) -> None:
    """A slot given back counts twice."""
    if ticket.place is Place.INSIDE:
        self._inside -= 1
    original(self, ticket, now)


add(
    "frees_twice",
    "A slot given back counts twice.",
    ("admission.slot.returned", "admission.slot.after_stream"),
    swap(f"{LIMITER}.leave", _twice),
)
