"""Chat Completions: usage of a non-streaming answer. Behind HTTP workers it is the engine's own object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.stream_support import ALL_ENGINES, completion_answer
from conformance.harness import clause, engines
from fake_workers import wire
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker


async def usage_of(gateway: Gateway, worker: Worker, usage: Any, **fields: Any) -> Any:
    """Let the worker answer with this usage, and return the one the client got."""
    script = worker.script(wire.json(200, completion_answer(usage=usage)))
    chat = await gateway.chat(script, **fields)
    await script.only()
    assert chat.succeeded, chat.brief()
    return chat.json["usage"]


@engines(*ALL_ENGINES)
@clause("chat.usage.prompt_tokens")
async def test_prompt_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads the prompt tokens that the engine counted."""
    chat = await gateway.chat(worker.script(Reply(pieces=["a", "b"], prompt_tokens=37, completion_tokens=11)))
    assert chat.json["usage"]["prompt_tokens"] == 37


@engines(*ALL_ENGINES)
@clause("chat.usage.completion_tokens")
async def test_completion_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads the completion tokens that the engine counted."""
    chat = await gateway.chat(worker.script(Reply(pieces=["a", "b"], prompt_tokens=37, completion_tokens=11)))
    assert chat.json["usage"]["completion_tokens"] == 11


@engines(*ALL_ENGINES)
@clause("chat.usage.total_tokens")
async def test_total_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads the total that the engine counted."""
    chat = await gateway.chat(worker.script(Reply(pieces=["a", "b"], prompt_tokens=37, completion_tokens=11)))
    assert chat.json["usage"]["total_tokens"] == 48


N3_CHOICES = [
    {"index": index, "message": {"role": "assistant", "content": "x" * (index + 1)}, "finish_reason": "stop"}
    for index in range(3)
]
N3_USAGE = {"prompt_tokens": 7, "completion_tokens": 4 + 6 + 5, "total_tokens": 22}


@clause("chat.usage.n.prompt_once")
async def test_prompt_is_counted_once(gateway: Gateway, worker: Worker) -> None:
    """With n = 3 the prompt that the engine counted once is counted once for the client."""
    script = worker.script(wire.json(200, completion_answer(choices=N3_CHOICES, usage=N3_USAGE)))
    chat = await gateway.chat(script, n=3)
    assert (await script.only()).json["n"] == 3, "one request for three choices, or the prompt is paid three times"
    assert chat.json["usage"]["prompt_tokens"] == 7


@clause("chat.usage.n.completions_summed")
async def test_completions_are_summed(gateway: Gateway, worker: Worker) -> None:
    """With n = 3 the client reads the engine's sum over all choices."""
    script = worker.script(wire.json(200, completion_answer(choices=N3_CHOICES, usage=N3_USAGE)))
    chat = await gateway.chat(script, n=3)
    assert chat.json["usage"]["completion_tokens"] == 15
    assert chat.json["usage"]["total_tokens"] == 22


@clause("chat.usage.cached_tokens")
async def test_cached_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads how many prompt tokens came from the prefix cache."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    assert (await usage_of(gateway, worker, usage))["prompt_tokens_details"]["cached_tokens"] == 8


@clause("chat.usage.reasoning_tokens", "chat.usage.http.zero_reasoning")
@pytest.mark.parametrize("count", [5, 0])
async def test_reasoning_tokens(gateway: Gateway, worker: Worker, count: int) -> None:
    """The client reads the reasoning tokens that the engine reported, 0 included."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 6,
        "total_tokens": 15,
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    assert (await usage_of(gateway, worker, usage))["completion_tokens_details"] == {"reasoning_tokens": count}


SPECULATIVE = {"accepted_prediction_tokens": 12, "rejected_prediction_tokens": 3}


@clause("chat.usage.accepted_prediction_tokens")
async def test_accepted_prediction_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads how many draft tokens were accepted."""
    usage = {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29, "completion_tokens_details": SPECULATIVE}
    assert (await usage_of(gateway, worker, usage))["completion_tokens_details"]["accepted_prediction_tokens"] == 12


@clause("chat.usage.rejected_prediction_tokens")
async def test_rejected_prediction_tokens(gateway: Gateway, worker: Worker) -> None:
    """The client reads how many draft tokens were rejected."""
    usage = {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29, "completion_tokens_details": SPECULATIVE}
    assert (await usage_of(gateway, worker, usage))["completion_tokens_details"]["rejected_prediction_tokens"] == 3


@clause("chat.usage.http.own_object")
@pytest.mark.parametrize(
    "usage",
    [
        {
            "prompt_tokens": 5,
            "total_tokens": 7,
            "completion_tokens": 2,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
        },
        {"prompt_tokens": 5, "total_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        {"total_tokens": 7, "completion_tokens": 2, "prompt_tokens": 5},
    ],
    ids=["with-nulls", "with-details", "in-another-order"],
)
async def test_the_engines_own_object(gateway: Gateway, worker: Worker, usage: dict[str, Any]) -> None:
    """The usage object reaches the client with the engine's keys in the engine's order."""
    got = await usage_of(gateway, worker, usage)
    assert list(got.items()) == list(usage.items())


@clause("chat.usage.http.nulls")
async def test_null_details_stay(gateway: Gateway, worker: Worker) -> None:
    """Details that an engine sends as null are null for the client, neither gone nor filled."""
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }
    assert await usage_of(gateway, worker, usage) == usage


@clause("chat.usage.http.extra_keys")
async def test_keys_of_one_engine_stay(gateway: Gateway, worker: Worker) -> None:
    """Keys of usage that the contract does not name reach the client, also inside the details."""
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "reasoning_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": 1, "created_cache_tokens": 4, "image_tokens": 0},
        "energy_joules": 0.5,
    }
    assert await usage_of(gateway, worker, usage) == usage


@clause("chat.usage.http.not_recomputed")
async def test_wrong_sums_are_the_engines_own(gateway: Gateway, worker: Worker) -> None:
    """Counts that do not add up, and do not fit the text, are handed over."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 7}
    assert await usage_of(gateway, worker, usage) == usage


@clause("chat.usage.http.not_invented")
async def test_no_usage_is_made_up(gateway: Gateway, worker: Worker) -> None:
    """An answer without usage, and one with usage null, reach the client so."""
    without = completion_answer()
    del without["usage"]
    chat = await gateway.chat(worker.script(wire.json(200, without)))
    assert chat.json == without
    assert await usage_of(gateway, worker, None) is None


@clause("chat.usage.http.no_speculative")
async def test_no_speculative_counts_are_made_up(gateway: Gateway, worker: Worker) -> None:
    """An engine that reports no draft tokens leaves the client without such counts."""
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    got = await usage_of(gateway, worker, usage)
    assert got["completion_tokens_details"] == {"reasoning_tokens": 1}
