"""What the checks of chat requests share: cases as data, a request's way to the worker, and its refusal.

A table of cases is written when the module is imported; the prompt of a script is only known when a check runs. So
tables write `PROMPT` where the prompt goes, and the helpers here put it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.checks.chat_json import differences, parse
from conformance.harness import marks
from conformance.harness.bodies import PROMPT, body_for, encode, with_prompt
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from fake_workers import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _pytest.mark.structures import ParameterSet

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway, Refusal
    from conformance.harness.worker import Worker
    from fake_workers.journal import Entry
    from fake_workers.script import Reply, Wire

Fields = dict[str, Any]
"""Members of a chat request, laid over a model and one user message."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request that a worker received: the two bodies with their numbers as written, and both sides as recorded."""

    sent: Any
    got: Any
    exchange: Exchange
    entry: Entry

    def unchanged(self, *path: str | int, digits: bool = True, additions: bool = False) -> None:
        """What was sent at `path` arrived as it was sent; see `chat_json.differences`.

        Args:
            path: a member's name or an item's number a step; none for the whole body.
            digits: compare numbers by their text, otherwise by their exact value.
            additions: let objects hold members that were not sent.

        Raises:
            Disproved: `did not arrive`, `added on the way` or `changed on the way`, with the places.
        """
        here = _place(path)
        if not _has(self.got, path):
            raise Disproved(
                "did not arrive", f"{here} was sent and did not arrive at the worker: {self.entry.body[:300]!r}"
            )
        lines = differences(_at(self.sent, path), _at(self.got, path), digits=digits, additions=additions, at=here)
        if lines:
            kinds = {"did not arrive": "did not arrive", "not sent, arrived": "added on the way"}
            kind = next((kind for words, kind in kinds.items() if words in lines[0]), "changed on the way")
            raise Disproved(kind, "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else ""))

    def all_unchanged(self, names: Iterable[str], *, digits: bool = True) -> None:
        """Each of the members named arrived as it was sent; see `unchanged`."""
        for name in names:
            self.unchanged(name, digits=digits)

    def arrived_as(self, expected: Any, *path: str | int) -> None:
        """The worker received `expected` at `path`; numbers are compared as :class:`~chat_json.Number`.

        Raises:
            Disproved: `did not arrive` or `changed on the way`.
        """
        lines = differences(expected, self.at(*path), at=_place(path))
        if lines:
            raise Disproved("changed on the way", "; ".join(lines))

    def unset(self, *path: str | int, neutral: tuple[Any, ...] = ()) -> None:
        """The worker received nothing, null or one of the `neutral` values at `path`.

        Raises:
            Disproved: `added on the way`.
        """
        value = _at(self.got, path) if _has(self.got, path) else None
        if value is not None and not any(type(value) is type(one) and value == one for one in neutral):
            raise Disproved(
                "added on the way", f"{_place(path)} should say nothing to the worker, and arrived as {value!r}"
            )

    def at(self, *path: str | int) -> Any:
        """What the worker received at `path`; the check fails if nothing is there."""
        if not _has(self.got, path):
            raise Disproved("did not arrive", f"{_place(path)} did not arrive at the worker: {self.entry.body[:300]!r}")
        return _at(self.got, path)


def case(clause_id: str, *values: Any, name: str | None = None) -> ParameterSet:
    """A case of a parametrised check: its clause, its arguments, and a name if the clause has several cases."""
    tail = clause_id.removeprefix("chat.")
    return marks.case(clause_id, *values, name=f"{tail}-{name}" if name else tail)


def says(content: Any = PROMPT, role: str = "user", **members: Any) -> dict[str, Any]:
    """A message; by default the user says the prompt."""
    return {"role": role, "content": content, **members}


def tool(name: str = "look_up", **members: Any) -> dict[str, Any]:
    """A function tool without parameters of its own; `members` go beside the name."""
    return {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}, **members},
    }


def answer(message: dict[str, Any], finish_reason: str = "stop", **choice: Any) -> Wire:
    """A worker's answer of one choice with this message, and whatever else the choice holds."""
    choices = [{"index": 0, "message": message, "finish_reason": finish_reason, **choice}]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m"}
    return wire.json(200, {**head, "choices": choices, "usage": usage})


async def deliver(gateway: Gateway, worker: Worker, *answers: Reply | Wire, **fields: Any) -> Delivery:
    """Send a chat request, which must be answered with success and reach exactly one worker.

    Raises:
        Disproved: the gateway refused the request, or no worker got it, or more than one did.
    """
    script = worker.script(*answers)
    filled = with_prompt(body_for(CHAT, gateway.model, PROMPT, fields), script.prompt)
    return await deliver_bytes(gateway, worker, encode(filled), script)


async def deliver_bytes(gateway: Gateway, worker: Worker, sent: bytes, script: Any = None) -> Delivery:
    """As `deliver`, with the bytes of the body given; without a script, the marker goes where they say PROMPT."""
    if script is None:
        script = worker.script()
        sent = with_prompt(sent, script.prompt)
    exchange = await gateway.post(CHAT, sent)
    if not exchange.succeeded:
        raise Disproved("not accepted", f"a request that must be accepted was not: {exchange.brief()}")
    entry = await script.only()
    return Delivery(sent=parse(sent), got=parse(entry.body), exchange=exchange, entry=entry)


async def refused(gateway: Gateway, worker: Worker, valid: Mapping[str, Any], invalid: Mapping[str, Any]) -> Refusal:
    """The request with `invalid` is refused with 400 and no worker sees it, though its twin with `valid` is seen."""
    return await gateway.refuses(worker, CHAT, dict(valid), dict(invalid))


def _has(value: Any, path: tuple[str | int, ...]) -> bool:
    for step in path:
        inside = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value)
        )
        if not inside:
            return False
        value = value[step]
    return True


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _place(path: tuple[str | int, ...]) -> str:
    return (
        "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".") or "the body"
    )
