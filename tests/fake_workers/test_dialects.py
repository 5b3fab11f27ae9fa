"""What each engine says, key for key: golden answers and chunk sequences."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fake_workers import Fleet, Reply, Script, ToolCall, WorkerSpec, new_marker

if TYPE_CHECKING:
    from collections.abc import Callable

ENGINES = {"vllm": 0, "sglang": 1, "tokenspeed": 2}
Sse = Any
CALLING = Reply(tool_calls=[ToolCall(name="f", arguments='{"a":1}')])


async def ask(
    fleet: Fleet, engine: str, reply: Reply | None = None, *, path: str = "chat", **fields: Any
) -> httpx.Response:
    """Send a request, scripted with a reply or in engine mode."""
    marker = new_marker()
    if reply is not None:
        fleet.book.put(marker, Script.of(reply))
    prompt = {"messages": [{"role": "user", "content": marker}]} if path == "chat" else {"prompt": marker}
    target = "/v1/chat/completions" if path == "chat" else "/v1/completions"
    headers = {"x-request-id": "rid-1"}
    body = {"model": "m", **prompt, **fields}
    async with httpx.AsyncClient() as http:
        return await http.post(fleet.urls[ENGINES[engine]] + target, json=body, headers=headers)


def masked(text: str, *values: Any) -> str:
    """Return text with ids and times replaced by names."""
    for number, value in enumerate(values):
        text = text.replace(json.dumps(value), f'"<{number}>"' if isinstance(value, str) else "0")
    return text


async def test_vllm_chat(fleet: Fleet) -> None:
    """On vLLM every key is there, null by default; the gateway's request id is part of the id."""
    answer = await ask(fleet, "vllm", Reply())
    shape = answer.json()
    assert masked(answer.text, shape["created"], shape["system_fingerprint"]) == (
        '{"id":"chatcmpl-rid-1","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":'
        '{"role":"assistant","content":"Hello world","refusal":null,"annotations":null,"audio":null,'
        '"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,'
        '"routed_experts":null,"weight_versions":null}],"service_tier":null,"system_fingerprint":"<1>","usage":'
        '{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":null,'
        '"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,'
        '"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
    )
    assert shape["system_fingerprint"].startswith("vllm-0.33.0-")


async def test_sglang_chat(fleet: Fleet) -> None:
    """SGLang: bare hex id, content never null, matched_stop the EOS id, usage with reasoning_tokens, metadata."""
    answer = await ask(fleet, "sglang", Reply(), model="whatever")
    shape = answer.json()
    assert masked(answer.text, shape["created"], shape["id"]) == (
        '{"id":"<1>","object":"chat.completion","created":0,"model":"whatever","choices":[{"index":0,"message":'
        '{"role":"assistant","content":"Hello world","reasoning_content":null},"logprobs":null,"finish_reason":"stop",'
        '"matched_stop":7}],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,'
        '"prompt_tokens_details":null,"reasoning_tokens":0,"completion_tokens_details":null},'
        '"metadata":{"weight_version":"default"}}'
    )
    assert len(bytes.fromhex(shape["id"])) == 16


async def test_sglang_stream(fleet: Fleet, sse: Sse) -> None:
    """SGLang: role, content, one finish chunk without text, usage with nulls, [DONE]."""
    answer = await ask(fleet, "sglang", Reply(), stream=True, stream_options={"include_usage": True})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    role, one, two, finish, usage, done = sse(answer.content)
    none = {"logprobs": None, "finish_reason": None, "matched_stop": None}
    first = {"index": 0, "delta": {"reasoning_content": None, "role": "assistant", "content": ""}, **none}
    assert role["choices"] == [first]
    assert one["choices"][0]["delta"] == {"reasoning_content": None, "content": "Hello"}
    assert two["choices"][0]["delta"] == {"reasoning_content": None, "content": " world"}
    assert "usage" not in one
    last = {
        "index": 0,
        "delta": {"reasoning_content": None},
        "logprobs": None,
        "finish_reason": "stop",
        "matched_stop": 7,
    }
    assert finish["choices"] == [last]
    assert usage["choices"] == []
    assert list(usage["usage"])[:3] == ["prompt_tokens", "total_tokens", "completion_tokens"]
    assert usage["usage"]["prompt_tokens_details"] is None
    assert done == "[DONE]"


