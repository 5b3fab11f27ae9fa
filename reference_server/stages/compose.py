"""Stage *compose*: the request as the worker will see it, the client's own bytes but for a few rewrites.

- an alias becomes the model it stands for;
- `max_tokens` becomes `max_completion_tokens` where the latter is unset (chat);
- `reasoning` on an assistant message becomes `reasoning_content` (chat);
- a number in `reasoning_effort` becomes its decimal string (chat);
- `functions` and `function_call` become `tools` and `tool_choice` where those are unset (chat);
- fields of messages that belong to another vendor's profile are dropped (chat).

Nothing is added: what the client left out stays out, defaults included.
"""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from reference_server import lossless
from reference_server.endpoints import CHAT
from reference_server.lossless import Rewriter
from reference_server.stages import legacy

if TYPE_CHECKING:
    from reference_server.lossless import Member
    from reference_server.stages.parse import ParsedRequest
    from reference_server.stages.profile import Profile

LOG = logging.getLogger("reference_server")
Message = dict[str, Any]


def compose(request: ParsedRequest, profile: Profile, canonical_model: str) -> bytes:
    """The body for the worker."""
    if not _needs_rewriting(request, profile, canonical_model):
        return request.document.raw
    rewriter = Rewriter(request.document)
    members = rewriter.top()
    by_key = {member.key: member for member in members}
    if canonical_model != request.model:
        rewriter.replace(by_key["model"], json.dumps(canonical_model, ensure_ascii=False))
    if request.endpoint is CHAT:
        emptied = _migrate_max_tokens(rewriter, request, by_key)
        emptied += legacy.rewrite(rewriter, request.body, by_key)
        if emptied:
            rewriter.remove(members, *emptied)
        _write_effort_as_text(rewriter, request, by_key)
        _rewrite_messages(rewriter, request, profile, by_key["messages"])
    return rewriter.render()


def _needs_rewriting(request: ParsedRequest, profile: Profile, canonical_model: str) -> bool:
    if canonical_model != request.model:
        return True
    if request.endpoint is not CHAT:
        return False
    body = request.body
    effort = body.get("reasoning_effort")
    return (
        _migrates(request)
        or isinstance(effort, (int, float))
        or legacy.needs_rewriting(body)
        or any(_needs_rewriting_itself(message, profile) for message in body["messages"])
    )


def _migrates(request: ParsedRequest) -> bool:
    return request.body.get("max_tokens") is not None and request.body.get("max_completion_tokens") is None


def _needs_rewriting_itself(message: Message, profile: Profile) -> bool:
    return _has_alias_of_reasoning(message) or not profile.foreign_message_fields.isdisjoint(message)


def _has_alias_of_reasoning(message: Message) -> bool:
    return message["role"] == "assistant" and "reasoning" in message


def _migrate_max_tokens(rewriter: Rewriter, request: ParsedRequest, by_key: dict[str, Member]) -> list[str]:
    """Returns the keys to remove: an explicit null of the new name, which would be the same key twice."""
    if not _migrates(request):
        return []
    rewriter.rename(by_key["max_tokens"], "max_completion_tokens")
    return ["max_completion_tokens"] if "max_completion_tokens" in by_key else []


def _write_effort_as_text(rewriter: Rewriter, request: ParsedRequest, by_key: dict[str, Member]) -> None:
    if isinstance(request.body.get("reasoning_effort"), (int, float)):
        member = by_key["reasoning_effort"]
        written = rewriter.text[member.value_start : member.value_end]
        rewriter.replace(member, json.dumps(decimal_string(written)))


def decimal_string(number: str) -> str:
    """A JSON number as a decimal string: integers keep their digits, others get the shortest form without exponent."""
    if number.lstrip("-").isdecimal():
        return number
    shortest = repr(float(number))
    return format(Decimal(shortest), "f") if "e" in shortest else shortest


def _rewrite_messages(rewriter: Rewriter, request: ParsedRequest, profile: Profile, messages: Member) -> None:
    body_messages: list[Message] = request.body["messages"]
    if not any(_needs_rewriting_itself(message, profile) for message in body_messages):
        return
    for start, message in zip(lossless.items(rewriter.text, messages.value_start), body_messages, strict=True):
        if not _needs_rewriting_itself(message, profile):
            continue
        members = list(lossless.members(rewriter.text, start))
        if _has_alias_of_reasoning(message):
            for member in members:
                if member.key == "reasoning":
                    rewriter.rename(member, "reasoning_content")
        if foreign := sorted(profile.foreign_message_fields & message.keys()):
            rewriter.remove(members, *foreign)
    _warn_of_dropped_fields(body_messages, profile)


def _warn_of_dropped_fields(messages: list[Message], profile: Profile) -> None:
    """One warning a request, however many fields were dropped."""
    dropped = {field for message in messages for field in profile.foreign_message_fields & message.keys()}
    if dropped:
        LOG.warning("dropped fields of messages that belong to another profile: %s", ", ".join(sorted(dropped)))
