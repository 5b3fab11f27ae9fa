"""Every field of every request body, by the OpenAPI document.

Types, presence, null, bounds, enum members, items and unknown keys. The cases are made by `conformance.fieldcases`;
nothing about a single field is written here. An acceptance is three-sided: the client gets a success, exactly one
worker got the request, and the value arrived. A refusal cites its valid twin, which differs only in what is judged and
did reach a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_json import parse
from conformance.fieldcases import Case, arrived, cases, fill
from conformance.harness import OMIT, PROMPT, Disproved, Gateway, Worker, clause_mark, encode
from spec import fields

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

pytestmark = pytest.mark.asyncio

ALL = tuple(case for prefix in fields.prefixes() for case in cases(prefix))


def _params(expect: str) -> list[ParameterSet]:
    """The cases with one expectation, each as a parameter with its name and its clause."""
    chosen = (case for case in ALL if case.expect == expect)
    return [pytest.param(case, id=case.name, marks=clause_mark(case.clause_id)) for case in chosen]


@pytest.mark.parametrize("case", _params("accepted"))
async def test_a_field_is_accepted(gateway: Gateway, worker: Worker, case: Case) -> None:
    """What the contract allows in a field is answered with success, and the worker receives it."""
    script = worker.script()
    sent = encode(fill(case.body, model=gateway.model, prompt=script.prompt))
    exchange = await gateway.post(case.path, sent, [("x-request-id", script.marker)])
    if not exchange.succeeded:
        raise Disproved("not accepted", f"{case.description}: expected success, got {exchange.brief()}")
    entry = await script.only()
    arrived(case, parse(sent), parse(entry.body))


@pytest.mark.parametrize("case", _params("refused"))
async def test_a_field_is_refused(gateway: Gateway, worker: Worker, case: Case) -> None:
    """What the contract does not allow in a field is answered with 400, and no worker hears of it."""
    assert case.twin is not None
    valid = fill(case.twin, model=gateway.model, prompt=PROMPT)
    invalid = fill(case.body, model=gateway.model, prompt=PROMPT)
    overlay = {**dict.fromkeys(valid, OMIT), **invalid} if isinstance(invalid, dict) else encode(invalid)
    await gateway.refuses(worker, case.path, valid, overlay)
