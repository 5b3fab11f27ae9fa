"""SGLang's JSON, key for key. Source: SGLang 0.5.23 protocol classes, serialised."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from fake_workers.engine import model as fake_model

if TYPE_CHECKING:
    from fake_workers.engine.outcome import Choice, Outcome
    from fake_workers.script import ToolCall

VERSION = "0.5.23"
EOS_TOKEN_ID = 7  # the id a natural stop matched


def tool_id(call: ToolCall) -> str:
    """Return a tool call's id: the script's, or ``call_`` and 24 hex digits."""
    return f"call_{uuid.uuid4().hex[:24]}" if call.id is None else call.id


def matched_stop(choice: Choice, *, stream: bool) -> Any:
    """Return what ended a choice: the stop string, the EOS id, or null (also for tool calls when not streaming)."""
    if choice.matched is not None:
        return choice.matched
    if choice.finish_reason == "stop" or (stream and choice.finish_reason == "tool_calls"):
        return EOS_TOKEN_ID
    return None


def usage(outcome: Outcome, *, with_nulls: bool = True) -> dict[str, Any]:
    """Return usage: total before completion, reasoning_tokens at the top level."""
    reasoning = outcome.reasoning_tokens or 0
    shape: dict[str, Any] = {
        "prompt_tokens": outcome.prompt_tokens,
        "total_tokens": outcome.prompt_tokens + outcome.completion_tokens,
        "completion_tokens": outcome.completion_tokens,
        "prompt_tokens_details": None if outcome.cached_tokens is None else {"cached_tokens": outcome.cached_tokens},
        "reasoning_tokens": reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }
    return shape if with_nulls else {key: value for key, value in shape.items() if value is not None}


def running_usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Return the usage of continuous_usage_stats."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
        "completion_tokens_details": None,
    }


def chat_logprobs(pieces: list[str], count: int | None) -> dict[str, Any] | None:
    """Return the logprobs of a chat choice: bytes come before logprob."""
    if count is None:
        return None
    return {
        "content": [
            {
                **_one_logprob(piece, 0, piece),
                "top_logprobs": [
                    _one_logprob(text, rank, piece) for rank, text in enumerate(fake_model.alternatives(piece, count))
                ],
            }
            for piece in pieces
        ]
    }


def _one_logprob(text: str, rank: int, chosen: str) -> dict[str, Any]:
    return {"token": text, "bytes": list(text.encode()), "logprob": fake_model.logprob_of(chosen, rank)}


def completion_logprobs(pieces: list[str], count: int | None) -> dict[str, Any] | None:
    """Return the logprobs of a completion choice: all offsets -1, exactly ``count`` alternatives."""
    if count is None:
        return None
    return {
        "text_offset": [-1] * len(pieces),
        "token_logprobs": [fake_model.logprob_of(piece) for piece in pieces],
        "tokens": list(pieces),
        "top_logprobs": [
            {
                text: fake_model.logprob_of(piece, rank)
                for rank, text in enumerate(fake_model.alternatives(piece, count))
            }
            for piece in pieces
        ],
    }


def chat_message(choice: Choice) -> dict[str, Any]:
    """Return the message of a non-streaming choice: content is never null, tool calls carry an index."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": choice.text,
        "reasoning_content": "".join(choice.reasoning) if choice.reasoning else None,
    }
    if choice.tool_calls:
        message["tool_calls"] = [
            {
                "id": tool_id(call),
                "index": number,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(choice.tool_calls)
        ]
    return message


LOAD_SECTIONS = frozenset({"core", "memory", "spec", "lora", "disagg", "queues", "all"})


def load_of_one_rank(  # the engine's own name for one entry
    at: float, *, running: int, waiting: int, usage: float, total: int, slots: int, hit_rate: float
) -> dict[str, Any]:
    """Return the flat core keys of a /v1/loads entry, in order."""
    used = int(usage * total)
    return {
        "timestamp": at,
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_waiting_uncached_tokens": 0,
        "num_used_tokens": used,
        "num_total_tokens": used,
        "num_active_tokens": used,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": total,
        "max_running_requests": slots,
        "token_usage": round(usage, 4),
        "gen_throughput": 0.0,
        "cache_hit_rate": round(hit_rate, 4),
        "utilization": round(min(running / slots, 1.0), 4) if slots else 0.0,
        "total_prefill_uncached_tokens": 0,
        "total_prefill_busy_us": 0,
        "decode_moments": None,
    }


def load_sections(wanted: set[str], waiting: int) -> dict[str, Any]:
    """Return the nested sections of a /v1/loads entry that were asked for and that this engine knows."""
    sections: dict[str, Any] = {}
    if wanted & {"memory", "all"}:
        sections["memory"] = {"weight_gb": 0.0, "kv_cache_gb": 0.0, "graph_gb": 0.0, "token_capacity": 0}
    if wanted & {"disagg", "all"}:
        sections["disaggregation"] = {
            "mode": "null",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        }
    if wanted & {"queues", "all"}:
        sections["queues"] = {"waiting": waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0}
    return sections
