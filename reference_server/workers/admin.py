"""The workers API: plain functions of a fleet that return what to answer.

Shapes, key order and codes are those of the real gateway, compared call by call; wording is ours. Adding, changing and
removing are jobs in the background: 202 says only that one has begun.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from reference_server.workers.admin_bodies import AddBody, BadBodyError, UpdateBody, read_body
from reference_server.workers.registry import WorkerExistsError
from reference_server.workers.worker import Status

if TYPE_CHECKING:
    from reference_server.workers.fleet import Fleet
    from reference_server.workers.worker import Worker


class AdminAnswer(NamedTuple):
    """What to answer: status, extra headers, and the JSON body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: dict[str, Any]


def list_workers(fleet: Fleet, model: str | None = None) -> AdminAnswer:
    """GET /workers[?model=]: every probed worker, or those that serve a model. Pending ones are found by id only."""
    workers = [worker for worker in fleet.registry if worker.facts is not None]
    if model is not None:
        workers = [worker for worker in workers if worker.serves(model)]
    stats = {"prefill_count": 0, "decode_count": 0, "regular_count": len(workers)}
    entries = [describe(worker) for worker in workers]
    return AdminAnswer(200, (), {"workers": entries, "total": len(entries), "stats": stats})


def add_worker(fleet: Fleet, content_type: str | None, body: bytes) -> AdminAnswer:
    """POST /workers: 202 and where to follow the registration; 400 for a body that cannot be used, 409 if known."""
    try:
        spec = read_body(content_type, body, AddBody).spec()
        worker = fleet.add(spec)
    except BadBodyError as error:
        return _bad_request(str(error))
    except WorkerExistsError as error:
        return _conflict(error.worker)
    location = f"/workers/{worker.id}"
    accepted = {
        "status": "accepted",
        "worker_id": worker.id,
        "url": worker.url,
        "location": location,
        "message": "Worker addition queued for background processing",
    }
    return AdminAnswer(202, (("location", location),), accepted)


def get_worker(fleet: Fleet, worker_id: str) -> AdminAnswer:
    """GET /workers/{id}: the worker, also while it is pending; 404 if there is none, 400 if that is no id."""
    found = _find(fleet, worker_id)
    return found if isinstance(found, AdminAnswer) else AdminAnswer(200, (), describe(found))


def remove_worker(fleet: Fleet, worker_id: str) -> AdminAnswer:
    """DELETE /workers/{id}: 202; requests under way end in peace. A second DELETE does not wait for them."""
    found = _find(fleet, worker_id)
    if isinstance(found, AdminAnswer):
        return found
    fleet.remove(found)
    return _accepted(found, "Worker removal queued for background processing")


def update_worker(fleet: Fleet, worker_id: str, content_type: str | None, body: bytes) -> AdminAnswer:
    """PATCH /workers/{id}: 202; labels are merged, priority, cost and key replaced."""
    found = _find(fleet, worker_id)
    if isinstance(found, AdminAnswer):
        return found
    try:
        spec = read_body(content_type, body, UpdateBody).applied_to(found.spec)
    except BadBodyError as error:
        return _bad_request(str(error))
    fleet.registry.replace_spec(found, spec)
    return _accepted(found, "Worker update queued for background processing")


def replace_worker(fleet: Fleet, worker_id: str, content_type: str | None, body: bytes) -> AdminAnswer:
    """PUT /workers/{id}: 202; the worker is probed anew with what the body says. The URL must be the same."""
    found = _find(fleet, worker_id)
    if isinstance(found, AdminAnswer):
        return found
    try:
        spec = read_body(content_type, body, AddBody).spec()
    except BadBodyError as error:
        return _bad_request(str(error))
    if spec.url != found.url:
        return _bad_request(f"url: the worker's URL is '{found.url}'; to change it, DELETE the worker and POST another")
    if found.status is Status.DRAINING:
        return _bad_request("the worker is being removed; POST it again once it is gone")
    fleet.registry.replace_spec(found, spec)
    fleet.reprobe(found)
    return _accepted(found, "Worker update queued for background processing")


def describe(worker: Worker) -> dict[str, Any]:
    """A worker's entry; no key is ever in it."""
    entry: dict[str, Any] = {"id": worker.id}
    if worker.facts is not None:
        entry["model_id"] = worker.models[0].id
    entry["url"] = worker.url
    if worker.facts is not None:
        entry["models"] = [{"id": model.id, **model.details} for model in worker.models]
    entry |= {
        "worker_type": "regular",
        "connection_mode": "http",
        "runtime_type": worker.spec.runtime or (worker.facts.runtime if worker.facts else "unspecified"),
    }
    if worker.facts is not None:
        entry["labels"] = {**worker.facts.labels, **worker.spec.labels}
    entry |= {
        "priority": worker.spec.priority,
        "cost": worker.spec.cost,
        "max_connection_attempts": worker.spec.max_connection_attempts,
        "is_healthy": worker.healthy,
        "status": _status(worker),
        "load": worker.in_flight,
        "http2": False,
    }
    if worker.job is not None:
        entry["job_status"] = {
            "job_type": worker.job,
            "worker_url": worker.url,
            "status": "processing",
            "message": worker.last_problem,
            "timestamp": int(worker.job_began_at),
        }
    return entry


def _status(worker: Worker) -> str:
    if worker.status is Status.READY and not worker.healthy:
        return "not_ready"
    return worker.status.value


def _find(fleet: Fleet, worker_id: str) -> Worker | AdminAnswer:
    try:
        canonical = str(uuid.UUID(worker_id))
    except ValueError:
        return _bad_request(f"'{worker_id}' is no worker id; an id is a UUID, as POST /workers returned it")
    worker = fleet.registry.get(canonical)
    if worker is None:
        return AdminAnswer(404, (), {"error": f"Worker {canonical} not found", "code": "WORKER_NOT_FOUND"})
    return worker


def _accepted(worker: Worker, message: str) -> AdminAnswer:
    return AdminAnswer(202, (), {"status": "accepted", "worker_id": worker.id, "message": message})


def _bad_request(message: str) -> AdminAnswer:
    return AdminAnswer(400, (), {"error": message, "code": "BAD_REQUEST"})


def _conflict(worker: Worker) -> AdminAnswer:
    place = f"/workers/{worker.id}"
    if worker.facts is None:
        message = f"A worker at '{worker.url}' is being added already with id {worker.id}; follow it with GET {place}"
        return AdminAnswer(409, (), {"error": message, "code": "WORKER_CREATE_IN_PROGRESS"})
    message = f"A worker at '{worker.url}' exists already with id {worker.id}; use PUT or PATCH {place} to change it"
    return AdminAnswer(409, (), {"error": message, "code": "WORKER_ALREADY_EXISTS"})
