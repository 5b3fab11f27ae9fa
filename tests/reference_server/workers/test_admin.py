"""The workers API as functions: shapes, codes and what they set going."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.workers import admin
from reference_server.workers.admin_bodies import AddBody, BadBodyError, UpdateBody, read_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.workers.fleet import Fleet

StartWorker = Any  # fixtures of conftest.py, which cannot be imported
StartFleet = Any
Kit = Any

JSON = "application/json"
NOBODY = "00000000-0000-4000-8000-000000000000"
READY_KEYS = [
    "id",
    "model_id",
    "url",
    "models",
    "worker_type",
    "connection_mode",
    "runtime_type",
    "labels",
    "priority",
    "cost",
    "max_connection_attempts",
    "is_healthy",
    "status",
    "load",
    "http2",
]


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _entry(fleet: Fleet, worker_id: str) -> dict[str, Any]:
    return admin.get_worker(fleet, worker_id).body


async def test_an_added_worker_is_pending_and_then_ready(
    start_fleet: StartFleet, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """POST answers 202 with a location; the worker can be followed there from pending to ready, with all its keys."""
    fleet = await start_fleet()
    worker = await start_worker(model="m")
    answer = admin.add_worker(fleet, JSON, _body(url=worker.url, unknown=1))
    worker_id = answer.body["worker_id"]
    assert answer.status == 202
    assert answer.headers == (("location", f"/workers/{worker_id}"),)
    assert answer.body == {
        "status": "accepted",
        "worker_id": worker_id,
        "url": worker.url,
        "location": f"/workers/{worker_id}",
        "message": answer.body["message"],
    }
    assert str(uuid.UUID(worker_id)) == worker_id
    pending = _entry(fleet, worker_id)
    assert list(pending) == [key for key in READY_KEYS if key not in {"model_id", "models", "labels"}] + ["job_status"]
    assert (pending["status"], pending["is_healthy"], pending["runtime_type"]) == ("pending", False, "unspecified")
    assert pending["job_status"] | {"timestamp": 0} == {
        "job_type": "AddWorker",
        "worker_url": worker.url,
        "status": "processing",
        "message": None,
        "timestamp": 0,
    }
    assert admin.list_workers(fleet).body["workers"] == []
    await until(lambda: _entry(fleet, worker_id)["status"] == "ready")
    ready = _entry(fleet, worker_id)
    assert list(ready) == READY_KEYS
    assert (ready["model_id"], ready["is_healthy"], ready["runtime_type"], ready["load"]) == ("m", True, "vllm", 0)
    assert admin.list_workers(fleet).body == {
        "workers": [ready],
        "total": 1,
        "stats": {"prefill_count": 0, "decode_count": 0, "regular_count": 1},
    }


async def test_what_a_worker_is_registered_with_is_shown_but_not_its_key(
    start_fleet: StartFleet, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """Models given replace those listed, labels win over those found, and the key is nowhere to be seen."""
    fleet = await start_fleet()
    worker = await start_worker(model="listed")
    fields = {"labels": {"a": "b"}, "priority": 7, "cost": 2, "api_key": "sekret", "models": [{"id": "x"}, {"id": "y"}]}
    worker_id = admin.add_worker(fleet, JSON, _body(url=worker.url, **fields)).body["worker_id"]
    await until(lambda: _entry(fleet, worker_id)["status"] == "ready")
    entry = _entry(fleet, worker_id)
    assert [model["id"] for model in entry["models"]] == ["x", "y"]
    assert (entry["labels"]["a"], entry["priority"], entry["cost"]) == ("b", 7, 2.0)
    assert "sekret" not in json.dumps(entry)
    assert "sekret" not in repr(list(fleet.registry))
    assert [card.id for card in fleet.models()] == ["x", "y"]


async def test_the_list_can_be_narrowed_to_a_model(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """With a model given only the workers that serve it are listed."""
    first, second = await start_worker(model="m1"), await start_worker(model="m2")
    fleet = await start_fleet(first, second)
    assert [entry["url"] for entry in admin.list_workers(fleet, "m2").body["workers"]] == [second.url]
    assert admin.list_workers(fleet, "other").body["total"] == 0


async def test_a_known_url_is_a_conflict(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """A URL that is registered is 409 with the worker's id, also in another spelling and while it is pending."""
    ready, absent = await start_worker(model="m"), await start_worker(model="n")
    fleet = await start_fleet(ready)
    await absent.stop()
    (known,) = fleet.registry
    for url in (ready.url, ready.url + "/"):
        answer = admin.add_worker(fleet, JSON, _body(url=url))
        assert (answer.status, answer.body["code"]) == (409, "WORKER_ALREADY_EXISTS")
        assert known.id in answer.body["error"]
    admin.add_worker(fleet, JSON, _body(url=absent.url))
    answer = admin.add_worker(fleet, JSON, _body(url=absent.url))
    assert (answer.status, answer.body["code"]) == (409, "WORKER_CREATE_IN_PROGRESS")


