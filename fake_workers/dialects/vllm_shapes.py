"""vLLM's JSON, key for key: objects, chunks, usage. Source: vLLM 0.33 protocol classes, serialised."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.engine import model as fake_model
from fake_workers.engine import tokens

if TYPE_CHECKING:
    from fake_workers.engine.outcome import Call, Choice, Outcome
    from fake_workers.script import ToolCall

VERSION = "0.33.0"


def fingerprint(model: str, version: str) -> str:
    """Return the system fingerprint: version and eight hex digits of the configuration."""
    return f"vllm-{version}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"


def tool_id(call: ToolCall) -> str:
    """Return a tool call's id: the script's, or one of vLLM's own form."""
    return f"chatcmpl-tool-{uuid.uuid4().hex[:16]}" if call.id is None else call.id


def usage(outcome: Outcome, *, with_nulls: bool, reasoning_parser: bool) -> dict[str, Any]:
    """Return usage; a stream's usage chunk leaves nulls out."""
    shape: dict[str, Any] = {
        "prompt_tokens": outcome.prompt_tokens,
        "total_tokens": outcome.prompt_tokens + outcome.completion_tokens,
        "completion_tokens": outcome.completion_tokens,
    }
    if outcome.cached_tokens is not None:
        shape["prompt_tokens_details"] = {"cached_tokens": outcome.cached_tokens}
    elif with_nulls:
        shape["prompt_tokens_details"] = None
    if reasoning_parser or outcome.reasoning_tokens:
        shape["completion_tokens_details"] = {"reasoning_tokens": outcome.reasoning_tokens or 0}
    elif with_nulls:
        shape["completion_tokens_details"] = None
    return shape


def running_usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Return the usage of continuous_usage_stats."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def chat_logprobs(pieces: list[str], count: int | None) -> dict[str, Any] | None:
    """Return the logprobs object of a chat choice: token, logprob, bytes, top_logprobs."""
    if count is None:
        return None
    return {
        "content": [{**_one_logprob(piece, 0, piece), "top_logprobs": _top_logprobs(piece, count)} for piece in pieces]
    }


def _one_logprob(text: str, rank: int, chosen: str) -> dict[str, Any]:
    return {"token": text, "logprob": fake_model.logprob_of(chosen, rank), "bytes": list(text.encode())}


def _top_logprobs(piece: str, count: int) -> list[dict[str, Any]]:
    return [_one_logprob(text, rank, piece) for rank, text in enumerate(fake_model.alternatives(piece, count))]


def completion_logprobs(pieces: list[str], count: int | None, offset: int = 0) -> dict[str, Any] | None:
    """Return the logprobs object of a completion choice: real offsets, at most one alternative more than asked."""
    if count is None:
        return None
    offsets = []
    for piece in pieces:
        offsets.append(offset)
        offset += len(piece)
    return {
        "text_offset": offsets,
        "token_logprobs": [fake_model.logprob_of(piece) for piece in pieces],
        "tokens": list(pieces),
        "top_logprobs": [
            {
                text: fake_model.logprob_of(piece, rank)
                for rank, text in enumerate(fake_model.alternatives(piece, max(count, 1)))
            }
            for piece in pieces
        ],
    }


def chat_message(choice: Choice, *, forced_tool: bool) -> dict[str, Any]:
    """Return the message of a non-streaming choice."""
    content: str | None = choice.text
    if choice.tool_calls and not content:
        content = "" if forced_tool else None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if choice.tool_calls:
        message["tool_calls"] = [
            {"id": tool_id(call), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in choice.tool_calls
        ]
    message["reasoning"] = "".join(choice.reasoning) if choice.reasoning else None
    return message


def finish_reason(call: Call, choice: Choice) -> str:
    """Return the finish reason; a named tool keeps ``stop``."""
    if choice.finish_reason == "tool_calls" and call.tool_mode == "named":
        return "stop"
    return choice.finish_reason


def chat_choice(call: Call, choice: Choice) -> dict[str, Any]:
    """Return a non-streaming chat choice."""
    return {
        "index": choice.index,
        "message": chat_message(choice, forced_tool=call.tool_mode in {"required", "named"}),
        "logprobs": chat_logprobs(choice.pieces, call.logprobs),
        "finish_reason": finish_reason(call, choice),
        "stop_reason": choice.matched,
        "token_ids": None,
        "routed_experts": None,
        "weight_versions": None,
    }


def completion_choice(call: Call, choice: Choice, echoed: str) -> dict[str, Any]:
    """Return a non-streaming completion choice; ``echoed`` is the prompt put in front."""
    pieces = [*tokens.split(echoed), *choice.pieces] if echoed else choice.pieces
    logprobs = completion_logprobs(pieces, call.logprobs)
    if logprobs is not None and echoed:
        logprobs["token_logprobs"][0] = None
        logprobs["top_logprobs"][0] = None
    return {
        "index": choice.index,
        "text": echoed + choice.text,
        "logprobs": logprobs,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.matched,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
        "weight_versions": None,
    }


def model_card(name: str, root: str, max_model_len: int, created: int) -> dict[str, Any]:
    """Return an entry of the models list, its permission object included."""
    permission = {
        "id": f"modelperm-{hashlib.sha256(name.encode()).hexdigest()[:16]}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": root,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [permission],
    }
