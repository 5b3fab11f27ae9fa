"""What each engine refuses, and in which shape (the ranges of the two engines differ on purpose)."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from fake_workers import Fleet, WorkerSpec

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"type": "function", "function": {"name": "f"}}
TAKEN, REFUSED = 200, 400

# fields -> (status on vLLM, status on SGLang)
CHAT_TABLE: list[tuple[dict[str, Any], int, int]] = [
    ({}, TAKEN, TAKEN),
    ({"temperature": 2.0}, TAKEN, TAKEN),
    ({"temperature": 2.1}, REFUSED, TAKEN),
    ({"temperature": -0.1}, REFUSED, REFUSED),
    ({"temperature": "warm"}, REFUSED, REFUSED),
    ({"temperature": "0.5"}, TAKEN, TAKEN),
    ({"top_p": 0}, REFUSED, REFUSED),
    ({"top_p": 1}, TAKEN, TAKEN),
    ({"top_k": 0}, TAKEN, REFUSED),
    ({"top_k": -1}, TAKEN, TAKEN),
    ({"top_k": -2}, REFUSED, REFUSED),
    ({"min_p": 1.1}, REFUSED, REFUSED),
    ({"presence_penalty": 2.1}, REFUSED, REFUSED),
    ({"frequency_penalty": -2}, TAKEN, TAKEN),
    ({"repetition_penalty": 0}, REFUSED, REFUSED),
    ({"repetition_penalty": 3}, TAKEN, REFUSED),
    ({"n": 0}, REFUSED, TAKEN),
    ({"n": 2, "temperature": 0}, REFUSED, TAKEN),
    ({"stop": ["a", "b", "c", "d", "e"]}, REFUSED, TAKEN),
    ({"stop": ["x"] * 33}, REFUSED, REFUSED),
    ({"stop": ""}, REFUSED, TAKEN),
    ({"top_logprobs": 2}, REFUSED, TAKEN),
    ({"top_logprobs": 21, "logprobs": True}, REFUSED, TAKEN),
    ({"stream_options": {"include_usage": True}}, REFUSED, TAKEN),
    ({"tools": []}, REFUSED, TAKEN),
    ({"tool_choice": "auto"}, REFUSED, TAKEN),
    ({"tool_choice": "required"}, REFUSED, REFUSED),
    ({"tool_choice": "none"}, TAKEN, TAKEN),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, REFUSED, REFUSED),
    ({"tools": [TOOL], "tool_choice": "required"}, TAKEN, TAKEN),
    ({"max_tokens": 0}, REFUSED, TAKEN),
    ({"max_tokens": -1}, REFUSED, REFUSED),
    ({"max_tokens": 32767}, TAKEN, REFUSED),
    ({"max_tokens": 40000}, REFUSED, REFUSED),
    ({"reasoning_effort": 0.5}, REFUSED, TAKEN),
    ({"reasoning_effort": "0.5"}, REFUSED, TAKEN),
    ({"reasoning_effort": 5}, REFUSED, REFUSED),
    ({"reasoning_effort": "ultra"}, REFUSED, TAKEN),
    ({"reasoning_effort": "low"}, TAKEN, TAKEN),
    ({"min_tokens": 5, "max_tokens": 4}, REFUSED, REFUSED),
    ({"seed": 2**63}, REFUSED, REFUSED),
    ({"user": 7}, REFUSED, REFUSED),
    ({"user": None}, TAKEN, TAKEN),
    ({"logit_bias": {"a": 1}}, REFUSED, REFUSED),
    ({"priority": 1}, REFUSED, TAKEN),
    ({"messages": []}, REFUSED, REFUSED),
    ({"messages": "hi"}, REFUSED, REFUSED),
    ({"messages": [{"role": "wizard", "content": "x"}]}, TAKEN, REFUSED),
    ({"messages": ["hi"]}, REFUSED, REFUSED),
    ({"stream": "maybe"}, REFUSED, REFUSED),
    ({"unheard_of": 1, "regex": "a", "sampling_seed": 3}, TAKEN, TAKEN),
    ({"model": "nobody"}, 404, TAKEN),
    ({"model": "base:adapter"}, 404, REFUSED),
    ({"model": ""}, TAKEN, TAKEN),
]

COMPLETION_TABLE: list[tuple[dict[str, Any], int, int]] = [
    ({}, TAKEN, TAKEN),
    ({"prompt": ""}, REFUSED, REFUSED),
    ({"prompt": []}, REFUSED, REFUSED),
    ({"prompt": None}, REFUSED, REFUSED),
    ({"max_tokens": 0}, REFUSED, REFUSED),
    ({"max_tokens": 0, "echo": True}, TAKEN, REFUSED),
    ({"logprobs": 21}, REFUSED, TAKEN),
    ({"best_of": 3, "suffix": "x"}, TAKEN, TAKEN),
]


@pytest.mark.parametrize(("fields", "vllm", "sglang"), CHAT_TABLE, ids=[json.dumps(row[0])[:60] for row in CHAT_TABLE])
async def test_chat(fleet: Fleet, fields: dict[str, Any], vllm: int, sglang: int) -> None:
    """Each engine takes and refuses what the real one does."""
    async with httpx.AsyncClient() as http:
        statuses = [
            (await http.post(f"{url}/v1/chat/completions", json={**CHAT, **fields})).status_code for url in fleet.urls
        ]
    assert statuses[:2] == [vllm, sglang]


@pytest.mark.parametrize(
    ("fields", "vllm", "sglang"), COMPLETION_TABLE, ids=[json.dumps(row[0]) for row in COMPLETION_TABLE]
)
async def test_completions(fleet: Fleet, fields: dict[str, Any], vllm: int, sglang: int) -> None:
    """The same for completions."""
    body = {"model": "m", "prompt": "hi", **fields}
    async with httpx.AsyncClient() as http:
        statuses = [(await http.post(f"{url}/v1/completions", json=body)).status_code for url in fleet.urls]
    assert statuses[:2] == [vllm, sglang]


async def test_shapes(fleet: Fleet) -> None:
    """Errors of vLLM are nested with a param, SGLang's are flat; neither sends Retry-After."""
    async with httpx.AsyncClient() as http:
        vllm = await http.post(f"{fleet.urls[0]}/v1/chat/completions", json={**CHAT, "temperature": 3})
        sglang = await http.post(f"{fleet.urls[1]}/v1/chat/completions", json={**CHAT, "temperature": -1})
        typed = await http.post(f"{fleet.urls[0]}/v1/chat/completions", json={**CHAT, "temperature": "x", "n": "y"})
    assert list(vllm.json()["error"]) == ["message", "type", "param", "code"]
    assert (vllm.json()["error"]["type"], vllm.json()["error"]["param"]) == ("BadRequestError", "temperature")
    assert list(sglang.json()) == ["object", "message", "type", "param", "code"]
    assert sglang.json()["type"] == "BadRequestError"
    assert typed.json()["error"]["type"] == "Bad Request"
    assert typed.json()["error"]["message"].startswith("2 validation error(s):")
    assert typed.json()["error"]["param"] == "body.temperature"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b"\xff", "application/json"),
        (b"{}", "text/plain"),
        (b"", ""),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
