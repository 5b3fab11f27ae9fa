"""Shapes looked at in passing: every successful answer of every check is also judged by the OpenAPI document.

A shape has one verdict for the whole run (rows in `spec/clauses/shapes.yaml`): a gateway that gets one wrong fails one
clause, not every check. Answers that a check scripted byte by byte say nothing about shapes and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fake_workers.markers import find_marker
from fake_workers.script import Wire
from spec import schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.exchange import Exchange
    from conformance.harness.worker import Scripted

MAX_EVENTS = 30
NODE = "in passing::"


@dataclass(frozen=True)
class Shape:
    """A clause about the answers of a path: what they are (`json` or `events`), and the schema they must fit."""

    clause: str
    path: str
    kind: str
    schema: str


SHAPES = (
    Shape("shapes.chat.response", "/v1/chat/completions", "json", "ChatCompletion"),
    Shape("shapes.chat.chunk", "/v1/chat/completions", "events", "ChatCompletionChunk"),
    Shape("shapes.completion.response", "/v1/completions", "json", "Completion"),
    Shape("shapes.completion.chunk", "/v1/completions", "events", "CompletionChunk"),
    Shape("shapes.embeddings.response", "/v1/embeddings", "json", "EmbeddingList"),
    Shape("shapes.models.response", "/v1/models", "json", "ModelList"),
)


def look(exchanges: Sequence[Exchange], scripts: Sequence[Scripted]) -> list[list[str]]:
    """What was seen: [clause id, first problem, or an empty string], one for each exchange that has a shape."""
    bytewise = {each.marker for each in scripts if any(isinstance(answer, Wire) for answer in each.script.answers)}
    found = []
    for exchange in exchanges:
        if not exchange.succeeded or find_marker(exchange.request) in bytewise:
            continue
        kind = _kind(exchange)
        shape = next((each for each in SHAPES if each.path == exchange.target and each.kind == kind), None)
        if shape is not None:
            found.append([shape.clause, _problem(exchange, shape)])
    return found


def _kind(exchange: Exchange) -> str:
    content_type = (exchange.headers.get("content-type") or "").lower()
    if content_type.startswith("text/event-stream"):
        return "events"
    return "json" if "json" in content_type and exchange.closed_cleanly else ""


def _problem(exchange: Exchange, shape: Shape) -> str:
    try:
        values = [exchange.json] if shape.kind == "json" else exchange.chunks[:MAX_EVENTS]
    except AssertionError as problem:
        return str(problem)[:300]
    return next((problem for value in values for problem in schemas.problems(shape.schema, value)), "")[:300]
