"""List Models: the list itself, its entries, and who may read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import spec
from conformance.checks.stream_support import ALL_ENGINES, is_json, media_type
from conformance.harness import CHAT, Disproved, clause, engines
from conformance.harness.gateway import MODELS

if TYPE_CHECKING:
    from conformance.harness import Exchange, Gateway, Worker


async def entries(gateway: Gateway, **key: Any) -> list[dict[str, Any]]:
    """Return the entries of the list, of which there must be some."""
    listed = await gateway.get(MODELS, **key)
    assert listed.succeeded, listed.brief()
    data: list[dict[str, Any]] = listed.json["data"]
    assert data, "an empty list proves nothing"
    return data


def entry_of(listed: list[dict[str, Any]], worker: Worker) -> dict[str, Any]:
    """Return the entry of a worker's model; there must be one."""
    found = [entry for entry in listed if entry["id"] == worker.model]
    assert found, f"{worker.model} is not listed"
    return found[0]


def served(gateway: Gateway) -> set[str]:
    """Return the models that this configuration's workers serve."""
    return {worker.model for worker in gateway.environment.workers}


@clause("models.list.status")
async def test_success_is_200(gateway: Gateway, worker: Worker) -> None:
    """GET /v1/models answers 200 while workers serve models."""
    await gateway.proof(worker, CHAT, {})
    assert (await gateway.get(MODELS)).status == 200


@clause("models.list.content_type")
async def test_list_is_json(gateway: Gateway, worker: Worker) -> None:
    """The list is JSON by its content type."""
    await gateway.proof(worker, CHAT, {})
    assert is_json(await gateway.get(MODELS))


@clause("models.list.object")
async def test_object(gateway: Gateway) -> None:
    """The list's object is list."""
    assert (await gateway.get(MODELS)).json["object"] == "list"


@clause("models.list.data")
async def test_data(gateway: Gateway) -> None:
    """The entries are in the array data, as many as models are served."""
    data = (await gateway.get(MODELS)).json["data"]
    assert isinstance(data, list)
    assert len(data) == len(served(gateway))


@clause("models.list.shape")
async def test_documented_shape(gateway: Gateway) -> None:
    """The list has the shape of the document."""
    assert spec.schemas.problems("ModelList", (await gateway.get(MODELS)).json) == []


@clause("models.list.entry.id")
async def test_ids(gateway: Gateway) -> None:
    """Each id is the name of a model that a worker serves."""
    assert {entry["id"] for entry in await entries(gateway)} <= served(gateway)


@clause("models.list.entry.object")
async def test_entry_objects(gateway: Gateway) -> None:
    """Each entry's object is model."""
    assert {entry["object"] for entry in await entries(gateway)} == {"model"}


@clause("models.list.entry.created")
async def test_created_is_zero(gateway: Gateway) -> None:
    """Created is 0 in every entry."""
    assert {entry["created"] for entry in await entries(gateway)} == {0}


@clause("models.list.entry.owned_by")
async def test_owned_by_self_hosted(gateway: Gateway) -> None:
    """owned_by is self_hosted in every entry, though the engines name themselves in their own lists."""
    assert {entry["owned_by"] for entry in await entries(gateway)} == {"self_hosted"}


@clause("models.list.entry.only_documented")
async def test_nothing_but_the_documented_members(gateway: Gateway) -> None:
    """An entry has id, object, created and owned_by, and nothing else."""
    assert {tuple(sorted(entry)) for entry in await entries(gateway)} == {("created", "id", "object", "owned_by")}


@clause("models.list.complete")
async def test_every_served_model_is_listed(gateway: Gateway) -> None:
    """The model of every worker is in the list."""
    assert {entry["id"] for entry in await entries(gateway)} >= served(gateway)


@engines(*ALL_ENGINES)
@clause("models.list.usable")
async def test_listed_model_serves_requests(gateway: Gateway, worker: Worker) -> None:
    """A chat request with the id as it is listed reaches the worker of that model."""
    listed = entry_of(await entries(gateway), worker)["id"]
    script = worker.script()
    chat = await gateway.chat(script, model=listed)
    assert (await script.only()).worker == worker.name
    assert chat.succeeded


@clause("models.list.once")
async def test_model_of_two_workers_is_listed_once(gateway: Gateway) -> None:
    """A model that two workers serve has one entry."""
    workers = gateway.environment.workers
    assert len(workers) > len(served(gateway)), "this configuration needs two workers of one model"
    ids = [entry["id"] for entry in await entries(gateway)]
    assert sorted(ids) == sorted(served(gateway))


