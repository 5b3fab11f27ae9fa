"""The reference server and a second reading of the contract agree about every body that can be made up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from conformance.differ.requests import ROUTES, Generator
from conformance.harness.bodies import encode
from reference_server.endpoints import ENDPOINTS
from reference_server.errors import ParseRefusal, ValidationRefusal
from reference_server.stages.compose import compose
from reference_server.stages.parse import parse_body
from reference_server.stages.profile import BASELINE
from reference_server.stages.validate import validate
from tests.exploration import bodies, spec_model

if TYPE_CHECKING:
    from tests.exploration.bodies import Example

BY_PATH = {endpoint.path: endpoint for endpoint in ENDPOINTS}
KIND = {path: kind for kind, path in ROUTES.items()}
quick = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def server(path: str, body: Any) -> tuple[str, Any]:
    """What the reference server makes of a body: `served` and what the worker gets, or the refusal and its message."""
    try:
        request = parse_body(encode(bodies.filled(body, "Say hello.")), BY_PATH[path])
        validate(request, BASELINE)
    except ParseRefusal as refusal:
        return "parse", refusal.message
    except ValidationRefusal as refusal:
        return "validation", refusal.message
    return "served", json.loads(compose(request, BASELINE, "m"))


@quick
@given(bodies.served())
def test_what_breaks_nothing_is_served(example: Example) -> None:
    """A body that is valid by construction is served by the server and by the model, and arrives."""
    outcome, got = server(example.path, example.body)
    assert (outcome, spec_model.objections(KIND[example.path], example.body)) == ("served", []), got
    sent = bodies.filled(example.body, "Say hello.")
    rewritten = {"max_tokens", "max_completion_tokens", "reasoning_effort", "functions", "function_call"}
    assert {key: got.get(key) for key in sent.keys() - rewritten} == {key: sent[key] for key in sent.keys() - rewritten}


@quick
@given(bodies.one_violation())
def test_one_violation_gets_its_refusal(example: Example) -> None:
    """A body with exactly one thing wrong gets the refusal of that thing, and the model objects as well."""
    outcome, got = server(example.path, example.body)
    assert outcome == example.expected, f"{example.why}: {got}"
    assert spec_model.objections(KIND[example.path], example.body), example.why


@pytest.mark.parametrize("seed", range(4))
def test_both_agree_about_anything(seed: int) -> None:
    """Of thousands of bodies, right and wrong in many ways at once, server and model refuse the same ones."""
    generator = Generator(seed)
    disagreements = []
    refused = 0
    for _ in range(1000):
        request = generator.next()
        outcome, got = server(request.path, request.body)
        objections = spec_model.objections(request.kind, request.body)
        refused += bool(objections)
        if (outcome == "served") == bool(objections):
            disagreements.append((request.kind, request.body, outcome, got, objections))
    assert disagreements == []
    assert 150 < refused < 850
