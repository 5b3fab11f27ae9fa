"""Content-Type of requests: what counts as JSON, and what the worker is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import each_path, expect_success, send
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


@pytest.mark.parametrize(
    "content_type",
    [
        case("request_headers.content_type.json", "application/json"),
        case("request_headers.content_type.parameters", "application/json; charset=utf-8"),
        case("request_headers.content_type.parameters", "application/json;charset=UTF-8"),
        case("request_headers.content_type.parameters", 'application/json; profile="x"'),
        case("request_headers.content_type.any_case", "Application/JSON"),
        case("request_headers.content_type.any_case", "APPLICATION/JSON"),
        case("request_headers.content_type.json_suffix", "application/vnd.api+json"),
    ],
)
@each_path()
async def test_json_is_accepted(gateway: Gateway, worker: Worker, path: str, content_type: str) -> None:
    """The request is served, and the worker receives it."""
    script = worker.script()
    expect_success(await send(gateway, path, script, [("content-type", content_type)]))
    await script.only()


@pytest.mark.parametrize(
    "content_type",
    [
        case("request_headers.content_type.text_json_refused", "text/json"),
        case("request_headers.content_type.multipart_refused", "multipart/form-data; boundary=x"),
    ],
)
async def test_other_types_are_refused(gateway: Gateway, worker: Worker, content_type: str) -> None:
    """The request that is served as application/json is refused with 400, and no worker hears of it."""
    await gateway.refuses(worker, CHAT, {}, {}, invalid_headers=[("content-type", content_type)])


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
@each_path()
@clause("request_headers.content_type.worker_gets_json")
async def test_worker_is_told_json(gateway: Gateway, worker: Worker, path: str, content_type: str) -> None:
    """However the client spelled it, the worker gets one Content-Type, and it is application/json."""
    script = worker.script()
    await send(gateway, path, script, [("content-type", content_type)])
    entry = await script.only()
    types = [value.partition(";")[0].strip().lower() for value in entry.header_all("content-type")]
    assert types == ["application/json"]
