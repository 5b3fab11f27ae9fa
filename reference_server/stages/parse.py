"""Stage *parse*: from bytes to a document of the right schema.

Raises `ParseRefusal`, code `json_parse_error`, for a content type that is no JSON, for what is no JSON, for what does
not fit the schema, and for a modelled key that stands twice: the gateway and the engine might take different ones.
Unknown keys are free, at every level. Bounds are left to *validate*, because the contract answers them differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reference_server import lossless
from reference_server.endpoints import CHAT, COMPLETIONS
from reference_server.errors import ParseRefusal
from reference_server.stages import repeats, schema, widths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reference_server.call import Call
    from reference_server.endpoints import Endpoint
    from reference_server.lossless import Document
    from reference_server.stages.schema import Problem

_NEVER_NULL = ("echo", "ignore_eos", "no_stop_trim", "skip_special_tokens", "return_hidden_states")
"""Booleans of Completions. The generated models take null for any field that may be left out."""
_JSON_MEDIA_TYPE = re.compile(r"application/(?:json|[!#$&^_.+a-z0-9-]+\+json)", re.IGNORECASE)


@dataclass(slots=True)
class ParsedRequest:
    """A body that fits its schema. `out_of_bounds` waits for *validate*; `body` is `document.value`."""

    endpoint: Endpoint
    document: Document
    out_of_bounds: list[Problem] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any]:
        """The parsed JSON object."""
        value: dict[str, Any] = self.document.value
        return value

    @property
    def model(self) -> str:
        """The model as the client wrote it."""
        return str(self.body["model"])

    @property
    def wants_stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return self.body.get("stream") is True


async def parse(this: Call, endpoint: Endpoint) -> ParsedRequest:
    """Read the whole body and parse it. The content type is judged before a single byte of the body.

    Raises:
        ParseRefusal: see above.
        GatewayError: 413, the body is larger than allowed; 408, its rest did not come.
    """
    raw = await this.body.read()
    _check_content_type(this)
    return parse_body(raw, endpoint)


def parse_body(raw: bytes, endpoint: Endpoint) -> ParsedRequest:
    """Parse a complete body.

    Raises:
        ParseRefusal: not JSON, not the schema, a modelled key repeated.
    """
    document = lossless.read(raw)
    found = schema.problems(endpoint.model, document.value)
    misfits = [problem for problem in found if not problem.is_bound]
    # Only a body that fits its model has the shape these look into.
    misfits = misfits or list(_beyond_the_model(endpoint, document.value))
    if misfits:
        raise ParseRefusal(f"Invalid request body: {misfits[0]}")
    if document.has_repeated_keys:
        repeats.refuse_repeated_modelled_keys(endpoint.schema, document.value)
    request = ParsedRequest(endpoint, document, found)
    _refuse_both_names_of_reasoning(request.body)
    return request


def _check_content_type(this: Call) -> None:
    media_type = (this.header("content-type") or "").split(";", 1)[0].strip()
    if not _JSON_MEDIA_TYPE.fullmatch(media_type):
        raise ParseRefusal("The request needs the header Content-Type: application/json")


def _beyond_the_model(endpoint: Endpoint, body: Any) -> Iterator[Problem]:
    """What does not fit, though the generated models let it pass."""
    if not isinstance(body, dict):
        return
    modelled = endpoint.model.model_fields
    for where, problem in widths.too_large(body):
        if where.partition("[")[0] in modelled:
            yield schema.Problem(where, problem, is_bound=False)
    bias = body.get("logit_bias") if "logit_bias" in modelled else None
    for key, value in bias.items() if isinstance(bias, dict) else ():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield schema.Problem(f"logit_bias.{key}", "must be a number", is_bound=False)
    if endpoint is COMPLETIONS:
        for name in _NEVER_NULL:
            if name in body and body[name] is None:
                yield schema.Problem(name, "must be true or false, not null", is_bound=False)
    if endpoint is CHAT:
        yield from _functions_that_answer(body.get("messages"))
        yield from _nameless_references(body.get("tool_choice"))


def _functions_that_answer(messages: Any) -> Iterator[Problem]:
    """A function message is text. The document keeps to the contract's table, in which nothing is said of one role."""
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict) and message.get("role") == "function" and not isinstance(message["content"], str):
            yield schema.Problem(f"messages[{index}].content", "must be a string on this role", is_bound=False)


def _nameless_references(choice: Any) -> Iterator[Problem]:
    """Among the allowed tools a function needs its name; another kind has no name, and is refused by *validate*."""
    references = choice.get("tools") if isinstance(choice, dict) and choice.get("type") == "allowed_tools" else None
    for index, reference in enumerate(references or ()):
        if reference["type"] == "function" and "name" not in reference:
            yield schema.Problem(f"tool_choice.tools[{index}].name", "this field is required", is_bound=False)


def _refuse_both_names_of_reasoning(body: dict[str, Any]) -> None:
    """`reasoning` is another name of `reasoning_content`; with both, one field is there twice."""
    for index, message in enumerate(body.get("messages") or ()):
        if message.get("role") == "assistant" and "reasoning" in message and "reasoning_content" in message:
            raise ParseRefusal(
                f"Invalid request body: messages[{index}]: reasoning_content and its other name reasoning"
            )
