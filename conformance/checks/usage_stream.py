"""Chat Completions: stream_options on their way to an HTTP engine, and the usage chunks on their way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.stream_support import ALL_ENGINES, chunk, relayed_chunks
from conformance.harness import clause, engines
from fake_workers import wire
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
USAGE_ONLY = chunk(choices=[], usage=USAGE)
TEXT = (chunk("one"), chunk("two"), chunk(finish="stop"))


async def forwarded_options(gateway: Gateway, worker: Worker, **fields: Any) -> Any:
    """Return the stream_options that the engine received, None if there were none."""
    script = worker.script(wire.sse(*TEXT))
    chat = await gateway.chat(script, stream=True, **fields)
    received = (await script.only()).json
    assert chat.succeeded, chat.brief()
    assert received["stream"] is True
    return received.get("stream_options")


@engines(*ALL_ENGINES)
@clause("chat.usage.stream.default_off")
async def test_usage_is_not_asked_for(gateway: Gateway, worker: Worker) -> None:
    """A streaming request without stream_options does not ask the engine for usage."""
    options = await forwarded_options(gateway, worker)
    assert not (options or {}).get("include_usage")


@engines(*ALL_ENGINES)
@clause("chat.usage.stream.default_off_client")
async def test_no_usage_chunk_by_default(gateway: Gateway, worker: Worker) -> None:
    """An engine that sends usage when asked sends the client none when the client did not ask."""
    chat = await gateway.chat(worker.script(Reply(pieces=["a", "b"])), stream=True)
    assert chat.chunks, "a stream without a chunk proves nothing"
    assert [one for one in chat.chunks if one["choices"] == [] or one.get("usage")] == []


@clause("chat.usage.stream.true_reaches_engine")
async def test_true_reaches_the_engine(gateway: Gateway, worker: Worker) -> None:
    """include_usage true is true for the engine."""
    options = await forwarded_options(gateway, worker, stream_options={"include_usage": True})
    assert options["include_usage"] is True


@clause("chat.usage.stream.false_reaches_engine")
async def test_false_is_kept(gateway: Gateway, worker: Worker) -> None:
    """include_usage false does not become true on its way."""
    options = await forwarded_options(gateway, worker, stream_options={"include_usage": False})
    assert not (options or {}).get("include_usage")


@engines(*ALL_ENGINES)
@clause("chat.usage.stream.last_chunk_empty_choices")
async def test_usage_chunk_has_no_choices(gateway: Gateway, worker: Worker) -> None:
    """The chunk that carries the request's usage has an empty choices array."""
    reply = Reply(pieces=["a", "b"], prompt_tokens=9, completion_tokens=2)
    chat = await gateway.chat(worker.script(reply), stream=True, stream_options={"include_usage": True})
    carriers = [one for one in chat.chunks if one.get("usage")]
    assert carriers, chat.brief()
    assert carriers[-1]["choices"] == []


@engines(*ALL_ENGINES)
@clause("chat.usage.stream.last_chunk_is_final")
async def test_usage_chunk_comes_last(gateway: Gateway, worker: Worker) -> None:
    """The usage chunk is the final chunk, and only [DONE] follows it."""
    reply = Reply(pieces=["a", "b"], prompt_tokens=9, completion_tokens=2)
    chat = await gateway.chat(worker.script(reply), stream=True, stream_options={"include_usage": True})
    *_, last, done = chat.events
    assert done.is_done
    assert last.json["usage"]["total_tokens"] == 11


@clause("chat.usage.stream.whole_request")
async def test_usage_of_the_whole_request(gateway: Gateway, worker: Worker) -> None:
    """With n = 2 the one usage chunk carries what the engine counted for both choices."""
    usage = {"prompt_tokens": 9, "completion_tokens": 4 + 7, "total_tokens": 20}
    chunks = [
        chunk("a"),
        chunk("b", index=1),
        chunk(finish="stop"),
        chunk(index=1, finish="stop"),
        chunk(choices=[], usage=usage),
    ]
    got = await relayed_chunks(gateway, worker, *chunks, n=2, stream_options={"include_usage": True})
    assert got[-1]["usage"] == usage
    assert got[-1]["choices"] == []


@engines(*ALL_ENGINES)
@clause("chat.usage.stream.once")
async def test_one_usage_chunk(gateway: Gateway, worker: Worker) -> None:
    """Exactly one usage-only chunk is sent, with n = 2 as well."""
    script = worker.script(Reply(pieces=["a", "b"], prompt_tokens=9, completion_tokens=2))
    chat = await gateway.chat(script, stream=True, n=2, stream_options={"include_usage": True})
    assert sum(one["choices"] == [] for one in chat.chunks) == 1