async def test_vllm_stream(fleet: Fleet, sse: Sse) -> None:
    """vLLM: role, content, a finish chunk with empty text, usage without nulls, no usage key before."""
    answer = await ask(fleet, "vllm", Reply(), stream=True, stream_options={"include_usage": True})
    role, one, _, finish, usage, done = sse(answer.content)
    assert list(role)[4:] == ["choices", "prompt_token_ids", "prompt_text"]
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert list(one)[4:] == ["choices", "kv_transfer_params"]
    assert list(one["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "token_ids"]
    assert finish["choices"][0]["delta"] == {"content": ""}
    assert list(finish["choices"][0])[3:] == ["finish_reason", "stop_reason", "token_ids", "weight_versions"]
    assert usage["usage"] == {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
    assert done == "[DONE]"
    assert {chunk["id"] for chunk in (role, one, finish, usage)} == {"chatcmpl-rid-1"}


async def test_vllm_length_carries_the_last_piece(fleet: Fleet, sse: Sse) -> None:
    """vLLM: on length the finish chunk carries the last piece, and the fingerprint when no usage chunk follows."""
    answer = await ask(fleet, "vllm", Reply(finish_reason="length"), stream=True)
    *_, finish, done = sse(answer.content)
    assert finish["choices"][0]["delta"] == {"content": " world"}
    assert finish["choices"][0]["finish_reason"] == "length"
    assert "system_fingerprint" in finish
    assert done == "[DONE]"


@pytest.mark.parametrize("engine", ENGINES)
async def test_n_samples(fleet: Fleet, sse: Sse, engine: str) -> None:
    """Two samples interleave; every choice ends once, with its own index."""
    answer = await ask(fleet, engine, Reply(), stream=True, n=2)
    choices = [choice for chunk in sse(answer.content)[:-1] for choice in chunk["choices"]]
    for index in (0, 1):
        mine = [choice for choice in choices if choice["index"] == index]
        assert "".join(choice["delta"].get("content") or "" for choice in mine) == "Hello world"
        assert [choice["finish_reason"] for choice in mine if choice["finish_reason"]] == ["stop"]
    assert len((await ask(fleet, engine, Reply(), n=2)).json()["choices"]) == 2


async def test_sglang_has_an_id_per_choice(fleet: Fleet, sse: Sse) -> None:
    """SGLang gives each streamed choice an id of its own; vLLM has one for all."""
    for engine, count in (("sglang", 2), ("vllm", 1)):
        chunks = sse((await ask(fleet, engine, Reply(), stream=True, n=2)).content)[:-1]
        assert len({chunk["id"] for chunk in chunks}) == count


async def test_continuous_usage(fleet: Fleet, sse: Sse) -> None:
    """continuous_usage_stats works alone on SGLang; vLLM wants include_usage too, and has it on the role chunk."""
    options = {"continuous_usage_stats": True}
    chunks = sse((await ask(fleet, "sglang", Reply(), stream=True, stream_options=options)).content)[:-1]
    assert [("usage" in chunk) for chunk in chunks] == [False, True, True, False]
    chunks = sse((await ask(fleet, "vllm", Reply(), stream=True, stream_options=options)).content)[:-1]
    assert not any("usage" in chunk for chunk in chunks)
    both = {**options, "include_usage": True}
    chunks = sse((await ask(fleet, "vllm", Reply(), stream=True, stream_options=both)).content)[:-1]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 2, 2]


async def test_tool_calls(fleet: Fleet, sse: Sse) -> None:
    """Tool calls: SGLang has an index and null fragments, vLLM neither; content is "" or null."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    vllm = (await ask(fleet, "vllm", CALLING, tools=tools)).json()["choices"][0]
    assert vllm["message"]["content"] is None
    assert list(vllm["message"])[-2:] == ["tool_calls", "reasoning"]
    assert list(vllm["message"]["tool_calls"][0]) == ["id", "type", "function"]
    assert vllm["message"]["tool_calls"][0]["id"].startswith("chatcmpl-tool-")
    assert vllm["finish_reason"] == "tool_calls"
    sglang = (await ask(fleet, "sglang", CALLING, tools=tools)).json()["choices"][0]
    assert sglang["message"]["content"] == ""
    assert list(sglang["message"]["tool_calls"][0]) == ["id", "index", "type", "function"]
    assert sglang["message"]["tool_calls"][0]["id"].startswith("call_")
    assert sglang["matched_stop"] is None
    named = {"type": "function", "function": {"name": "f"}}
    assert (await ask(fleet, "vllm", CALLING, tools=tools, tool_choice=named)).json()["choices"][0][
        "finish_reason"
    ] == "stop"
    _, start, arguments, finish, _ = sse((await ask(fleet, "vllm", CALLING, tools=tools, stream=True)).content)
    assert start["choices"][0]["delta"]["tool_calls"][0]["function"] == {"name": "f"}
    assert arguments["choices"][0]["delta"]["tool_calls"] == [{"index": 0, "function": {"arguments": '{"a":1}'}}]
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    _, start, arguments, finish, _ = sse((await ask(fleet, "sglang", CALLING, tools=tools, stream=True)).content)
    assert start["usage"] is None
    assert list(start["choices"][0]["delta"]) == ["role", "content", "reasoning_content", "tool_calls"]
    fragment = arguments["choices"][0]["delta"]["tool_calls"][0]
    assert (fragment["id"], fragment["function"]) == (None, {"name": None, "arguments": '{"a":1}'})
    assert finish["choices"][0]["matched_stop"] == 7


async def test_reasoning(fleet: Fleet, sse: Sse) -> None:
    """Reasoning is called reasoning on vLLM and reasoning_content elsewhere."""
    reply = Reply(reasoning=["because"])
    assert (await ask(fleet, "vllm", reply)).json()["choices"][0]["message"]["reasoning"] == "because"
    assert (await ask(fleet, "sglang", reply)).json()["choices"][0]["message"]["reasoning_content"] == "because"
    assert sse((await ask(fleet, "vllm", reply, stream=True)).content)[1]["choices"][0]["delta"] == {
        "reasoning": "because"
    }
    chunk = sse((await ask(fleet, "sglang", reply, stream=True)).content)[1]
    assert chunk["choices"][0]["delta"] == {"reasoning_content": "because"}
    assert (await ask(fleet, "sglang", reply)).json()["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}


async def test_logprobs(fleet: Fleet) -> None:
    """Logprobs have bytes before logprob on SGLang, after it on vLLM, and as many alternatives as asked."""
    for engine, keys in (("vllm", ["token", "logprob", "bytes"]), ("sglang", ["token", "bytes", "logprob"])):
        (choice,) = (await ask(fleet, engine, Reply(), logprobs=True, top_logprobs=2)).json()["choices"]
        first = choice["logprobs"]["content"][0]
        assert list(first) == [*keys, "top_logprobs"]
        assert first["token"] == "Hello"
        assert len(first["top_logprobs"]) == 2
    (choice,) = (await ask(fleet, "vllm", Reply(), path="completion", logprobs=1)).json()["choices"]
    assert choice["logprobs"]["text_offset"] == [0, 5]
    (choice,) = (await ask(fleet, "sglang", Reply(), path="completion", logprobs=1)).json()["choices"]
    assert choice["logprobs"]["text_offset"] == [-1, -1]


async def test_completions(fleet: Fleet, sse: Sse) -> None:
    """Completions: ids, the finish on the last text chunk, usage null on SGLang chunks and absent on vLLM's."""
    vllm = (await ask(fleet, "vllm", Reply(), path="completion")).json()
    assert vllm["id"] == "cmpl-rid-1"
    assert list(vllm)[-3:] == ["kv_transfer_params", "ec_transfer_params", "metrics"]
    _, last, done = sse((await ask(fleet, "vllm", Reply(), path="completion", stream=True)).content)
    assert "usage" not in last
    assert last["choices"][0]["finish_reason"] == "stop"
    assert done == "[DONE]"
    first, last, _ = sse((await ask(fleet, "sglang", Reply(), path="completion", stream=True)).content)
    assert first["usage"] is None
    assert (last["choices"][0]["text"], last["choices"][0]["finish_reason"]) == (" world", "stop")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_prompt_lists_and_echo(fleet: Fleet, engine: str) -> None:
    """Several prompts give prompt-major choices; echo puts the prompt in front; usage counts each prompt once."""
    answer = await ask(fleet, engine, path="completion", prompt=["abc", "defghi"], n=2, max_tokens=3, echo=True)
    shape = answer.json()
    assert [choice["index"] for choice in shape["choices"]] == [0, 1, 2, 3]
    assert [choice["text"][:3] for choice in shape["choices"]] == ["abc", "abc", "def", "def"]
    assert shape["usage"]["prompt_tokens"] == 1 + 2
    assert shape["usage"]["completion_tokens"] == 12
    ids = (await ask(fleet, engine, path="completion", prompt=[int.from_bytes(b"abc", "big")], echo=True)).json()
    assert ids["choices"][0]["text"].startswith("abc")


@pytest.mark.parametrize("engine", ENGINES)
async def test_embeddings(fleet: Fleet, engine: str) -> None:
    """Embeddings come as floats or base64 of the same floats, one for each input; a reply can give the vector."""
    url = fleet.urls[ENGINES[engine]] + "/v1/embeddings"
    async with httpx.AsyncClient() as http:
        floats = (await http.post(url, json={"model": "m", "input": ["a", "b"]})).json()
        packed = (await http.post(url, json={"model": "m", "input": ["a", "b"], "encoding_format": "base64"})).json()
        marker = new_marker()
        fleet.book.put(marker, Script.of(Reply(embedding=[0.5, -1.0], prompt_tokens=9)))
        given = (await http.post(url, json={"model": "m", "input": marker})).json()
    for one, other in zip(floats["data"], packed["data"], strict=True):
        unpacked = struct.unpack("<8f", base64.b64decode(other["embedding"]))
        assert unpacked == pytest.approx(one["embedding"], abs=1e-6)
    assert given["data"][0]["embedding"] == [0.5, -1.0]
    assert given["usage"]["prompt_tokens"] == 9


async def test_information(fleet: Fleet) -> None:
    """The endpoints gateways detect an engine by: who answers which, and with what."""
    async with httpx.AsyncClient() as http:

        async def status(engine: str, path: str) -> int:
            """Return the status of a path on an engine."""
            return (await http.get(fleet.urls[ENGINES[engine]] + path)).status_code

        table = {
            "/v1/models": (200, 200, 200),
            "/version": (200, 404, 404),
            "/server_info": (404, 200, 404),
            "/get_server_info": (404, 200, 200),
            "/model_info": (404, 200, 404),
            "/v1/loads": (404, 200, 404),
            "/metrics": (200, 404, 404),
            "/readiness": (404, 404, 200),
            "/v1/models/m": (404, 200, 404),
        }
        for path, expected in table.items():
            assert tuple([await status(engine, path) for engine in ENGINES]) == expected, path
        cards = [(await http.get(url + "/v1/models")).json()["data"][0] for url in fleet.urls]
        assert [card["owned_by"] for card in cards] == ["vllm", "sglang", "self_hosted"]
        assert (cards[0]["root"], cards[1]["root"]) == ("/models/m", "m")
        assert list(cards[2]) == ["id", "object", "created", "owned_by"]
        assert (await http.get(fleet.urls[0] + "/nope")).json() == {"detail": "Not Found"}
        wrong = await http.get(fleet.urls[0] + "/v1/completions")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_sglang_generate(fleet: Fleet, sse: Sse) -> None:
    """SGLang's native route: meta_info, cumulative stream, batches, and its contract gate."""
    url = fleet.urls[1] + "/generate"
    async with httpx.AsyncClient() as http:
        params = {"max_new_tokens": 3, "ignore_eos": True}
        whole = (await http.post(url, json={"text": "abc", "sampling_params": params})).json()
        assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 3}
        assert len(whole["output_ids"]) == 3
        stream = await http.post(url, json={"text": "abc", "sampling_params": params, "stream": True})
        *events, done = sse(stream.content)
        assert [len(event["output_ids"]) for event in events] == [1, 2, 3]
        assert events[-1]["text"] == whole["text"]
        assert [event["meta_info"]["finish_reason"] is None for event in events] == [True, True, False]
        assert done == "[DONE]"
        batch = (await http.post(url, json={"text": ["a", "b"], "sampling_params": params})).json()
        assert len(batch) == 2
        gate = await http.post(url, json={"text": "a", "sampling_params": {"speed": 9}})
        assert (gate.status_code, gate.json()) == (400, {"error": "Unknown sampling_params: speed"})
        both = await http.post(url, json={"text": "a", "input_ids": [1]})
        assert (both.status_code, list(both.json()["error"])) == (400, ["message"])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_tokenise_and_back(fleet: Fleet, engine: str) -> None:
    """Tokens of a text are counted as usage counts them, and give the text back."""
    url = fleet.urls[ENGINES[engine]]
    async with httpx.AsyncClient() as http:
        made = (await http.post(f"{url}/tokenize", json={"model": "m", "prompt": "hello wörld"})).json()
        back = (await http.post(f"{url}/detokenize", json={"model": "m", "tokens": made["tokens"]})).json()
    assert made["count"] == len(made["tokens"])
    assert back == {"prompt" if engine == "vllm" else "text": "hello wörld"}


async def test_a_busy_engine(sse: Sse) -> None:
    """Queue full: 503 on vLLM; on SGLang 503 without stream, but 200 with an error event for a stream."""
    specs = [
        WorkerSpec(engine=engine, model="m", slots=1, max_queued=0, latency="70b") for engine in ("vllm", "sglang")
    ]
    async with Fleet(specs) as fleet, httpx.AsyncClient() as http:
        body = {"model": "m", "prompt": "x", "max_tokens": 200, "ignore_eos": True, "stream": True}
        for url, name in zip(fleet.urls, ("vllm", "sglang"), strict=True):
            async with http.stream("POST", f"{url}/v1/completions", json=body) as first:
                assert first.status_code == 200
                whole = await http.post(f"{url}/v1/completions", json={**body, "stream": False})
                stream = await http.post(f"{url}/v1/completions", json=body)
            assert whole.status_code == 503
            assert "retry-after" not in whole.headers
            if name == "vllm":
                assert whole.json()["error"]["code"] == 503
                assert stream.status_code == 503
            else:
                assert whole.json()["object"] == "error"
                assert stream.status_code == 200
                error, done = sse(stream.content)
                assert error["error"]["type"] == "SERVICE_UNAVAILABLE"
                assert done == "[DONE]"


async def test_an_aborted_request_gives_its_slot_back() -> None:
    """A client that leaves frees its slot for the one that waits."""
    spec = WorkerSpec(engine="vllm", model="m", slots=1, latency="8b")
    async with Fleet([spec]) as fleet, httpx.AsyncClient(timeout=5) as http:
        body = {"model": "m", "prompt": "x", "max_tokens": 30000, "ignore_eos": True, "stream": True}
        async with http.stream("POST", f"{fleet.urls[0]}/v1/completions", json=body):
            pass
        after = await http.post(f"{fleet.urls[0]}/v1/completions", json={"model": "m", "prompt": "y", "max_tokens": 2})
        assert after.status_code == 200
        assert fleet.workers["w0"].engine.aborted_total == 1


async def test_cached_tokens_are_reported(fleet: Fleet) -> None:
    """With a prefix cache and the report switched on, the second request has cached tokens."""
    spec = WorkerSpec(engine="sglang", model="m", prefix_cache_tokens=1024, cache_report=True)
    async with Fleet([spec]) as cached, httpx.AsyncClient() as http:
        usages = [
            (await http.post(f"{cached.urls[0]}/v1/completions", json={"prompt": "p" * 200})).json()["usage"]
            for _ in range(2)
        ]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [0, 64]
    assert (await ask(fleet, "sglang")).json()["usage"]["prompt_tokens_details"] is None


async def test_latency_profile_takes_time() -> None:
    """With a latency profile a stream's tokens are spread over time."""
    async with Fleet([WorkerSpec(engine="vllm", model="m", latency="8b")]) as fleet, httpx.AsyncClient() as http:
        body = {"model": "m", "prompt": "x", "max_tokens": 16, "ignore_eos": True, "stream": True}
        await http.post(f"{fleet.urls[0]}/v1/completions", json=body)
        (entry,) = fleet.journal.all_entries()
    assert entry.completed_at is not None
    assert entry.completed_at - entry.received_at >= 0.02 + 15 * 0.005


async def test_vllm_sends_the_head_early(raw: Callable[[str], Any], fleet: Fleet) -> None:
    """A vLLM sends the head before the first token, SGLang with the first event."""
    for engine, early in (("vllm", True), ("sglang", False)):
        marker = new_marker()
        fleet.book.put(marker, Script.of(Reply(hold_before={-1: "start", 0: "first"})))
        async with raw(fleet.urls[ENGINES[engine]]) as client:
            await client.post("/v1/completions", json.dumps({"model": "m", "stream": True, "prompt": marker}).encode())
            assert await fleet.book.reached(marker, "start", 5)
            assert fleet.journal.entries(marker)[0].answered_at is None
            fleet.book.release(marker, "start")
            assert await fleet.book.reached(marker, "first", 5)
            assert (fleet.journal.entries(marker)[0].answered_at is not None) == early


async def test_start_up_phases() -> None:
    """A starting SGLang refuses, then answers 503 to health checks but serves models, then is healthy."""
    spec = WorkerSpec(engine="sglang", model="m", start_refused_s=0.2, start_loading_s=0.4)
    async with Fleet([spec]) as fleet, httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{fleet.urls[0]}/health")
        seen = []
        while 200 not in seen:
            try:
                seen.append((await http.get(f"{fleet.urls[0]}/health")).status_code)
            except httpx.ConnectError:
                seen.append(0)
            if seen[-1] == 503:
                assert (await http.get(f"{fleet.urls[0]}/v1/models")).status_code == 200
        assert {0, 503, 200} >= set(seen)
        assert 503 in seen


async def test_api_key() -> None:
    """An engine with a key refuses others: vLLM under /v1, SGLang everywhere but health."""
    specs = [WorkerSpec(engine=engine, model="m", api_key="k") for engine in ("vllm", "sglang")]
    async with Fleet(specs) as fleet, httpx.AsyncClient() as http:
        for url in fleet.urls:
            refused = await http.get(f"{url}/v1/models")
            assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})
            assert (await http.get(f"{url}/v1/models", headers={"authorization": "Bearer k"})).status_code == 200
            assert (await http.get(f"{url}/health")).status_code == 200