@pytest.mark.parametrize("function", ["get_worker", "remove_worker", "update_worker", "replace_worker"])
@pytest.mark.parametrize(
    ("worker_id", "status", "code"), [("abc", 400, "BAD_REQUEST"), (NOBODY, 404, "WORKER_NOT_FOUND")]
)
async def test_ids_nobody_has(start_fleet: StartFleet, function: str, worker_id: str, status: int, code: str) -> None:
    """An id that is none is 400, an id of nobody 404, for every operation."""
    fleet = await start_fleet()
    body = (JSON, b"{}") if function in {"update_worker", "replace_worker"} else ()
    answer = getattr(admin, function)(fleet, worker_id, *body)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert list(answer.body) == ["error", "code"]


@pytest.mark.parametrize("worker_id", ["urn:uuid:" + NOBODY, NOBODY.upper(), NOBODY.replace("-", "")])
async def test_an_id_may_be_spelled_otherwise(start_fleet: StartFleet, worker_id: str) -> None:
    """Any spelling of a UUID is an id."""
    assert admin.get_worker(await start_fleet(), worker_id).status == 404


BAD_BODIES = [
    (None, _body(url="http://127.0.0.1:1"), "Content-Type"),
    ("text/plain", _body(url="http://127.0.0.1:1"), "Content-Type"),
    (JSON, b"", "no JSON"),
    (JSON, b"{", "no JSON"),
    (JSON, b"[" * 100_000, "no JSON"),
    (JSON, b'{"url":"http://a","labels":{"x":"\\ud800"}}', "no JSON"),
    (JSON, b"[]", "object"),
    (JSON, b"null", "object"),
    (JSON, b"{}", "url"),
    (JSON, _body(url=5), "url"),
    (JSON, _body(url=""), "empty"),
    (JSON, _body(url="127.0.0.1:1"), "http://"),
    (JSON, _body(url="grpc://127.0.0.1:1"), "not built"),
    (JSON, _body(url="http://a", worker_type="prefill"), "not built"),
    (JSON, _body(url="http://a", worker_type="other"), "worker_type"),
    (JSON, _body(url="http://a", connection_mode="grpc"), "not built"),
    (JSON, _body(url="http://a", runtime_type="external"), "not built"),
    (JSON, _body(url="http://a", runtime_type="other"), "runtime_type"),
    (JSON, _body(url="http://a", priority=-1), "priority"),
    (JSON, _body(url="http://a", priority="1"), "priority"),
    (JSON, _body(url="http://a", priority=True), "priority"),
    (JSON, _body(url="http://a", cost=0), "cost"),
    (JSON, b'{"url":"http://a","cost":1e999}', "cost"),
    (JSON, _body(url="http://a", labels={"a": 1}), "labels.a"),
    (JSON, _body(url="http://a", models=["a"]), "models.0"),
    (JSON, _body(url="http://a", models=[{"id": ""}]), "models.0.id"),
    (JSON, _body(url="http://a", models=None), "models"),
    (JSON, _body(url="http://a", api_key=5), "api_key"),
    (JSON, _body(url="http://a", api_key="a\r\nb"), "api_key"),
]


