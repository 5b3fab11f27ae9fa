"""The envelope of errors the gateway makes itself; a model nobody serves provokes one everywhere."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import (
    ERROR_CODE,
    NOBODYS_MODEL,
    check_plain_json,
    each_path,
    error_of,
    expect_code,
    expect_empty,
    expect_equal,
    expect_members,
    expect_status,
    expect_success,
    send,
    unknown_model,
)
from conformance.harness.gateway import COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

MEMBERS = ("type", "code", "message", "param")


def check_envelope(answer: Exchange) -> None:
    """Assert the whole shape, for routes on which the envelope is one sentence."""
    expect_members(answer, *MEMBERS)
    error = error_of(answer)
    expect_equal("another type", error["type"], HTTPStatus(answer.status or 0).phrase)
    assert isinstance(error["code"], str)
    assert isinstance(error["message"], str)
    assert error["param"] is None


@clause("errors.envelope.error_object")
async def test_body_is_one_error_object(gateway: Gateway, worker: Worker) -> None:
    """The body is an object with the one member `error`, itself an object."""
    answer = await unknown_model(gateway, worker.script())
    error_of(answer)
    assert set(answer.json) == {"error"}


@clause("errors.envelope.keys")
async def test_error_has_four_members(gateway: Gateway, worker: Worker) -> None:
    """The error object has type, code, message and param, and nothing else."""
    expect_members(await unknown_model(gateway, worker.script()), *MEMBERS)


@clause("errors.envelope.type_not_found")
async def test_type_is_the_reason_phrase(gateway: Gateway, worker: Worker) -> None:
    """The type of a 404 is Not Found."""
    expect_equal("another type", error_of(await unknown_model(gateway, worker.script())).get("type"), "Not Found")


@clause("errors.envelope.code_is_text")
async def test_code_is_text(gateway: Gateway, worker: Worker) -> None:
    """The code is a string that says something."""
    code = error_of(await unknown_model(gateway, worker.script())).get("code")
    assert isinstance(code, str)
    assert code


@clause("errors.envelope.message_is_text")
async def test_message_is_text(gateway: Gateway, worker: Worker) -> None:
    """The message is a string that says something."""
    message = error_of(await unknown_model(gateway, worker.script())).get("message")
    assert isinstance(message, str)
    assert message.strip()


@clause("errors.envelope.param_is_null")
async def test_param_is_there_and_null(gateway: Gateway, worker: Worker) -> None:
    """The param is not left out: it is null."""
    error = error_of(await unknown_model(gateway, worker.script()))
    assert error.get("param", "absent") is None


@clause("errors.envelope.json_content_type")
async def test_envelope_is_json(gateway: Gateway, worker: Worker) -> None:
    """A client can tell from the content type that the error is JSON."""
    check_plain_json(await unknown_model(gateway, worker.script()))


@clause("errors.envelope.code_in_header")
async def test_header_repeats_the_code(gateway: Gateway, worker: Worker) -> None:
    """X-SMG-Error-Code has the value of the body's code."""
    answer = await unknown_model(gateway, worker.script())
    assert answer.headers.get(ERROR_CODE) == error_of(answer).get("code")


@clause("errors.envelope.code_header_once")
async def test_header_is_there_once(gateway: Gateway, worker: Worker) -> None:
    """X-SMG-Error-Code appears once."""
    answer = await unknown_model(gateway, worker.script())
    assert len(answer.headers.get_all(ERROR_CODE)) == 1


@pytest.mark.parametrize(
    "path",
    [
        case("errors.envelope.completions", COMPLETIONS),
        case("errors.envelope.embeddings", EMBEDDINGS),
    ],
)
async def test_envelope_of_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """Completions and embeddings have the envelope of chat completions."""
    check_envelope(await unknown_model(gateway, worker.script(), path))


@clause("errors.envelope.streaming_request")
@each_path("chat", "completions")
async def test_envelope_for_a_stream(gateway: Gateway, worker: Worker, path: str) -> None:
    """Who asked for a stream and gets an error gets the plain JSON one."""
    answer = await unknown_model(gateway, worker.script(), path, stream=True)
    check_plain_json(answer)
    expect_members(answer, *MEMBERS)


@clause("errors.envelope.type_server_error")
async def test_type_of_a_failed_dispatch(gateway: Gateway, worker: Worker) -> None:
    """When the worker hangs up without an answer, the type is the reason phrase of the 5xx the gateway chose."""
    script = worker.script(wire.close_before_headers())
    answer = await gateway.chat(script)
    await script.received()
    assert answer.status is not None
    assert 500 <= answer.status < 600
    expect_equal("another type", error_of(answer).get("type"), HTTPStatus(answer.status).phrase)


