"""Paths and methods outside the interface, and spellings of those inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.errors_envelope import check_envelope
from conformance.checks.routes_support import each_path, expect_status, expect_success
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

UNKNOWN = [
    ("GET", "/v1/conformance-no-such-route"),
    ("POST", "/v1/conformance-no-such-route"),
    ("GET", "/conformance-no-such-route"),
]
WRONG = [("GET", CHAT), ("DELETE", CHAT), ("PUT", CHAT), ("POST", "/v1/models"), ("GET", "/v1/embeddings")]


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
@clause("routes.unknown_path.status")
async def test_unknown_path(gateway: Gateway, worker: Worker, method: str, path: str) -> None:
    """What is not served is not found, by a gateway that serves what it should."""
    await gateway.proof(worker, CHAT, {})
    expect_status(await gateway.request(method, path, {} if method == "POST" else None), 404)


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
@clause("routes.unknown_path.envelope")
async def test_unknown_path_in_the_envelope(gateway: Gateway, method: str, path: str) -> None:
    """The 404 of an unknown path is an error the gateway makes, and looks like one."""
    check_envelope(expect_status(await gateway.request(method, path, {} if method == "POST" else None), 404))


@pytest.mark.parametrize(("method", "path"), WRONG)
@clause("routes.wrong_method.status")
async def test_wrong_method(gateway: Gateway, method: str, path: str) -> None:
    """A known path does not take every method."""
    expect_status(await gateway.request(method, path, {} if method != "GET" else None), 405)


@pytest.mark.parametrize(("method", "path"), WRONG)
@clause("routes.wrong_method.allow")
async def test_wrong_method_names_the_right_one(gateway: Gateway, method: str, path: str) -> None:
    """The 405 says which method the path takes, and not the one it was asked with."""
    answer = expect_status(await gateway.request(method, path, {} if method != "GET" else None), 405)
    allowed = {word.strip().upper() for value in answer.headers.get_all("allow") for word in value.split(",")}
    assert ("GET" if path == "/v1/models" else "POST") in allowed
    assert method not in allowed


@pytest.mark.parametrize(("method", "path"), WRONG)
@clause("routes.wrong_method.envelope")
async def test_wrong_method_in_the_envelope(gateway: Gateway, method: str, path: str) -> None:
    """The 405 is an error the gateway makes, and looks like one."""
    check_envelope(expect_status(await gateway.request(method, path, {} if method != "GET" else None), 405))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/V1/chat/completions",
        "/chat/completions",
    ],
)
@clause("routes.path.exact")
async def test_other_spellings_are_unknown(gateway: Gateway, worker: Worker, path: str) -> None:
    """The request that is served under the path is not found under a spelling of it, and reaches nobody."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    expect_status(await gateway.post(path, gateway.chat_body(script)), 404)
    await script.never_seen(because=proof)


@each_path("chat")
@clause("routes.path.query_ignored")
async def test_query_changes_nothing(gateway: Gateway, worker: Worker, path: str) -> None:
    """A serving path takes no query parameters and does not mind them."""
    script = worker.script()
    expect_success(await gateway.post(f"{path}?api-version=1&stream=true", gateway.chat_body(script)))
    entry = await script.only()
    assert entry.path == path
