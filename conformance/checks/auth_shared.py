"""One shared key: what it opens, and what stays closed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import (
    ERROR_CODE,
    NOBODYS_KEY,
    expect_empty,
    expect_status,
    expect_success,
    per_route,
    send,
)
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@per_route("auth.shared.{}_served")
async def test_shared_key_opens_inference(gateway: Gateway, worker: Worker, path: str) -> None:
    """The shared key opens the route: the request reaches a worker and is answered."""
    script = worker.script()
    expect_success(await send(gateway, path, script, key=gateway.keys["shared"]))
    await script.only()


@clause("auth.shared.streaming_chat_served")
async def test_shared_key_opens_streams(gateway: Gateway, worker: Worker) -> None:
    """The shared key opens a streamed chat completion, which runs to its end."""
    script = worker.script()
    answer = expect_success(await gateway.chat(script, key=gateway.keys["shared"], stream=True))
    await script.only()
    assert answer.ended_with_done


@per_route("auth.missing.{}_refused")
async def test_no_key_no_inference(gateway: Gateway, worker: Worker, path: str) -> None:
    """The request that is served with the key is refused with 401 without it, and no worker hears of it."""
    await gateway.refuses(worker, path, {}, {}, status=401, invalid_key=None)


@per_route("auth.unknown.{}_refused")
async def test_unknown_key_no_inference(gateway: Gateway, worker: Worker, path: str) -> None:
    """The request that is served with the key is refused with 401 with another one, and no worker hears of it."""
    await gateway.refuses(worker, path, {}, {}, status=401, invalid_key=NOBODYS_KEY)


@clause("auth.missing.streaming_chat_refused")
async def test_no_key_no_stream(gateway: Gateway, worker: Worker) -> None:
    """A stream is refused before it begins: 401, and no event stream."""
    refused = await gateway.refuses(worker, CHAT, {"stream": True}, {"stream": True}, status=401, invalid_key=None)
    assert "event-stream" not in (refused.headers.get("content-type") or "")


@pytest.mark.parametrize(
    "key",
    [
        case("auth.missing.empty_body", None, name="missing"),
        case("auth.unknown.empty_body", NOBODYS_KEY, name="unknown"),
    ],
)
async def test_unauthorized_says_nothing(gateway: Gateway, worker: Worker, key: str | None) -> None:
    """The 401 has no body at all."""
    answer = expect_status(await gateway.chat(worker.script(), key=key), 401)
    expect_empty(answer)
    assert answer.closed_cleanly


@clause("auth.missing.no_error_code")
async def test_unauthorized_has_no_code(gateway: Gateway, worker: Worker) -> None:
    """The 401 is not in the envelope, so it has no error code to repeat in a header."""
    answer = expect_status(await gateway.chat(worker.script(), key=None), 401)
    assert ERROR_CODE not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat/completions/",
        "/V1/Chat/Completions",
        "/v1/chat/%63ompletions",
        "/./v1/chat/completions",
    ],
)
@clause("auth.missing.path_variants_never_served")
async def test_other_spellings_are_no_way_round(gateway: Gateway, worker: Worker, path: str) -> None:
    """A guard that looks at prefixes or spellings must not be walked round: no variant is served without a key."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    answer = await gateway.post(path, gateway.chat_body(script), key=None)
    assert answer.status is not None
    assert not 200 <= answer.status < 300, f"{path} was served without a key: {answer.brief()}"
    await script.never_seen(because=proof)


@clause("auth.missing.before_body")
async def test_credentials_come_before_the_body(gateway: Gateway, worker: Worker) -> None:
    """A keyless caller learns nothing about the body: 401, although it is no JSON."""
    await gateway.refuses(worker, CHAT, {}, b'{"model": "{{prompt}}', status=401, invalid_key=None)
