"""Stage *validate*: bounds of single fields, then rules between fields.

Raises `ValidationRefusal`, code 400. All fields out of bounds are named, one a line. Rules between fields are looked at
only when every field is within its bounds, and the first one broken is named. A `null` counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from reference_server.endpoints import CHAT, COMPLETIONS
from reference_server.errors import ValidationRefusal
from reference_server.stages import legacy

if TYPE_CHECKING:
    from reference_server.stages.parse import ParsedRequest
    from reference_server.stages.profile import Profile

_TOKEN_ID = re.compile(r"[0-9]+")
Body = dict[str, Any]
Rule = Callable[[Body], str | None]
"""A rule between fields: `None`, or the sentence that says what is wrong."""


def validate(request: ParsedRequest, profile: Profile) -> None:
    """Refuse a request whose values the contract does not allow.

    Raises:
        ValidationRefusal: a bound or a rule between fields.
    """
    out_of_bounds = [str(problem) for problem in request.out_of_bounds]
    out_of_bounds += _beyond_the_model(request)
    if out_of_bounds:
        raise ValidationRefusal("\n".join(out_of_bounds))
    for rule in _RULES.get(request.endpoint.name, ()):
        broken = rule(request.body)
        if broken:
            raise ValidationRefusal(broken)
    if request.endpoint is CHAT and not profile.allows_root_messages:
        _refuse_root_messages(request.body)


def _beyond_the_model(request: ParsedRequest) -> Iterator[str]:
    """Bounds that the generated models do not hold."""
    if "top_k" in request.endpoint.model.model_fields and request.body.get("top_k") == 0:
        yield "top_k: must be -1, which switches it off, or at least 1"


def _top_logprobs(body: Body) -> str | None:
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        return "top_logprobs is only allowed with logprobs: true"
    return None


def _stream_options(body: Body) -> str | None:
    if body.get("stream_options") is not None and body.get("stream") is not True:
        return "stream_options is only allowed with stream: true"
    return None


def _min_tokens(*limits: str) -> Rule:
    """`min_tokens` must not exceed the first of these fields that is set."""

    def rule(body: Body) -> str | None:
        limit = next((body[name] for name in limits if body.get(name) is not None), None)
        least = body.get("min_tokens")
        if limit is not None and least is not None and least > limit:
            return f"min_tokens must not exceed {' or '.join(limits)}"
        return None

    return rule


def _json_format_and_constraint(body: Body) -> str | None:
    format_ = body.get("response_format") or {}
    if format_.get("type") in {"json_object", "json_schema"}:
        for constraint in ("regex", "ebnf"):
            if body.get(constraint) is not None:
                return f"{constraint} cannot be combined with a JSON response_format"
    return None


def _one_of(*constraints: str) -> Rule:
    """At most one of these fields may be set."""

    def rule(body: Body) -> str | None:
        given = [name for name in constraints if body.get(name) is not None]
        return f"only one of {', '.join(constraints)} may be set, not {' and '.join(given)}" if len(given) > 1 else None

    return rule


def _logit_bias(body: Body) -> str | None:
    for key in body.get("logit_bias") or {}:
        if not _TOKEN_ID.fullmatch(key):
            return f"logit_bias: {key[:40]!r} is no token id"
    return None


def _tool_choice(body: Body) -> str | None:
    choice = legacy.tool_choice(body)
    if choice is None or choice in ("none", "auto"):
        return None
    tools = legacy.tools(body)
    if not tools:
        return "tool_choice is only allowed with tools, unless it is none or auto"
    names = {tool["function"]["name"] for tool in tools if tool["type"] == "function"}
    if choice == "required":
        return None
    if choice["type"] == "function":
        name = choice["function"]["name"]
        return None if name in names else f"tool_choice: the function {name[:80]!r} is not among the tools"
    for reference in choice["tools"]:
        if reference["type"] != "function":
            return f"tool_choice.tools: only functions may be chosen, not {reference['type'][:80]!r}"
        if reference["name"] not in names:
            return f"tool_choice.tools: the function {reference['name'][:80]!r} is not among the tools"
    return None


def _best_of_exceeds_n(body: Body) -> str | None:
    best_of, n = body.get("best_of"), body.get("n")
    if best_of is not None and n is not None and best_of <= n:
        return "best_of must be greater than n"
    return None


def _best_of_without_stream(body: Body) -> str | None:
    if body.get("best_of") is not None and body.get("stream") is True:
        return "best_of cannot be combined with stream"
    return None


_RULES: dict[str, tuple[Rule, ...]] = {
    CHAT.name: (
        _top_logprobs,
        _stream_options,
        _min_tokens("max_completion_tokens", "max_tokens"),
        _json_format_and_constraint,
        _one_of("regex", "ebnf"),
        _tool_choice,
        _logit_bias,
    ),
    COMPLETIONS.name: (
        _stream_options,
        _min_tokens("max_tokens"),
        _one_of("regex", "ebnf", "json_schema"),
        _best_of_exceeds_n,
        _best_of_without_stream,
    ),
}
"""The rules between fields of each route, in the order in which they are looked at."""


def _refuse_root_messages(body: Body) -> None:
    for index, message in enumerate(body["messages"]):
        if message["role"] == "root":
            raise ValidationRefusal(f"messages[{index}].role: root is not a role of this model")