@clause("models.list.canonical", "models.list.aliases_hidden", "models.list.alias_accepted")
async def test_alias_is_accepted_but_not_listed(gateway: Gateway, worker: Worker) -> None:
    """A request by alias is served, the list has the canonical name, and the alias is not in it."""
    script = worker.script()
    chat = await gateway.chat(script, model=gateway.alias)
    await script.only()
    assert chat.succeeded
    ids = {entry["id"] for entry in await entries(gateway)}
    assert gateway.alias_of in ids
    assert gateway.alias not in ids


async def none_served(gateway: Gateway) -> Exchange:
    """Read the list of a gateway without workers, and make sure that it is none the less a gateway."""
    chat = await gateway.post(CHAT, {"model": "conformance-vllm", "messages": [{"role": "user", "content": "hi"}]})
    assert not chat.succeeded
    return await gateway.get(MODELS)


@clause("models.list.none.status")
async def test_no_models_is_503(gateway: Gateway) -> None:
    """Without a self-hosted worker the list answers 503."""
    assert (await none_served(gateway)).status == 503


@clause("models.list.none.body")
async def test_no_models_body(gateway: Gateway) -> None:
    """Without a self-hosted worker the body is the text No models available."""
    listed = await none_served(gateway)
    if listed.body.strip() != b"No models available":
        raise Disproved("another body", f"expected the plain text No models available: {listed.brief()}")


@clause("models.list.none.content_type")
async def test_no_models_is_plain_text(gateway: Gateway) -> None:
    """Without a self-hosted worker the answer is plain text."""
    listed = await none_served(gateway)
    if media_type(listed) != "text/plain":
        raise Disproved("not plain text", f"expected text/plain: {listed.headers.get('content-type')!r}")


async def guarded(gateway: Gateway) -> None:
    """Make sure that this gateway refuses a serving request without a key, or the checks below prove nothing."""
    chat = await gateway.post(CHAT, {"model": gateway.model, "messages": [{"role": "user", "content": "hi"}]}, key=None)
    assert chat.status == 401, f"this configuration needs a key: {chat.brief()}"


@clause("models.list.public")
async def test_no_key_is_needed(gateway: Gateway) -> None:
    """The list answers without a key where chat does not."""
    await guarded(gateway)
    assert {entry["id"] for entry in await entries(gateway, key=None)} == served(gateway)


@clause("models.list.own_key")
async def test_own_key(gateway: Gateway) -> None:
    """The list answers with the gateway's own key."""
    assert {entry["id"] for entry in await entries(gateway, key=gateway.keys["shared"])} == served(gateway)


@clause("models.list.foreign_bearer")
async def test_foreign_bearer_token(gateway: Gateway) -> None:
    """A token that is no key of the gateway is refused by chat and still gets the self-hosted list."""
    await guarded(gateway)
    chat = await gateway.post(
        CHAT, {"model": gateway.model, "messages": [{"role": "user", "content": "hi"}]}, key="sk-of-a-provider"
    )
    assert chat.status == 401, "the token is meant to be none of the gateway's"
    assert {entry["id"] for entry in await entries(gateway, key="sk-of-a-provider")} == served(gateway)


@clause("models.list.foreign_x_api_key")
async def test_foreign_x_api_key(gateway: Gateway) -> None:
    """An x-api-key that is no key of the gateway still gets the self-hosted list."""
    await guarded(gateway)
    listed = await gateway.get(MODELS, headers=[("x-api-key", "sk-of-a-provider")], key=None)
    assert listed.succeeded
    assert {entry["id"] for entry in listed.json["data"]} == served(gateway)


@clause("models.list.foreign_on_open_gateway")
async def test_foreign_token_on_an_open_gateway(gateway: Gateway) -> None:
    """A gateway without keys gives the bearer of any token the self-hosted list."""
    assert {entry["id"] for entry in await entries(gateway, key="sk-of-a-provider")} == served(gateway)


@clause("models.list.query")
async def test_query_string(gateway: Gateway) -> None:
    """A query string changes nothing."""
    listed = await gateway.get(f"{MODELS}?limit=1&after=x")
    assert listed.succeeded
    assert {entry["id"] for entry in listed.json["data"]} == served(gateway)


@engines(*ALL_ENGINES)
@clause("models.list.from_gateway")
async def test_list_is_not_the_workers(gateway: Gateway, worker: Worker) -> None:
    """The entry of a model is the same in kind whichever engine serves it."""
    entry = entry_of(await entries(gateway), worker)
    assert entry == {"id": worker.model, "object": "model", "created": 0, "owned_by": "self_hosted"} | {
        name: value for name, value in entry.items() if name not in {"id", "object", "created", "owned_by"}
    }
    assert not {"root", "parent", "permission", "max_model_len"} & set(entry)
