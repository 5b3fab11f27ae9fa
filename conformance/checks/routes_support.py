"""What the checks of credentials, errors and headers share: the three inference routes and the parts of an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness.bodies import OMIT
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _pytest.mark.structures import MarkDecorator

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Scripted

ROUTES = {"chat": CHAT, "completions": COMPLETIONS, "embeddings": EMBEDDINGS}
"""The inference routes by the name that clause ids use."""

NOBODYS_MODEL = "conformance-model-nobody-serves"
NOBODYS_KEY = "sk-conformance-nobody"
ERROR_CODE, ROUTED_WORKER, REQUEST_ID = "x-smg-error-code", "x-smg-routed-worker-id", "x-request-id"

COMPLETION = {
    "id": "chatcmpl-conformance",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "conformance",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
"""An ordinary answer for workers that are scripted byte by byte."""


def per_route(ids: str) -> MarkDecorator:
    """Run the check once per inference route; `{}` in the clause id stands for the route's name."""
    return pytest.mark.parametrize("path", [case(ids.format(name), path, name=name) for name, path in ROUTES.items()])


def each_path(*names: str) -> MarkDecorator:
    """Run the check once for each of these routes (all three when none is named), under the check's own clauses."""
    return pytest.mark.parametrize("path", [pytest.param(ROUTES[name], id=name) for name in names or ROUTES])


async def send(
    gateway: Gateway,
    path: str,
    script: Scripted,
    headers: Sequence[tuple[str, str | None]] = (),
    *,
    key: Any = OMIT,
    **fields: Any,
) -> Exchange:
    """The ordinary request of an inference route, carrying the script's marker."""
    call = {CHAT: gateway.chat, COMPLETIONS: gateway.completion, EMBEDDINGS: gateway.embedding}[path]
    return await call(script, path, headers, key=key, **fields)


def expect_status(answer: Exchange, *wanted: int) -> Exchange:
    """The answer, if it has one of these statuses; Disproved otherwise."""
    if answer.status not in wanted:
        raise Disproved("another status", f"expected {' or '.join(map(str, wanted))}: {answer.brief()}")
    return answer


def expect_success(answer: Exchange) -> Exchange:
    """The answer, if it is a success; Disproved otherwise. For checks that are about something else than which one."""
    if not answer.succeeded:
        raise Disproved("another status", f"expected a success: {answer.brief()}")
    return answer


def expect_equal(kind: str, found: object, wanted: object) -> None:
    """What was found, if it is what was wanted; Disproved of this kind otherwise."""
    if found != wanted:
        raise Disproved(kind, f"{kind}: expected {wanted!r}, found {found!r}")


def expect_empty(answer: Exchange) -> None:
    """An answer without a body; Disproved otherwise."""
    if answer.body:
        raise Disproved("body is not empty", f"expected an empty body: {answer.brief()}")


def error_of(answer: Exchange) -> dict[str, Any]:
    """The `error` object of an answer's JSON body; Disproved when there is none."""
    body = answer.json
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        raise Disproved("no error object", f"the body has no `error` object: {answer.brief()}")
    return error


def expect_code(answer: Exchange, code: str) -> None:
    """The error has this code; Disproved otherwise."""
    expect_equal("another code", error_of(answer).get("code"), code)


def expect_code_400(answer: Exchange) -> None:
    """The error's code is 400, a JSON number and neither a text nor a boolean; Disproved otherwise."""
    code = error_of(answer).get("code")
    if not isinstance(code, int) or isinstance(code, bool) or code != 400:
        raise Disproved(
            "code is not the number 400", f"expected the number 400 as the code, found {code!r}: {answer.brief()}"
        )


def expect_members(answer: Exchange, *names: str) -> None:
    """The error has these members and no other; Disproved otherwise."""
    expect_equal("other members", set(error_of(answer)), set(names))


async def unknown_model(gateway: Gateway, worker_script: Scripted, path: str = CHAT, **fields: Any) -> Exchange:
    """The gateway's own error that needs no preparation: a model no worker serves (404)."""
    return expect_status(await send(gateway, path, worker_script, **{"model": NOBODYS_MODEL, **fields}), 404)


def check_plain_json(answer: Exchange) -> None:
    """The answer says that it is JSON, and not an event stream."""
    content_type = (answer.headers.get("content-type") or "").partition(";")[0].strip().lower()
    assert content_type == "application/json", f"content type {content_type!r}"


def x_ratelimit_names(answer: Exchange) -> list[str]:
    """Names of the X-RateLimit headers of an answer."""
    return [name for name in answer.headers.names if name.startswith("x-ratelimit")]
