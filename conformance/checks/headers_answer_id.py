"""x-request-id on answers of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import (
    COMPLETION,
    NOBODYS_MODEL,
    REQUEST_ID,
    expect_status,
    expect_success,
    per_route,
    send,
    unknown_model,
)
from conformance.harness.marks import case, clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

GIVEN: list[tuple[str, str | None]] = [("X-Request-ID", "id-of-the-client")]


def check_present(answer: Exchange) -> None:
    """The answer names a request id."""
    assert answer.headers.get(REQUEST_ID), f"no {REQUEST_ID} among {answer.headers.names}"


@per_route("response_headers.request_id.{}")
async def test_answers_carry_it(gateway: Gateway, worker: Worker, path: str) -> None:
    """A successful answer names the request id."""
    check_present(expect_success(await send(gateway, path, worker.script())))


@clause("response_headers.request_id.streaming")
async def test_streams_carry_it(gateway: Gateway, worker: Worker) -> None:
    """A streamed answer names the request id in its head."""
    check_present(expect_success(await gateway.chat(worker.script(), stream=True)))


@clause("response_headers.request_id.models")
async def test_list_models_carries_it(gateway: Gateway) -> None:
    """List Models names the request id."""
    check_present(expect_success(await gateway.get("/v1/models")))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        case("response_headers.request_id.parse_failure", {"messages": 5}, 400, name="parse"),
        case("response_headers.request_id.validation_failure", {"temperature": 9}, 400, name="validation"),
        case("response_headers.request_id.gateway_error", {"model": NOBODYS_MODEL}, 404, name="envelope"),
    ],
)
async def test_refusals_carry_it(gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int) -> None:
    """A refused request is named too: that is when its id is looked for."""
    check_present(expect_status(await gateway.chat(worker.script(), **fields), status))


@clause("response_headers.request_id.unauthorized")
async def test_unauthorized_carries_it(gateway: Gateway, worker: Worker) -> None:
    """The 401, empty as it is, names the request id."""
    check_present(expect_status(await gateway.chat(worker.script(), key=None), 401))


@pytest.mark.parametrize("status", [400, 429, 500])
@clause("response_headers.request_id.worker_error")
async def test_relayed_errors_carry_it(gateway: Gateway, worker: Worker, status: int) -> None:
    """A relayed worker error names the request id."""
    check_present(expect_status(await gateway.chat(worker.script(wire.json(status, {"error": "no"}))), status))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        case("response_headers.request_id.admin", "/workers", 200),
        case("response_headers.request_id.unknown_path", "/v1/conformance-no-such-route", 404),
    ],
)
async def test_other_routes_carry_it(gateway: Gateway, path: str, status: int) -> None:
    """Answers beyond inference name the request id as well."""
    check_present(expect_status(await gateway.get(path), status))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        case("response_headers.request_id.received", {}, 200, name="whole"),
        case("response_headers.request_id.received_streaming", {"stream": True}, 200, name="stream"),
        case("response_headers.request_id.received_on_error", {"messages": 5}, 400, name="parse"),
        case("response_headers.request_id.received_on_error", {"temperature": 9}, 400, name="validation"),
        case("response_headers.request_id.received_on_error", {"model": NOBODYS_MODEL}, 404, name="envelope"),
    ],
)
async def test_it_is_the_id_received(gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int) -> None:
    """The id of the answer is the id of the request."""
    answer = expect_status(await gateway.chat(worker.script(), headers=GIVEN, **fields), status)
    assert answer.headers.get(REQUEST_ID) == "id-of-the-client"


@pytest.mark.parametrize("headers", [GIVEN, []], ids=["received", "generated"])
@clause("response_headers.request_id.same_at_worker")
async def test_worker_and_client_read_the_same(
    gateway: Gateway, worker: Worker, headers: list[tuple[str, str | None]]
) -> None:
    """If the worker was given an id, the client reads the same one; a received id is always given."""
    script = worker.script()
    answer = await gateway.chat(script, headers=headers)
    entry = await script.only()
    at_worker = entry.header_all("x-request-id")
    assert at_worker == [answer.headers.get(REQUEST_ID)] or (at_worker == [] and not headers)


@pytest.mark.parametrize("headers", [GIVEN, []], ids=["received", "generated"])
@pytest.mark.parametrize("status", [200, 400])
@clause("response_headers.request_id.worker_copy_replaced")
async def test_worker_does_not_name_the_request(
    gateway: Gateway, worker: Worker, headers: list[tuple[str, str | None]], status: int
) -> None:
    """What a worker writes into X-Request-ID stays behind."""
    script = worker.script(wire.json(status, COMPLETION, [("X-Request-ID", "id-of-the-worker")]))
    answer = expect_status(await gateway.chat(script, headers=headers), status)
    await script.received()
    assert "id-of-the-worker" not in answer.headers.get_all(REQUEST_ID)


@clause("response_headers.request_id.once")
async def test_it_is_there_once(gateway: Gateway, worker: Worker) -> None:
    """Neither a success, nor a relayed answer that has one of its own, nor an error names two ids."""
    relayed = worker.script(wire.json(200, COMPLETION, [("X-Request-ID", "id-of-the-worker")]))
    answers = [
        await gateway.chat(worker.script(), headers=GIVEN),
        await gateway.chat(relayed, headers=GIVEN),
        await unknown_model(gateway, worker.script()),
    ]
    assert [len(answer.headers.get_all(REQUEST_ID)) for answer in answers] == [1, 1, 1]
