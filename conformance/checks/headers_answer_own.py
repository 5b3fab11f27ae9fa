"""Headers the gateway sets on answers, the request id apart: routed worker, error code, and those it must not set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import (
    COMPLETION,
    ERROR_CODE,
    NOBODYS_MODEL,
    ROUTED_WORKER,
    expect_status,
    expect_success,
    per_route,
    send,
    unknown_model,
    x_ratelimit_names,
)
from conformance.checks.workers_support import Registry, inference, own_fleet, own_model
from conformance.harness import CHAT
from conformance.harness.marks import case, clause, engines
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

PARSE, RANGE, UNKNOWN = {"messages": 5}, {"temperature": 9}, {"model": NOBODYS_MODEL}


@engines("sglang", "vllm", "tokenspeed")
@per_route("response_headers.routed_worker.{}")
async def test_answer_names_its_worker(gateway: Gateway, worker: Worker, path: str) -> None:
    """Whichever worker serves, the header is the URL that worker is registered under."""
    script = worker.script()
    answer = expect_success(await send(gateway, path, script))
    await script.only()
    assert answer.headers.get(ROUTED_WORKER) == worker.url


@engines("sglang", "vllm", "tokenspeed")
@clause("response_headers.routed_worker.streaming")
async def test_stream_names_its_worker(gateway: Gateway, worker: Worker) -> None:
    """A stream names its worker in the head."""
    script = worker.script()
    answer = expect_success(await gateway.chat(script, stream=True))
    await script.only()
    assert answer.headers.get(ROUTED_WORKER) == worker.url


@clause("response_headers.routed_worker.alias")
async def test_alias_names_the_worker_behind_it(gateway: Gateway, worker: Worker) -> None:
    """A request by alias names the worker of the canonical model."""
    script = worker.script()
    answer = expect_success(await gateway.chat(script, model=gateway.alias))
    await script.only()
    assert answer.headers.get(ROUTED_WORKER) == worker.url


@pytest.mark.parametrize(
    "status",
    [
        *[case("response_headers.routed_worker.worker_client_error", status) for status in (400, 404, 429)],
        *[case("response_headers.routed_worker.worker_server_error", status) for status in (500, 503)],
    ],
)
async def test_relayed_error_names_its_worker(gateway: Gateway, worker: Worker, status: int) -> None:
    """Who debugs a worker's error has to know which worker."""
    script = worker.script(wire.json(status, {"error": "no"}))
    answer = expect_status(await gateway.chat(script), status)
    await script.received()
    assert answer.headers.get(ROUTED_WORKER) == worker.url


@clause("response_headers.routed_worker.the_serving_one")
async def test_header_names_the_one_that_was_asked(gateway: Gateway) -> None:
    """Two workers of one model: each answer names the worker in whose journal the request is."""
    model = own_model()
    async with own_fleet(model, model) as fleet, Registry(gateway) as registry:
        for url in fleet.urls:
            await registry.add(url)
        named = [(await registry.chat(model)).headers.get(ROUTED_WORKER) for _ in range(6)]
        asked = [fleet.workers[entry.worker].url for entry in inference(fleet)]
        assert named == asked
        assert set(named) == set(fleet.urls)