async def test_no_request_is_too_broken(fleet: Fleet, path: str, body: bytes, content_type: str) -> None:
    """Bodies that cannot be read are refused with 400 by every engine, on every route."""
    async with httpx.AsyncClient() as http:
        for url in fleet.urls:
            answer = await http.post(
                url + path, content=body, headers={"content-type": content_type} if content_type else {}
            )
            assert answer.status_code == 400
            assert answer.json()


async def test_a_duplicate_rid(fleet: Fleet) -> None:
    """SGLang refuses a request id that is already in flight, and takes it again afterwards."""
    url = f"{fleet.urls[1]}/v1/chat/completions"
    spec = WorkerSpec(engine="sglang", model="m", latency="70b")
    async with Fleet([spec]) as slow, httpx.AsyncClient() as http:
        slow_url = f"{slow.urls[0]}/v1/chat/completions"
        body = {**CHAT, "rid": "r1", "stream": True, "max_tokens": 500, "ignore_eos": True}
        async with http.stream("POST", slow_url, json=body) as first:
            assert first.status_code == 200
            second = await http.post(slow_url, json={**body, "stream": False})
        assert second.status_code == 400
        assert "Duplicate request ID" in second.json()["message"]
        for _ in range(2):
            assert (await http.post(url, json={**CHAT, "rid": "r2"})).status_code == 200


async def test_context_length() -> None:
    """A prompt over the context is refused; prompt plus max_tokens is clamped by vLLM and refused by SGLang."""
    specs = [WorkerSpec(engine=engine, model="m", max_model_len=50) for engine in ("vllm", "sglang")]
    async with Fleet(specs) as fleet, httpx.AsyncClient() as http:
        for url, status in zip(fleet.urls, (200, 400), strict=True):
            fits = {"model": "m", "prompt": "x" * 90, "max_tokens": 45, "ignore_eos": True}
            answer = await http.post(f"{url}/v1/completions", json=fits)
            assert answer.status_code == status
            if status == 200:
                assert answer.json()["usage"]["completion_tokens"] == 20
            long = await http.post(f"{url}/v1/completions", json={"model": "m", "prompt": "x" * 200})
            assert long.status_code == 400
            assert "67 tokens" in long.text
