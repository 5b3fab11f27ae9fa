"""Paths, methods, public routes, and what is on every answer."""

from __future__ import annotations

import pytest

from reference_server.settings import Settings, TenantKey
from reference_server.workers.exchange import ModelCard
from tests.reference_server.front import CHAT, Front, StubWorkers


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"), ("GET", "/nope"), ("POST", "/v1/nope"), ("POST", "/chat/completions"), ("GET", "/v1/models/"),
        ("POST", "//v1/chat/completions"), ("POST", "/V1/chat/completions"), ("POST", "/v1/chat/completions/"),
        ("OPTIONS", "*"), ("GET", "http://h/health"), ("GET", ""),
    ],
)  # fmt: skip
async def test_an_unknown_path_is_not_found(method: str, path: str) -> None:
    """404 unknown_url in the envelope; no redirect, no key asked for."""
    reply = await Front(Settings(api_key="k")).ask(method, path)
    assert (reply.status, reply.error["code"], reply.header("x-smg-error-code")) == (404, "unknown_url", "unknown_url")
    assert reply.error["type"] == "Not Found"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST"), ("PUT", CHAT, "POST"), ("OPTIONS", CHAT, "POST"), ("POST", "/v1/models", "GET, HEAD"),
        ("DELETE", "/v1/models/m", "GET, HEAD"), ("POST", "/health", "GET, HEAD"), ("BREW", "/v1/embeddings", "POST"),
    ],
)  # fmt: skip
async def test_a_wrong_method_is_not_allowed(method: str, path: str, allow: str) -> None:
    """405 method_not_allowed in the envelope, with the methods that there are."""
    reply = await Front(Settings(api_key="k")).ask(method, path)
    assert (reply.status, reply.error["code"], reply.header("allow")) == (405, "method_not_allowed", allow)


async def test_models_are_listed_once_in_their_order() -> None:
    """The list holds every served model under its canonical id; aliases are not in it."""
    workers = StubWorkers(cards=[ModelCard("org/b"), ModelCard("a")])
    front = Front(Settings(model_aliases={"al": "a"}), workers)
    reply = await front.ask("GET", "/v1/models?x=1")
    assert reply.status == 200
    assert reply.header("content-type") == "application/json"
    assert reply.json == {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 0, "owned_by": "self_hosted"} for name in ("org/b", "a")
        ],
    }  # fmt: skip


async def test_without_models_the_list_is_unavailable() -> None:
    """503 in plain text, which is the one answer without the envelope."""
    reply = await Front(workers=StubWorkers(cards=[])).ask("GET", "/v1/models")
    assert (reply.status, reply.body) == (503, b"No models available")
    assert reply.header("content-type") == "text/plain; charset=utf-8"
    assert reply.header("x-smg-error-code") is None


@pytest.mark.parametrize(("asked", "status"), [("org/b", 200), ("al", 200), ("AL", 404), ("org", 404)])
async def test_a_model_can_be_retrieved(asked: str, status: int) -> None:
    """An id may hold a slash, an alias gets the canonical entry, anything else is model_not_found."""
    front = Front(Settings(model_aliases={"al": "org/b"}), StubWorkers(cards=[ModelCard("org/b")]))
    reply = await front.ask("GET", f"/v1/models/{asked}")
    assert reply.status == status
    assert reply.json.get("id") == ("org/b" if status == 200 else None)
    assert status == 200 or reply.error["code"] == "model_not_found"


async def test_probes_tell_process_and_workers_apart() -> None:
    """/health and /liveness stay 200 whatever the workers do; /readiness follows workers and shutdown."""
    front = Front()
    for path in ("/health", "/liveness"):
        reply = await front.ask("GET", path)
        assert (reply.status, reply.body) == (200, b"OK")
    ready = await front.ask("GET", "/readiness")
    assert (ready.status, ready.json) == (200, {"status": "ready", "healthy_workers": 1, "total_workers": 1})
    front.workers.healthy = 0
    unhealthy = await front.ask("GET", "/readiness")
    assert (unhealthy.status, unhealthy.json["reason"]) == (503, "insufficient healthy workers")
    assert (await front.ask("GET", "/health")).status == 200
    front.workers.healthy, front.state.draining = 1, True
    draining = await front.ask("GET", "/readiness")
    assert (draining.status, draining.json["reason"]) == (503, "draining")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/health", "/liveness", "/readiness"])
async def test_public_routes_ask_for_no_key(path: str) -> None:
    """With keys configured these routes still answer without one, and with a wrong one."""
    front = Front(Settings(api_key="k", tenant_api_keys=(TenantKey("t", "k2"),)))
    assert (await front.ask("GET", path)).status == 200
    assert (await front.ask("GET", path, [("authorization", "Bearer wrong")])).status == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings"])
async def test_a_missing_key_is_answered_without_a_word(path: str) -> None:
    """401 with an empty body, no content type, no error code, and no worker asked."""
    front = Front(Settings(api_key="k"))
    reply = await front.post(path, {"model": "m"})
    assert (reply.status, reply.body, reply.ended) == (401, b"", True)
    for name in ("content-type", "x-smg-error-code", "www-authenticate"):
        assert reply.header(name) is None
    assert front.workers.seen == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nope"), ("GET", CHAT), ("POST", CHAT), ("GET", "/v1/models"), ("GET", "/health"), ("GET", "/readiness")],
)
async def test_every_answer_carries_the_request_id(method: str, path: str) -> None:
    """The id the client sent, or a generated one, is on successes and on every kind of error."""
    front = Front(Settings(api_key="k"))
    assert (await front.ask(method, path, [("x-request-id", "mine")])).header("x-request-id") == "mine"
    generated = (await front.ask(method, path)).header("x-request-id")
    assert generated
    assert generated != "mine"


async def test_head_is_answered_where_get_is() -> None:
    """HEAD gets the head of the GET answer, with its length."""
    reply = await Front().ask("HEAD", "/v1/models")
    assert reply.status == 200
    assert int(reply.header("content-length") or 0) > 0