@clause("codes.model_not_found.status")
async def test_unknown_model_is_not_found(gateway: Gateway, worker: Worker) -> None:
    """A model no worker serves is 404."""
    expect_status(await gateway.chat(worker.script(), model=NOBODYS_MODEL), 404)


@clause("codes.model_not_found.code")
async def test_unknown_model_has_its_code(gateway: Gateway, worker: Worker) -> None:
    """A model no worker serves has the code model_not_found."""
    expect_code(await unknown_model(gateway, worker.script()), "model_not_found")


@clause("codes.model_not_found.never_dispatched")
@each_path()
async def test_unknown_model_reaches_nobody(gateway: Gateway, worker: Worker, path: str) -> None:
    """The request that reaches a worker under its model reaches none under a model nobody serves."""
    await gateway.refuses(worker, path, {}, {"model": NOBODYS_MODEL}, status=404)


@pytest.mark.parametrize(
    "path",
    [
        case("codes.model_not_found.completions", COMPLETIONS),
        case("codes.model_not_found.embeddings", EMBEDDINGS),
    ],
)
async def test_unknown_model_on_other_routes(gateway: Gateway, worker: Worker, path: str) -> None:
    """Completions and embeddings answer 404 model_not_found too."""
    expect_code(await unknown_model(gateway, worker.script(), path), "model_not_found")


@clause("codes.model_not_found.streaming")
async def test_unknown_model_for_a_stream(gateway: Gateway, worker: Worker) -> None:
    """A streamed chat completion answers 404 model_not_found too."""
    expect_code(await unknown_model(gateway, worker.script(), stream=True), "model_not_found")


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        str.title,
        lambda name: name[:-1],
        lambda name: name + " ",
        lambda name: " " + name,
        lambda name: name + "-2",
    ],
)
@clause("codes.model_not_found.exact_name")
async def test_a_name_like_it_is_another_model(gateway: Gateway, worker: Worker, change: type[str]) -> None:
    """Neither case nor a prefix nor blanks make one model's name another's."""
    await gateway.refuses(worker, "/v1/chat/completions", {}, {"model": change(gateway.model)}, status=404)


@clause("codes.model_not_found.empty_name")
async def test_empty_name_is_nobodys(gateway: Gateway, worker: Worker) -> None:
    """An empty model name is not found and reaches nobody."""
    await gateway.refuses(worker, "/v1/chat/completions", {}, {"model": ""}, status=404)


@clause("codes.internal.status")
async def test_worker_hangs_up(gateway: Gateway, worker: Worker) -> None:
    """A worker that hangs up without an answer becomes a 5xx, not a silence and not a success."""
    script = worker.script(wire.close_before_headers())
    answer = await gateway.chat(script)
    await script.received()
    assert answer.status is not None
    assert 500 <= answer.status < 600


@clause("codes.internal.names_the_step")
async def test_failed_dispatch_has_a_code(gateway: Gateway, worker: Worker) -> None:
    """The error of a failed dispatch has a code of its own."""
    script = worker.script(wire.close_before_headers())
    answer = await gateway.chat(script)
    await script.received()
    code = error_of(answer).get("code")
    assert isinstance(code, str)
    assert code


@clause("codes.internal.worker_cut_body")
async def test_worker_cuts_its_answer(gateway: Gateway, worker: Worker) -> None:
    """A body that ends before its declared length becomes a 5xx with a code: half an answer is none."""
    script = worker.script(wire.cut(wire.json(200, {"id": "chatcmpl-1", "text": "x" * 400}), 40))
    answer = await gateway.chat(script)
    await script.received()
    assert answer.status is not None
    assert 500 <= answer.status < 600
    assert isinstance(error_of(answer).get("code"), str)


@clause("codes.internal.gateway_survives")
async def test_next_request_is_served(gateway: Gateway, worker: Worker) -> None:
    """One failed dispatch is over when it is answered: the next request is served."""
    failed = worker.script(wire.reset_before_headers())
    await gateway.chat(failed)
    await failed.received()
    script = worker.script()
    expect_success(await gateway.chat(script))
    await script.only()


@clause("codes.unauthorized")
async def test_unauthorized_has_no_code_at_all(gateway: Gateway, worker: Worker) -> None:
    """A missing key is 401 with neither a body nor a header to hold a code."""
    answer = expect_status(await send(gateway, "/v1/chat/completions", worker.script(), key=None), 401)
    expect_empty(answer)
    assert ERROR_CODE not in answer.headers
