"""Prometheus text of the engines: the series gateways read, and their usual neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_workers.net.messages import Response

if TYPE_CHECKING:
    from fake_workers.engine.run import Engine

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _series(name: str, kind: str, labels: str, value: float) -> str:
    return (
        f"# HELP {name} {name.partition(':')[2].replace('_', ' ')}\n# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n"
    )


def vllm(engine: Engine, model: str) -> Response:
    """Return vLLM's /metrics."""
    labels = f'engine="0",model_name="{model}"'
    gauges = {
        "vllm:num_requests_running": engine.running,
        "vllm:num_requests_waiting": engine.waiting,
        "vllm:kv_cache_usage_perc": engine.kv_usage,
    }
    counters = {
        "vllm:prompt_tokens_total": engine.prompt_tokens_total,
        "vllm:generation_tokens_total": engine.generation_tokens_total,
        "vllm:prefix_cache_queries_total": engine.cache.queries,
        "vllm:prefix_cache_hits_total": engine.cache.hits,
        "vllm:request_success_total": engine.requests_total - engine.aborted_total,
    }
    text = "".join(_series(name, "gauge", labels, float(value)) for name, value in gauges.items())
    text += "".join(_series(name, "counter", labels, float(value)) for name, value in counters.items())
    return Response(200, text.encode(), _TYPE)


def sglang(engine: Engine, model: str, capacity: int) -> Response:
    """Return SGLang's /metrics (only with its metrics switched on)."""
    labels = f'engine_type="unified",model_name="{model}",moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    used = engine.kv_usage * capacity
    gauges = {
        "sglang:num_running_reqs": engine.running,
        "sglang:num_used_tokens": used,
        "sglang:token_usage": engine.kv_usage,
        "sglang:gen_throughput": 0.0,
        "sglang:num_queue_reqs": engine.waiting,
        "sglang:cache_hit_rate": engine.cache_hit_rate,
        "sglang:utilization": engine.kv_usage,
        "sglang:max_total_num_tokens": capacity,
        "sglang:kv_available_tokens": capacity - used,
    }
    counters = {
        "sglang:prompt_tokens_total": engine.prompt_tokens_total,
        "sglang:generation_tokens_total": engine.generation_tokens_total,
        "sglang:num_requests_total": engine.requests_total,
        "sglang:num_aborted_requests_total": engine.aborted_total,
    }
    text = "".join(_series(name, "gauge", labels, float(value)) for name, value in gauges.items())
    text += "".join(_series(name, "counter", labels, float(value)) for name, value in counters.items())
    return Response(200, text.encode(), _TYPE)