@pytest.mark.parametrize(("content_type", "body", "says"), BAD_BODIES)
async def test_a_body_that_cannot_be_used_is_refused_with_its_place(
    start_fleet: StartFleet, content_type: str | None, body: bytes, says: str
) -> None:
    """A bad body is 400 BAD_REQUEST, says where the fault is, and registers nothing."""
    fleet = await start_fleet()
    answer = admin.add_worker(fleet, content_type, body)
    assert (answer.status, answer.body["code"]) == (400, "BAD_REQUEST")
    assert says in answer.body["error"]
    assert len(fleet.registry) == 0


async def test_removal_is_accepted_and_then_done(
    start_fleet: StartFleet, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """DELETE answers 202; the worker drains, with the job shown, and is soon gone."""
    worker = await start_worker(model="m")
    fleet = await start_fleet(worker)
    (known,) = fleet.registry
    answer = admin.remove_worker(fleet, known.id)
    assert (answer.status, list(answer.body)) == (202, ["status", "worker_id", "message"])
    entry = _entry(fleet, known.id)
    assert (entry["status"], entry["is_healthy"]) == ("draining", False)
    assert entry["job_status"]["job_type"] == "RemoveWorker"
    await until(lambda: admin.get_worker(fleet, known.id).status == 404)


async def test_a_pending_worker_is_removed_at_once(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """DELETE of a worker that never answered ends its registration."""
    worker = await start_worker(model="m")
    await worker.stop()
    fleet = await start_fleet()
    worker_id = admin.add_worker(fleet, JSON, _body(url=worker.url)).body["worker_id"]
    assert admin.remove_worker(fleet, worker_id).status == 202
    assert admin.get_worker(fleet, worker_id).status == 404
    assert admin.add_worker(fleet, JSON, _body(url=worker.url)).status == 202


async def test_an_update_merges_labels_and_replaces_numbers(start_fleet: StartFleet, start_worker: StartWorker) -> None:
    """PATCH changes what it names and leaves the rest; a value that does not fit changes nothing."""
    worker = await start_worker(model="m")
    fleet = await start_fleet(worker)
    (known,) = fleet.registry
    assert admin.update_worker(fleet, known.id, JSON, _body(labels={"a": "1"}, priority=9)).status == 202
    assert admin.update_worker(fleet, known.id, JSON, _body(labels={"b": "2"})).status == 202
    assert admin.update_worker(fleet, known.id, JSON, _body(priority="x")).status == 400
    entry = _entry(fleet, known.id)
    assert (entry["labels"]["a"], entry["labels"]["b"], entry["priority"]) == ("1", "2", 9)


async def test_a_replacement_keeps_the_url_and_drops_the_rest(
    start_fleet: StartFleet, start_worker: StartWorker, until: Callable[..., Any]
) -> None:
    """PUT probes the worker anew with what the body says; another URL is refused."""
    worker = await start_worker(model="m")
    fleet = await start_fleet(worker)
    (known,) = fleet.registry
    admin.update_worker(fleet, known.id, JSON, _body(labels={"a": "1"}, priority=9))
    assert admin.replace_worker(fleet, known.id, JSON, _body(url="http://127.0.0.1:1")).status == 400
    assert admin.replace_worker(fleet, known.id, JSON, _body(url=worker.url, cost=3)).status == 202
    assert _entry(fleet, known.id)["status"] == "ready"
    await until(lambda: "job_status" not in _entry(fleet, known.id))
    entry = _entry(fleet, known.id)
    assert (entry["priority"], entry["cost"], "a" in entry["labels"]) == (50, 3.0, False)
    fleet.remove(known)
    assert admin.replace_worker(fleet, known.id, JSON, _body(url=worker.url)).status == 400


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("url", "models", "worker_type", "runtime_type", "labels", "priority", "cost", "api_key")


@given(
    value=st.dictionaries(st.sampled_from(FIELDS), ANY_JSON) | ANY_JSON, model=st.sampled_from([AddBody, UpdateBody])
)
def test_no_json_breaks_the_reading_of_a_body(value: Any, model: type[AddBody | UpdateBody]) -> None:
    """Whatever JSON is sent, it is a registration or a clear refusal."""
    with contextlib.suppress(BadBodyError):
        body = read_body(JSON, json.dumps(value).encode(), model)
        if isinstance(body, AddBody):
            body.spec()