@clause("response_headers.routed_worker.worker_copy_replaced")
async def test_worker_does_not_name_itself(gateway: Gateway, worker: Worker) -> None:
    """What a worker writes into the header stays behind."""
    script = worker.script(wire.json(200, COMPLETION, [("X-SMG-Routed-Worker-ID", "http://elsewhere.example:1")]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert "http://elsewhere.example:1" not in answer.headers.get_all(ROUTED_WORKER)


@clause("response_headers.routed_worker.once")
async def test_routed_worker_is_there_once(gateway: Gateway, worker: Worker) -> None:
    """One worker served, one is named, also when the worker names one itself."""
    script = worker.script(wire.json(200, COMPLETION, [("X-SMG-Routed-Worker-ID", "http://elsewhere.example:1")]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert len(answer.headers.get_all(ROUTED_WORKER)) == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        case("response_headers.routed_worker.not_on_parse_failure", PARSE, 400, name="parse"),
        case("response_headers.routed_worker.not_on_validation_failure", RANGE, 400, name="validation"),
        case("response_headers.routed_worker.not_on_gateway_error", UNKNOWN, 404, name="envelope"),
    ],
)
async def test_no_worker_is_named_where_none_was_asked(
    gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int
) -> None:
    """A request that ends before dispatch names no worker."""
    answer = expect_status(await gateway.chat(worker.script(), **fields), status)
    assert ROUTED_WORKER not in answer.headers


@clause("response_headers.routed_worker.not_on_unauthorized")
async def test_unauthorized_names_no_worker(gateway: Gateway, worker: Worker) -> None:
    """A keyless caller does not learn where workers are."""
    assert ROUTED_WORKER not in expect_status(await gateway.chat(worker.script(), key=None), 401).headers


@clause("response_headers.routed_worker.not_on_models")
async def test_list_models_names_no_worker(gateway: Gateway, worker: Worker) -> None:
    """The gateway answers List Models itself."""
    await gateway.proof(worker, CHAT, {})
    assert ROUTED_WORKER not in expect_success(await gateway.get("/v1/models")).headers


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["whole", "stream"])
@clause("response_headers.error_code.not_on_success")
async def test_success_has_no_error_code(gateway: Gateway, worker: Worker, fields: dict[str, Any]) -> None:
    """The header that marks an error is on no success."""
    script = worker.script()
    answer = expect_success(await gateway.chat(script, **fields))
    await script.only()
    assert ERROR_CODE not in answer.headers


@pytest.mark.parametrize(
    "name",
    [
        case("response_headers.error_code.worker_copy_dropped", "X-SMG-Error-Code"),
        *[
            case("response_headers.error_code.any_case_dropped", name)
            for name in ("x-smg-error-code", "X-SMG-ERROR-CODE", "x-Smg-eRROR-cODE")
        ],
    ],
)
async def test_workers_error_code_is_dropped(gateway: Gateway, worker: Worker, name: str) -> None:
    """A worker's copy on a success stays behind, while another header of the same answer arrives."""
    script = worker.script(wire.json(200, COMPLETION, [(name, "of_the_worker"), ("X-Of-The-Worker", "arrives")]))
    answer = expect_success(await gateway.chat(script))
    await script.received()
    assert answer.json == COMPLETION
    assert ERROR_CODE not in answer.headers


@clause("response_headers.error_code.worker_copy_dropped_streaming")
async def test_workers_error_code_is_dropped_from_streams(gateway: Gateway, worker: Worker) -> None:
    """A worker's copy on a stream stays behind, while the stream arrives."""
    script = worker.script(wire.sse({"choices": []}, headers=[("X-SMG-Error-Code", "of_the_worker")]))
    answer = expect_success(await gateway.chat(script, stream=True))
    await script.received()
    assert answer.ended_with_done
    assert ERROR_CODE not in answer.headers


async def _answers(gateway: Gateway, worker: Worker) -> list[Exchange]:
    """A success, a stream, both kinds of refusal and an enveloped error, nothing scripted into any head."""
    return [await gateway.chat(worker.script(), **fields) for fields in ({}, {"stream": True}, PARSE, RANGE, UNKNOWN)]


@clause("response_headers.preempted.not_otherwise")
async def test_nobody_was_preempted(gateway: Gateway, worker: Worker) -> None:
    """Where nothing is preempted, nothing says so: neither on what is served nor on what is refused."""
    answers = await _answers(gateway, worker)
    assert [answer.status for answer in answers[:2]] == [200, 200]
    assert all(answer.status in range(400, 500) for answer in answers[2:])
    assert [answer.status for answer in answers if "x-smg-preempted" in answer.headers] == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        case("response_headers.retry_after.not_on_success", {}, 200, name="success"),
        case("response_headers.retry_after.not_on_bad_request", PARSE, 400, name="parse"),
        case("response_headers.retry_after.not_on_bad_request", RANGE, 400, name="validation"),
        case("response_headers.retry_after.not_on_not_found", UNKNOWN, 404, name="unknown-model"),
    ],
)
async def test_no_wait_is_asked_for(gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int) -> None:
    """Retry-After is for answers that waiting would change."""
    await gateway.proof(worker, CHAT, {})
    assert "retry-after" not in expect_status(await gateway.chat(worker.script(), **fields), status).headers


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        case("rate_limiting.no_x_ratelimit.success", {}, 200, name="whole"),
        case("rate_limiting.no_x_ratelimit.success", {"stream": True}, 200, name="stream"),
        case("rate_limiting.no_x_ratelimit.refusal", PARSE, 400, name="parse"),
        case("rate_limiting.no_x_ratelimit.refusal", RANGE, 400, name="validation"),
    ],
)
async def test_nox_ratelimit_names(gateway: Gateway, worker: Worker, fields: dict[str, Any], status: int) -> None:
    """The gateway does not announce limits in X-RateLimit headers."""
    await gateway.proof(worker, CHAT, {})
    assert x_ratelimit_names(expect_status(await gateway.chat(worker.script(), **fields), status)) == []


@clause("rate_limiting.no_x_ratelimit.error")
async def test_no_rate_limit_headers_on_errors(gateway: Gateway, worker: Worker) -> None:
    """Not on its own errors either."""
    assert x_ratelimit_names(await unknown_model(gateway, worker.script())) == []