@clause("chat.usage.stream.engine_makes_it")
async def test_no_usage_chunk_is_made_up(gateway: Gateway, worker: Worker) -> None:
    """An engine that sends no usage although it was asked leaves the client without a usage chunk."""
    got = await relayed_chunks(gateway, worker, *TEXT, stream_options={"include_usage": True})
    assert got == list(TEXT)


@clause("chat.usage.stream.unasked_kept")
async def test_unasked_usage_chunk(gateway: Gateway, worker: Worker) -> None:
    """An engine that always sends usage, such as one started to do so, sends it to the client."""
    got = await relayed_chunks(gateway, worker, *TEXT, USAGE_ONLY)
    assert [one["usage"] for one in got if one.get("usage")] == [USAGE]


@clause("chat.usage.stream.null_usage_kept")
async def test_null_usage_on_chunks(gateway: Gateway, worker: Worker) -> None:
    """Ordinary chunks with usage null reach the client with usage null."""
    chunks = [one | {"usage": None} for one in TEXT]
    got = await relayed_chunks(gateway, worker, *chunks, USAGE_ONLY, stream_options={"include_usage": True})
    assert got == [*chunks, USAGE_ONLY]


@clause("chat.usage.stream.no_usage_added")
async def test_no_usage_on_ordinary_chunks(gateway: Gateway, worker: Worker) -> None:
    """Ordinary chunks without a usage member reach the client without one."""
    got = await relayed_chunks(gateway, worker, *TEXT, USAGE_ONLY, stream_options={"include_usage": True})
    assert ["usage" in one for one in got] == [False, False, False, True]


@clause("chat.usage.stream.continuous_reaches_engine")
@pytest.mark.parametrize("value", [True, False])
async def test_continuous_usage_reaches_the_engine(gateway: Gateway, worker: Worker, *, value: bool) -> None:
    """continuous_usage_stats reaches the engine with its value."""
    options = await forwarded_options(
        gateway, worker, stream_options={"include_usage": True, "continuous_usage_stats": value}
    )
    assert options == {"include_usage": True, "continuous_usage_stats": value}


@clause("chat.usage.stream.continuous_relayed")
async def test_running_usage_reaches_the_client(gateway: Gateway, worker: Worker) -> None:
    """Every chunk's running usage reaches the client on that chunk."""
    chunks = [
        one | {"usage": {"prompt_tokens": 9, "completion_tokens": number, "total_tokens": 9 + number}}
        for number, one in enumerate(TEXT)
    ]
    options = {"include_usage": True, "continuous_usage_stats": True}
    assert await relayed_chunks(gateway, worker, *chunks, USAGE_ONLY, stream_options=options) == [*chunks, USAGE_ONLY]


@clause("chat.usage.stream.options_unknown_keys")
@pytest.mark.parametrize("value", [3, "text", True, None, [1, "a"], 0.5], ids=repr)
async def test_unknown_options(gateway: Gateway, worker: Worker, value: Any) -> None:
    """A stream option of tomorrow reaches the engine with its value, whatever its type."""
    options = {"include_usage": True, "something_of_tomorrow": value}
    assert await forwarded_options(gateway, worker, stream_options=options) == options


@clause("chat.usage.stream.options_nested")
async def test_nested_unknown_options(gateway: Gateway, worker: Worker) -> None:
    """Objects and arrays under an unknown stream option reach the engine whole, nulls included."""
    options = {"include_usage": True, "x": {"y": [1, None, {"z": "é"}], "w": {}}}
    assert await forwarded_options(gateway, worker, stream_options=options) == options


@clause("chat.usage.stream.options_empty")
async def test_empty_options(gateway: Gateway, worker: Worker) -> None:
    """An empty stream_options is accepted with stream true and asks the engine for nothing."""
    assert not (await forwarded_options(gateway, worker, stream_options={}) or {}).get("include_usage")


@engines("sglang")
@clause("chat.usage.stream.options_step")
async def test_step_usage_chunks(gateway: Gateway, worker: Worker) -> None:
    """step_usage_chunks reaches the engine with its number."""
    options = {"include_usage": True, "continuous_usage_stats": True, "step_usage_chunks": 3}
    assert await forwarded_options(gateway, worker, stream_options=options) == options
