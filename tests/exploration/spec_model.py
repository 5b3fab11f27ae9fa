"""What the contract makes of a body, written a second time and in another way: the document by JSON Schema, then rules.

The reference server parses with generated models and checks rules in a stage; this model validates the document itself
and knows the rules as plain sentences. Where the two disagree, one of them is wrong.
"""

from __future__ import annotations

from typing import Any

from spec import schemas

SCHEMAS = {"chat": "ChatCompletionRequest", "completions": "CompletionRequest", "embeddings": "EmbeddingRequest"}
U32, U64, I32, I64 = (0, 2**32 - 1), (0, 2**64 - 1), (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
WIDTHS = {
    "n": U32, "best_of": U32, "logprobs": U32, "top_logprobs": U32, "min_tokens": U32, "max_tokens": U32,
    "max_completion_tokens": U32, "dimensions": U32, "sampling_seed": U64, "seed": I64, "top_k": I32,
}  # fmt: skip
OF_EMBEDDINGS = {"dimensions"}


def objections(kind: str, body: Any) -> list[str]:
    """Why the contract refuses a body; empty when it does not."""
    found = schemas.problems(SCHEMAS[kind], body)
    if found or not isinstance(body, dict):
        return found or ["no object"]
    given = {key: value for key, value in body.items() if value is not None}
    found += _widths(kind, given)
    if kind == "chat":
        found += [*_messages(given), *_chat_rules(given)]
    if kind in {"chat", "completions"}:
        found += _shared_rules(given, kind)
    if kind == "completions":
        found += _completions_rules(given)
    return found


def _widths(kind: str, given: dict[str, Any]) -> list[str]:
    known = OF_EMBEDDINGS if kind == "embeddings" else WIDTHS.keys() - OF_EMBEDDINGS
    if kind == "chat":
        known = known - {"best_of", "logprobs"}
    found = [name for name in known & given.keys() if not WIDTHS[name][0] <= given[name] <= WIDTHS[name][1]]
    if kind != "embeddings" and any(not 0 <= token <= U32[1] for token in given.get("stop_token_ids", ())):
        found.append("stop_token_ids")
    # JSON Schema takes 1.0 for an integer; the contract's integers are written as such.
    found += [name for name in known & given.keys() if isinstance(given[name], float)]
    return found + [
        name for name in {"stop_token_ids"} & given.keys() if any(isinstance(each, float) for each in given[name])
    ]


def _messages(given: dict[str, Any]) -> list[str]:
    found = []
    for message in given["messages"]:
        if message["role"] == "root":
            found.append("root is not a role of this model")
        if message["role"] == "function" and not isinstance(message["content"], str):
            found.append("function content is text")
        if message["role"] == "assistant" and {"reasoning", "reasoning_content"} <= message.keys():
            found.append("one field under two names")
    return found


def _chat_rules(given: dict[str, Any]) -> list[str]:
    found = []
    if "top_logprobs" in given and given.get("logprobs") is not True:
        found.append("top_logprobs needs logprobs")
    if any(not (key.isascii() and key.isdigit()) for key in given.get("logit_bias", {})):
        found.append("logit_bias is by token id")
    limit = given.get("max_completion_tokens", given.get("max_tokens"))
    if limit is not None and given.get("min_tokens", 0) > limit:
        found.append("min_tokens over max_completion_tokens")
    constraints = [name for name in ("regex", "ebnf") if name in given]
    if constraints and given.get("response_format", {}).get("type") in {"json_object", "json_schema"}:
        found.append("a constraint beside a JSON format")
    if len(constraints) > 1:
        found.append("two constraints")
    return found + _choice(given)


def _choice(given: dict[str, Any]) -> list[str]:
    offered = given.get("tools")
    if offered is None:
        offered = [{"type": "function", "function": each} for each in given.get("functions", ())]
    choice = given.get("tool_choice")
    if choice is None and "function_call" in given:
        call = given["function_call"]
        choice = call if isinstance(call, str) else {"type": "function", "function": call}
    if choice in (None, "none", "auto"):
        return []
    if not offered:
        return ["tool_choice needs tools"]
    names = {tool["function"]["name"] for tool in offered if tool["type"] == "function"}
    if choice == "required":
        return []
    if choice["type"] == "function":
        return [] if choice["function"]["name"] in names else ["no such function"]
    wrong = [each for each in choice["tools"] if each["type"] != "function" or each.get("name") not in names]
    return ["allowed tools that are none"] if wrong else []


def _shared_rules(given: dict[str, Any], kind: str) -> list[str]:
    found = []
    if "stream_options" in given and given.get("stream") is not True:
        found.append("stream_options needs stream")
    if kind == "completions" and given.get("min_tokens", 0) > given.get("max_tokens", 2**64):
        found.append("min_tokens over max_tokens")
    return found


def _completions_rules(given: dict[str, Any]) -> list[str]:
    found = []
    if "best_of" in given and "n" in given and given["best_of"] <= given["n"]:
        found.append("best_of not over n")
    if "best_of" in given and given.get("stream") is True:
        found.append("best_of with stream")
    if len([name for name in ("regex", "ebnf", "json_schema") if name in given]) > 1:
        found.append("two constraints")
    return found
