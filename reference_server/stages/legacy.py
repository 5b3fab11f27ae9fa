"""The old way to offer functions (chat): `functions` and `function_call`, which became `tools` and `tool_choice`.

The contract is silent about them. As the real gateway does, each is rewritten where its successor is not set, and every
rule about the successor holds; where the successor is set, the old field is passed on as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference_server import lossless

if TYPE_CHECKING:
    from reference_server.lossless import Member, Rewriter

Body = dict[str, Any]
SUCCESSORS = {"functions": "tools", "function_call": "tool_choice"}
"""Old fields and what became of them."""


def replaces(body: Body, old: str) -> bool:
    """Whether an old field is set and its successor is not."""
    return body.get(old) is not None and body.get(SUCCESSORS[old]) is None


def tools(body: Body) -> list[Any]:
    """The tools of a request, in whichever way they were offered."""
    if replaces(body, "functions"):
        return [{"type": "function", "function": function} for function in body["functions"]]
    return body.get("tools") or []


def tool_choice(body: Body) -> Any:
    """The choice of a request, in whichever way it was made."""
    if not replaces(body, "function_call"):
        return body.get("tool_choice")
    choice = body["function_call"]
    return choice if isinstance(choice, str) else {"type": "function", "function": choice}


def needs_rewriting(body: Body) -> bool:
    """Whether anything here is to be rewritten."""
    return any(replaces(body, old) for old in SUCCESSORS)


def rewrite(rewriter: Rewriter, body: Body, by_key: dict[str, Member]) -> list[str]:
    """Put the successors in the place of the old fields; functions keep their own text.

    Returns the keys to remove: explicit nulls of the successors, which would be the same key twice.
    """
    emptied = []
    for old, new in SUCCESSORS.items():
        if not replaces(body, old):
            continue
        member = by_key[old]
        value = rewriter.text[member.value_start : member.value_end]
        if old == "functions":
            starts = lossless.items(rewriter.text, member.value_start)
            rewriter.replace(member, f"[{','.join(_wrapped(lossless.value_at(rewriter.text, at)) for at in starts)}]")
        elif not isinstance(body[old], str):
            rewriter.replace(member, _wrapped(value))
        rewriter.rename(member, new)
        if new in by_key:
            emptied.append(new)
    return emptied


def _wrapped(function: str) -> str:
    return f'{{"type":"function","function":{function}}}'
