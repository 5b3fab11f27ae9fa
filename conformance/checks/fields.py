"""Every field of every request body, by the OpenAPI document.

Types, presence, null, bounds, enum members, items and unknown keys. The cases are made by `conformance.fieldcases`;
nothing about a single field is written here. An acceptance is three-sided: the client gets 200, exactly one worker got
the request, and the value arrived. A refusal cites its valid twin, which differs only in what is judged and did reach a
worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.chat_json import differences, parse
from conformance.fieldcases import Arrival, Case, cases, fill
from conformance.harness import OMIT, PROMPT, Disproved, Gateway, Worker, clause_mark, encode
from spec import fields

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

pytestmark = pytest.mark.asyncio

ALL = tuple(case for prefix in fields.prefixes() for case in cases(prefix))


def _params(expect: str) -> list[ParameterSet]:
    chosen = (case for case in ALL if case.expect == expect)
    return [pytest.param(case, id=case.name, marks=clause_mark(case.clause_id)) for case in chosen]


@pytest.mark.parametrize("case", _params("accepted"))
async def test_a_field_is_accepted(gateway: Gateway, worker: Worker, case: Case) -> None:
    """What the contract allows in a field is answered with 200, and the worker receives it."""
    script = worker.script()
    sent = encode(fill(case.body, model=gateway.model, prompt=script.prompt))
    exchange = await gateway.post(case.path, sent, [("x-request-id", script.marker)])
    if exchange.status != 200:
        raise Disproved("not accepted", f"{case.description}: expected 200, got {exchange.brief()}")
    entry = await script.only()
    if case.arrival is not None:
        _arrived(case, case.arrival, parse(sent), parse(entry.body))


@pytest.mark.parametrize("case", _params("refused"))
async def test_a_field_is_refused(gateway: Gateway, worker: Worker, case: Case) -> None:
    """What the contract does not allow in a field is answered with 400, and no worker hears of it."""
    assert case.twin is not None
    valid = fill(case.twin, model=gateway.model, prompt=PROMPT)
    invalid = fill(case.body, model=gateway.model, prompt=PROMPT)
    overlay = {**dict.fromkeys(valid, OMIT), **invalid} if isinstance(invalid, dict) else encode(invalid)
    await gateway.refuses(worker, case.path, valid, overlay)


def _arrived(case: Case, arrival: Arrival, sent: Any, got: Any) -> None:
    """The value is at the worker, under one of its names, with the value (or the digits) it was sent with.

    Members that a gateway adds inside an object are no matter of the field's clause.
    """
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
    if isinstance(container, dict):
        return step in container
    return isinstance(container, list) and isinstance(step, int) and step < len(container)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:299]}…"
