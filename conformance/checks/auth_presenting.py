"""How a key has to be presented, and what does not count as presenting it."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import expect_status, expect_success
from conformance.harness.gateway import CHAT
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


def _basic(text: str) -> str:
    """The text as an HTTP Basic credential."""
    return "Basic " + b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("form", "case"),
    [
        case("auth.scheme.basic_refused", "Basic {key}", "basic-plain"),
        case("auth.scheme.basic_refused", "basic:{key}", "basic-encoded"),
        case("auth.scheme.bare_key_refused", "{key}", "bare"),
        case("auth.scheme.empty_token_refused", "Bearer ", "empty-token"),
        case("auth.scheme.empty_token_refused", "Bearer", "no-token"),
        case("auth.scheme.other_scheme_refused", "Token {key}", "token"),
        case("auth.scheme.other_scheme_refused", "ApiKey {key}", "apikey"),
        case("auth.scheme.other_scheme_refused", "Bearer{key}", "glued"),
        case("auth.key.prefix_refused", "Bearer {short}", "prefix"),
        case("auth.key.extension_refused", "Bearer {key}x", "extension"),
        case("auth.key.case_matters", "Bearer {upper}", "upper"),
        case("auth.key.list_refused", "Bearer sk-nobody, Bearer {key}", "list"),
        case("auth.key.list_refused", "Bearer sk-nobody,{key}", "list-of-tokens"),
    ],
)
async def test_not_the_bearer_key(gateway: Gateway, worker: Worker, form: str, case: str) -> None:
    """The request that is served with the key as a bearer token is refused with 401 with anything like it."""
    key = gateway.keys["shared"]
    value = (
        _basic(f"user:{key}") if case == "basic-encoded" else form.format(key=key, short=key[:-1], upper=key.upper())
    )
    await gateway.refuses(worker, CHAT, {}, {}, status=401, invalid_headers=[("authorization", value)])


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "bEaReR"])
@clause("auth.scheme.case_insensitive")
async def test_scheme_in_any_case(gateway: Gateway, worker: Worker, scheme: str) -> None:
    """The key is found whatever the case of the scheme's name."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[("authorization", f"{scheme} {gateway.keys['shared']}")]))
    await script.only()


@pytest.mark.parametrize("name", ["authorization", "AUTHORIZATION", "aUTHORIZATION"])
@clause("auth.header_name.case_insensitive")
async def test_header_name_in_any_case(gateway: Gateway, worker: Worker, name: str) -> None:
    """The key is found whatever the case of the header's name."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[(name, f"Bearer {gateway.keys['shared']}")]))
    await script.only()


@clause("auth.key.second_header_ignored")
async def test_second_line_does_not_rescue_the_first(gateway: Gateway, worker: Worker) -> None:
    """Two Authorization lines, the wrong one first, are refused with 401."""
    lines = [("authorization", "Bearer sk-nobody"), ("authorization", f"Bearer {gateway.keys['shared']}")]
    await gateway.refuses(worker, CHAT, {}, {}, status=401, invalid_headers=lines)


@pytest.mark.parametrize(
    "name",
    [
        case("auth.key.x_api_key_refused", "x-api-key"),
        case("auth.key.x_goog_api_key_refused", "x-goog-api-key"),
    ],
)
async def test_other_headers_are_no_credential(gateway: Gateway, worker: Worker, name: str) -> None:
    """The gateway's key in a provider's header opens no chat completion: 401, and no worker hears of it."""
    await gateway.refuses(
        worker, CHAT, {}, {}, status=401, invalid_headers=[(name, gateway.keys["shared"])], invalid_key=None
    )


@clause("auth.key.query_refused")
async def test_query_is_no_credential(gateway: Gateway, worker: Worker) -> None:
    """The key in the query string, under every usual name, opens nothing."""
    proof = await gateway.proof(worker, CHAT, {})
    script = worker.script()
    key = gateway.keys["shared"]
    answer = await gateway.post(
        f"{CHAT}?api_key={key}&key={key}&access_token={key}", gateway.chat_body(script), key=None
    )
    expect_status(answer, 401)
    await script.never_seen(because=proof)


@clause("auth.key.body_refused")
async def test_body_is_no_credential(gateway: Gateway, worker: Worker) -> None:
    """The key in the request body opens nothing."""
    key = gateway.keys["shared"]
    await gateway.refuses(
        worker, CHAT, {}, {"api_key": key, "authorization": f"Bearer {key}"}, status=401, invalid_key=None
    )


@clause("auth.public.models_without_key")
async def test_list_models_is_public(gateway: Gateway, worker: Worker) -> None:
    """List Models answers who has no key, on a gateway that asks for one elsewhere."""
    await gateway.proof(worker, CHAT, {})
    expect_status(await gateway.get("/v1/models", key=None), 200)


@clause("auth.public.model_by_id_without_key")
async def test_one_model_is_public(gateway: Gateway, worker: Worker) -> None:
    """One model is no more secret than their list."""
    await gateway.proof(worker, CHAT, {})
    expect_success(await gateway.get(f"/v1/models/{gateway.model}", key=None))
