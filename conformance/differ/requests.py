"""Requests: made at random from the contract's document, the same for the same seed."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

from conformance.differ import fragments
from conformance.fieldcases.bodies import LEAVE, Bodies, fill
from conformance.fieldcases.samples import STEP, UNKNOWN_KEY, UNKNOWN_VALUE, Samples, json_type
from conformance.harness import bodies
from spec import openapi
from spec.fields import Field, walk

ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}
SHARES = {"chat": 14, "completions": 5, "embeddings": 1}
JSON_TYPE = ("content-type", "application/json")

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 0.5, 1.0, -0.0, 2**31, 2**32, 2**63, 2**64, -(2**63) - 1, 1e39, 1e-9, 0.1,
    "", " ", "x", "5", "é\u2028", "auto", "none", [], [None], [1], ["a", "b"], [[1, 2]], {}, {"type": "function"},
    {UNKNOWN_KEY: 1}, {"a": "b"},
)  # fmt: skip
"""Values that are right in few places."""

TWISTS: dict[str, Any] = {
    "cut off": lambda data: data[:-3],
    "trailing comma": lambda data: data[:-1] + b",}",
    "text behind": lambda data: data + b" x",
    "blanks around": lambda data: b" \r\n\t" + data + b" \n",
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "not a number": lambda data: data[:-1] + b',"zz":NaN}',
    "leading zero": lambda data: data[:-1] + b',"zz":01}',
    "exponent": lambda data: data[:-1] + b',"zz":1E3}',
    "endless digits": lambda data: data[:-1] + b',"zz":' + b"1" * 400 + b"}",
    "not UTF-8": lambda data: data[:-1] + b',"zz":"\xff"}',
    "half a surrogate": lambda data: data[:-1] + b',"zz":"\\ud800"}',
    "control character": lambda data: data[:-1] + b',"zz":"\x01"}',
    "deep": lambda data: data[:-1] + b',"zz":' + b"[" * 100 + b"]" * 100 + b"}",
    "too deep": lambda data: data[:-1] + b',"zz":' + b"[" * 200 + b"]" * 200 + b"}",
    "model twice": lambda data: data[:-1] + b',"model":"conformance-vllm"}',
    "unknown key twice": lambda data: data[:-1] + b',"zz":1,"zz":2}',
    "escaped key": lambda data: data.replace(b'"model"', b'"mod\\u0065l"'),
    "in an array": lambda data: b"[" + data + b"]",
    "empty": lambda _data: b"",
}
"""Things done to the bytes of a body."""

HEADERS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("content-type", "application/json; charset=utf-8"),),
    (("content-type", "APPLICATION/JSON"),),
    (("content-type", "text/plain"),),
    (("content-type", "application/vnd.api+json"),),
    (("content-type", ""),),
    (JSON_TYPE, ("authorization", "Bearer someone")),
    (JSON_TYPE, ("x-request-id", "my-id-1")),
    (JSON_TYPE, ("x-request-id-note", "n"), ("x-trace-id", "t"), ("request-id", "r")),
    (JSON_TYPE, ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", "a=b")),
    (JSON_TYPE, ("x-smg-routing-key", "k"), ("x-smg-routing-tokens", "1,2")),
    (JSON_TYPE, ("x-api-key", "k"), ("cookie", "c=1"), ("anthropic-version", "1"), ("anthropic-beta", "b")),
)
ANSWERS = (
    "plain",
    "stream",
    "worker 400",
    "worker 422",
    "worker 404",
    "worker 429",
    "worker 500",
    "worker text",
    "odd type",
)


@dataclass(frozen=True)
class Request:
    """One request to both gateways, and how the worker answers it.

    Attributes:
        kind: `chat`, `completions` or `embeddings`.
        body: the JSON body; `{model}` and `{prompt}` stand for a served model and a prompt with the marker.
        twist: what is done to the bytes, a key of `TWISTS`; empty for nothing.
        headers: the request's own headers; a marker travels besides, in `X-Correlation-ID`.
        answer: one of `ANSWERS`.
    """

    kind: str
    body: Any
    twist: str = ""
    headers: tuple[tuple[str, str], ...] = (JSON_TYPE,)
    answer: str = "plain"

    @property
    def path(self) -> str:
        """The route."""
        return ROUTES[self.kind]

    def data(self, *, model: str, prompt: str) -> bytes:
        """The bytes of the body."""
        plain = bodies.encode(fill(self.body, model=model, prompt=prompt))
        return plain if not self.twist else bytes(TWISTS[self.twist](plain))


class Generator:
    """An endless source of requests; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - requests are to be repeatable, not secret
        self._samples = Samples(openapi())
        self._bodies = {kind: Bodies(kind, self._samples) for kind in ROUTES}
        self._fields = {kind: [place for place in walk(kind) if place.steps] for kind in ROUTES}

    def next(self) -> Request:
        """The next request."""
        dice = self._dice
        kind = dice.choices(list(SHARES), list(SHARES.values()))[0]
        base: Any = self._bodies[kind].base()
        if dice.random() < 0.6:
            base, _ = self._bodies[kind].around(*self._placed(kind))
        if not isinstance(base, dict):
            base = self._bodies[kind].base()
        for _ in range(dice.choice((0, 0, 1, 1, 2, 3, 5))):
            place, value = self._placed(kind, top=True)
            if value is not LEAVE and place.steps[0] not in base:
                base[str(place.steps[0])] = value
        if dice.random() < 0.3:
            base |= fragments.together(kind, dice)
        if kind == "chat" and dice.random() < 0.3:
            base["messages"] = fragments.conversation(dice)
        if dice.random() < 0.2:
            self._add_unknown_key(base)
        answer = "stream" if base.get("stream") is True else "plain"
        return Request(
            kind,
            base,
            twist=dice.choice(list(TWISTS)) if dice.random() < 0.06 else "",
            headers=dice.choice(HEADERS) if dice.random() < 0.08 else (JSON_TYPE,),
            answer=dice.choice(ANSWERS) if dice.random() < 0.08 else answer,
        )

    def _placed(self, kind: str, *, top: bool = False) -> tuple[Field, Any]:
        """A place of the body and a value for it: four times of five one that the document allows."""
        fields = [place for place in self._fields[kind] if len(place.steps) == 1] if top else self._fields[kind]
        place = self._dice.choice(fields)
        if self._dice.random() < (0.9 if top else 0.5):
            return place, self._allowed(place)
        pool = [
            *ODD_VALUES,
            *self._around_bounds(place),
            *([LEAVE] if not top and isinstance(place.steps[-1], str) else []),
        ]
        return place, copy.deepcopy(self._dice.choice(pool))

    def _allowed(self, place: Field) -> Any:
        try:
            examples = self._samples.examples(place.schema)
        except ValueError:  # a place that any value fits
            examples = [True]
        bounds = [value for value in self._around_bounds(place) if self._samples.allows(place.schema, value)]
        return copy.deepcopy(self._dice.choice([*examples, *bounds]))

    def _around_bounds(self, place: Field) -> list[Any]:
        """Numbers at the bounds of a place and a step to either side; every word of an enumeration."""
        step: float = 1 if "integer" in place.types else STEP
        names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        bounds = [place.schema[name] for name in names if name in place.schema]
        return [bound + move for bound in bounds for move in (-step, 0, step)] + list(place.schema.get("enum", ()))

    def _add_unknown_key(self, body: dict[str, Any]) -> None:
        """An unknown key in the body or in one of the objects inside it."""
        objects: list[dict[str, Any]] = []
        queue: list[Any] = [body]
        while queue:
            node = queue.pop()
            if isinstance(node, dict):
                objects.append(node)
                queue += node.values()
            elif isinstance(node, list):
                queue += node
        self._dice.choice(objects)[UNKNOWN_KEY] = copy.deepcopy(UNKNOWN_VALUE)


def kind_of(value: Any) -> str:
    """How a value shows in the name of a class: its type, and for the shortest ones the value."""
    if value in ("", [], {}) or (value is not None and isinstance(value, bool)):
        return repr(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        size = "huge " if abs(value) >= 2**31 else ""
        return f"{'negative ' if value < 0 else 'zero ' if value == 0 else ''}{size}{json_type(value)}"
    return json_type(value)


@cache
def ordinary_body(kind: str) -> dict[str, Any]:
    """The smallest valid body of a route. Shared: copy before changing it."""
    return Bodies(kind, Samples(openapi())).base()
