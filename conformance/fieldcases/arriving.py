"""Whether the value of a case arrived at the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.checks.chat_json import differences
from conformance.harness.errors import Disproved

if TYPE_CHECKING:
    from conformance.fieldcases.case import Arrival, Case


def arrived(case: Case, sent: Any, got: Any) -> None:
    """The value is at the worker, under one of its names, with the value (or the digits) it was sent with.

    Members that a gateway adds inside an object are no matter of the field's clause; a case without an arrival passes.

    Args:
        case: an acceptance.
        sent: the client's body, its numbers as text (`chat_json.parse`).
        got: the worker's body, the same.

    Raises:
        Disproved: the value is missing or another.
    """
    arrival = case.arrival
    if arrival is None:
        return
    wanted = next(iter(_values(sent, arrival)))
    found = _values(got, arrival)
    if not found:
        place = ".".join(map(str, (*arrival.inside, arrival.names[0])))
        raise Disproved("did not arrive", f"{case.description}: {place} is missing at the worker: {_short(got)}")
    problems = [differences(wanted, value, digits=arrival.digits, additions=True) for value in found]
    if all(problems):
        raise Disproved("arrived changed", f"{case.description}: {'; '.join(problems[0])}")


def _values(body: Any, arrival: Arrival) -> list[Any]:
    """What stands in a body at the place of an arrival, under each of its names that is there."""
    container = body
    for step in arrival.inside:
        if not _has(container, step):
            return []
        container = container[step]
    return [container[name] for name in arrival.names if _has(container, name)]


def _has(container: Any, step: str | int) -> bool:
    """Whether a container has something at a step."""
    if isinstance(container, dict):
        return step in container
    return isinstance(container, list) and isinstance(step, int) and step < len(container)


def _short(value: Any) -> str:
    """A value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:299]}…"
