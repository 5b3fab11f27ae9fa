"""Schemathesis explores the reference server by the document: whatever it makes up, the answer is a documented one."""

from __future__ import annotations

import copy
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
)

import spec
from conformance.harness.sse import SseParser
from tests.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "m"
EXAMPLES = 25
EVENT_STREAM = "text/event-stream"
EVENTS = {"/v1/chat/completions": "ChatCompletionChunk", "/v1/completions": "CompletionChunk"}
NOT_ASKED = [
    # Rules between fields refuse some bodies that fit their schema; test_spec_model.py compares those with a model.
    positive_data_acceptance,
    # PUT and PATCH of a worker exist, as in the real gateway, and the contract does not describe them.
    allow_header_conformance,
]


def document() -> dict[str, Any]:
    """The document without the schema of streams (of the whole text there, which Schemathesis takes for an event's).

    And without the least number of embeddings: which inputs exist is the engine's matter, and odd ones get none.
    """
    changed = copy.deepcopy(spec.openapi())
    changed["components"]["schemas"]["EmbeddingList"]["properties"]["data"].pop("minItems")
    for path in EVENTS:
        changed["paths"][path]["post"]["responses"]["200"]["content"][EVENT_STREAM].pop("schema")
    return changed


# POST and DELETE /workers would make the server dial addresses that a generator made up.
SAFE = schemathesis.openapi.from_dict(document()).exclude(path="/workers", method="POST").exclude(method="DELETE")


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The reference server before two engines that answer by themselves."""
    engines = ["--worker", f"engine=vllm,model={MODEL},port=0", "--worker", "engine=sglang,model=other,port=0"]
    with running([sys.executable, "-m", "fake_workers.cli", *engines, "--exit-with-parent"]) as fleet:
        urls = [worker["url"] for worker in fleet["workers"]]
        flags = ["--port", "0", "--prometheus-port", "0", "--exit-with-parent", "--disable-retries"]
        flags += ["--disable-circuit-breaker", "--worker-urls", *urls]
        with running([sys.executable, "-m", "reference_server.cli", "launch", *flags]) as ready:
            yield ready["url"]


@SAFE.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_documented(case: Any, base_url: str) -> None:
    """No server error, and status, content type, headers, body and events are those the document names."""
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body["model"] = MODEL  # or nearly every request would end at "nobody serves this model"
    excluded = list(NOT_ASKED)
    # A header out of its limits is ignored, never refused.
    if any(part.mode.is_negative for where, part in case.meta.components.items() if where != ParameterLocation.BODY):
        excluded.append(negative_data_rejection)
    answer = case.call_and_validate(base_url=base_url, excluded_checks=excluded, timeout=20)
    if any(value.startswith(EVENT_STREAM) for value in answer.headers.get("content-type", ())):
        parser = SseParser()
        parser.feed(answer.content, 0.0)
        # Schemathesis stops reading long streams, so the end may be missing here.
        chunks = [json.loads(event.data) for event in parser.events if not event.is_done]
        assert chunks
        assert [spec.schemas.problems(EVENTS[case.operation.path], chunk) for chunk in chunks] == [[]] * len(chunks)
