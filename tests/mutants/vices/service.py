"""Vices of what a gateway says about itself: models, probes, the workers API, unknown paths."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from tests.mutants.hooks import dumps, loads
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.answers import Answer

PUBLIC = "reference_server.routes.public:PublicRoutes"
ADMIN = "reference_server.workers.admin"


def _public(route: str, edit: Callable[[Answer], Any]) -> Vice:
    """A change of the answer of a public route."""

    async def changed(original: Any, self: Any, this: Any, **arguments: Any) -> Answer:
        answer: Answer = await original(self, this, **arguments)
        edit(answer)
        return answer

    return swap(f"{PUBLIC}.{route}", changed)


def _json(edit: Callable[[Any], Any]) -> Callable[[Answer], None]:
    """The edit of an answer's JSON."""

    def change(answer: Answer) -> None:
        if isinstance(answer.body, bytes) and answer.body.startswith(b"{"):
            value = loads(answer.body)
            changed = edit(value)
            answer.body = dumps(value if changed is None else changed)

    return change


def _status(status: int, when: int = 200) -> Callable[[Answer], None]:
    return lambda answer: setattr(answer, "status", status if answer.status == when else answer.status)


def _typed(text: str) -> Callable[[Answer], None]:
    return lambda answer: setattr(answer, "headers", [("content-type", text)])


def _entries(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Answer], None]:
    return _json(lambda value: [edit(entry) for entry in value["data"]] and None)


LIST = "models.list"
for _name, _about, _breaks, _edit in (
    ("lists_models_with_201", "The list of models has status 201.", ("status",), _status(201)),
    ("lists_models_as_text", "The list of models is declared as plain text.", ("content_type",), _typed("text/plain")),
    ("lists_models_bare", "The list of models is a bare array.", ("object", "data", "shape"), _json(lambda v: v["data"])),
    ("lists_models_as_models", "The object of the list is another.", ("object", "shape"), _json(lambda v: v.update(object="models"))),
    ("lists_models_elsewhere", "The models are not in data.", ("data",), _json(lambda v: {"object": "list", "models": v["data"]})),
    ("lists_names_for_ids", "Entries have a name and no id.", ("entry.id",), _entries(lambda e: e.update(name=e.pop("id")))),
    ("lists_ids_elsewhere", "Ids of the list are served under no such name.", ("usable", "complete", "canonical"), _entries(lambda e: e.update(id="models/" + e["id"]))),
    ("lists_entries_as_something", "The object of entries is another.", ("entry.object",), _entries(lambda e: e.update(object="engine"))),
    ("lists_dates_as_text", "created is a text.", ("entry.created",), _entries(lambda e: e.update(created="2026-11-30"))),
    ("lists_no_owner", "owned_by is missing.", ("entry.owned_by",), _entries(lambda e: e.pop("owned_by"))),
    ("lists_more_than_documented", "Entries have members that nobody documented.", ("entry.only_documented", "from_gateway"), _entries(lambda e: e.update(root=e["id"], max_model_len=1))),
    ("lists_all_but_one", "A model is missing.", ("complete",), _json(lambda v: v.update(data=v["data"][:-1]))),
    ("lists_models_twice", "Every model is listed once a worker.", ("once",), _json(lambda v: v.update(data=v["data"] * 2))),
    ("lists_aliases", "Aliases are listed.", ("aliases_hidden",), _json(lambda v: v["data"].append({**v["data"][0], "id": "conformance-alias"}))),
    ("lists_nothing_with_200", "Without a worker the list is empty.", ("none.status",), _status(200, 503)),
    ("lists_nothing_as_json", "Without a worker the answer is an error in JSON.", ("none.content_type", "none.body"),
     lambda a: (setattr(a, "body", b'{"error":{}}'), setattr(a, "headers", [("content-type", "application/json")])) if a.status == 503 else None),
):  # fmt: skip
    add(_name, _about, tuple(f"{LIST}.{word}" for word in _breaks), _public("models", _edit))


async def _by_query(original: Any, self: Any, this: Any) -> Answer:
    answer: Answer = await original(self, this)
    if this.query:
        answer.status = 400
    return answer


add("judges_queries", "A query of the list is refused.", ("models.list.query",), swap(f"{PUBLIC}.models", _by_query))


def _retrieve(edit: Any) -> Vice:
    async def model(original: Any, self: Any, this: Any, model_id: str) -> Answer:
        return await edit(lambda wanted: original(self, this, model_id=wanted), model_id)  # type: ignore[no-any-return]  # as above

    return swap(f"{PUBLIC}.model", model)


async def _nobody(_known: Any, _wanted: str) -> Any:
    from reference_server.errors import GatewayError  # noqa: PLC0415 - the list of mutants needs no server

    raise GatewayError(404, "model_not_found", "none")


async def _invented(known: Any, wanted: str) -> Any:
    from reference_server.answers import json_answer  # noqa: PLC0415 - as above
    from reference_server.errors import GatewayError  # noqa: PLC0415 - as above

    try:
        return await known(wanted)
    except GatewayError:
        return json_answer(200, {"id": wanted, "object": "model", "created": 0, "owned_by": "x"})


async def _as_asked(known: Any, wanted: str) -> Any:
    answer = await known(wanted)
    _json(lambda v: v.update(id=wanted))(answer)
    return answer


add(
    "retrieves_no_model",
    "Single models are never found.",
    ("models.retrieve.known", "models.retrieve.alias", "models.retrieve.slash"),
    _retrieve(_nobody),
)
add("retrieves_any_model", "Every model is found.", ("models.retrieve.unknown",), _retrieve(_invented))
add("retrieves_aliases", "An alias has an entry of its own.", ("models.retrieve.alias",), _retrieve(_as_asked))
add(
    "cuts_ids_at_slashes",
    "Ids end at a slash.",
    ("models.retrieve.slash",),
    _retrieve(lambda known, wanted: known(wanted.partition("/")[0])),
)

for _route, _breaks in (("alive", ("health.up", "health.up_without_workers", "health.liveness", "health.liveness_without_workers", "health.up_when_unhealthy")),
                        ("readiness", ("health.readiness.ready",))):  # fmt: skip
    add(f"answers_{_route}_with_204", "Probes are answered with 204.", _breaks, _public(_route, _status(204)))
add(
    "is_always_ready",
    "Without a worker the gateway is ready.",
    ("health.readiness.no_workers", "health.readiness.unhealthy"),
    _public("readiness", _status(200, 503)),
)
add("tells_readiness_as_text", "Readiness is told in plain text.", ("health.readiness.json", "health.readiness.no_workers_json"),
    _public("readiness", lambda a: (setattr(a, "body", b"OK"), _typed("text/plain")(a))))  # fmt: skip
add(
    "counts_no_workers",
    "Readiness counts nothing.",
    ("health.readiness.counts",),
    _public("readiness", _json(lambda v: {"status": v["status"]})),
)


async def _probe_workers(original: Any, self: Any, this: Any) -> Answer:
    """A probe of the gateway asks a worker to say something."""
    import aiohttp  # noqa: PLC0415 - the list of mutants needs no client

    async with aiohttp.ClientSession() as session:
        for worker in self._state.workers.registry:
            body = {
                "model": worker.models[0].id,
                "messages": [{"role": "user", "content": this.query + str(this.headers)}],
            }
            async with session.post(worker.url + "/v1/chat/completions", json=body) as found:
                await found.read()
    return await original(self, this)  # type: ignore[no-any-return]  # as above


add(
    "probes_by_inference",
    "A probe of the gateway makes a worker infer.",
    ("health.not_forwarded",),
    swap(f"{PUBLIC}.alive", _probe_workers),
)


def _admin(function: str, edit: Callable[[Any], Any]) -> Vice:
    """A change of what a function of the workers API answers."""
    return swap(f"{ADMIN}:{function}", lambda original, *arguments: edit(original(*arguments)))


def _body(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    def change(answer: Any) -> Any:
        value = dict(answer.body)
        edit(value)
        return answer._replace(body=value)

    return change


def _to(status: int, *when: int) -> Callable[[Any], Any]:
    return lambda answer: answer._replace(status=status) if answer.status in when else answer


API = "workers_api"
for _name, _about, _breaks, _function, _edit in (
    ("adds_with_200", "A worker is added with 200.", ("add.accepted",), "add_worker", _to(200, 202)),
    ("adds_without_location_header", "No Location tells where a new worker is.", ("add.location",), "add_worker", lambda a: a._replace(headers=())),
    *((f"adds_without_{_key}", f"The answer to an addition lacks {_key}.", (f"add.body_{_key}",), "add_worker", _body(lambda v, key=_key: v.pop(key, None)))  # type: ignore[misc]  # bound early
      for _key in ("status", "worker_id", "url", "location")),
    ("adds_bad_bodies", "Additions that cannot be read are accepted.", ("add.no_url_refused", "add.bad_json_refused", "add.bad_scheme_refused", "add.bad_enum_refused"),
     "add_worker", _to(202, 400)),
    ("adds_known_urls", "A URL that is known is accepted.", ("add.duplicate_refused",), "add_worker", _to(202, 409)),
    ("refuses_known_urls_with_400", "A URL that is known has another code.", ("add.duplicate_code",), "add_worker",
     lambda a: a._replace(body={**a.body, "code": "BAD_REQUEST"}) if a.status == 409 else a),
    ("wraps_errors_of_the_api", "Errors of the workers API are in the envelope.", ("error.shape",), "add_worker",
     lambda a: a._replace(body={"error": {"message": "x", "code": "y"}}) if a.status >= 400 else a),
    ("finds_workers_with_202", "A worker is found with 202.", ("get.found",), "get_worker", _to(202, 200)),
    *((f"shows_no_{_key}", f"A worker's entry lacks {_key}.", (f"get.{_word}",), "get_worker",  # type: ignore[misc]  # bound early
       lambda a, key=_key: a._replace(body={k: v for k, v in a.body.items() if k != key}) if a.status == 200 else a)
      for _key, _word in (("id", "id"), ("url", "url"), ("model_id", "model"), ("is_healthy", "healthy"), ("status", "status"))),
    ("shows_pending_as_ready", "A worker that is not up is shown as ready.", ("get.pending",), "get_worker",
     lambda a: a._replace(body={**a.body, "status": "ready", "is_healthy": True}) if a.status == 200 else a),
    ("finds_strangers", "Unknown workers are found.", ("get.unknown_not_found", "remove.gone"), "get_worker", _to(200, 404)),
    ("gives_strangers_another_code", "Unknown workers have another code.", ("get.unknown_code",), "get_worker",
     lambda a: a._replace(body={**a.body, "code": "NOT_FOUND"}) if a.status == 404 else a),
    ("takes_any_worker_id", "Ids that are none are not found.", ("get.bad_id_refused",), "get_worker", _to(404, 400)),
    ("lists_workers_by_id", "The list of workers is an object.", ("list.array",), "list_workers", _body(lambda v: v.update(workers={w["id"]: w for w in v["workers"]}))),
    ("counts_workers_wrongly", "total is one too high.", ("list.total",), "list_workers", _body(lambda v: v.update(total=v["total"] + 1))),
    ("tells_no_stats", "The list has no stats.", ("list.stats",), "list_workers", _body(lambda v: v.pop("stats"))),
    ("lists_three_workers", "Only the first three workers are listed.", ("list.added_appears",), "list_workers", _body(lambda v: v.update(workers=v["workers"][:3]))),
    ("removes_with_200", "A worker is removed with 200.", ("remove.accepted",), "remove_worker", _to(200, 202)),
    ("removes_without_id", "The answer to a removal lacks the id.", ("remove.body_worker_id",), "remove_worker", _body(lambda v: v.pop("worker_id", None))),
    ("removes_strangers", "Unknown workers are removed.", ("remove.unknown_not_found",), "remove_worker", _to(202, 404)),
    ("patches_with_200", "A worker is patched with 200.", ("patch.accepted",), "update_worker", _to(200, 202)),
    ("puts_with_200", "A worker is replaced with 200.", ("put.accepted",), "replace_worker", _to(200, 202)),
    ("moves_workers", "A worker may get another URL.", ("put.other_url_refused",), "replace_worker", _to(202, 400)),
):  # fmt: skip
    add(_name, _about, tuple(f"{API}.{word}" for word in _breaks), _admin(_function, _edit))

add(
    "lists_workers_of_any_model",
    "?model= is not looked at.",
    ("workers_api.list.filter_by_model",),
    swap(f"{ADMIN}:list_workers", lambda original, fleet, _model=None: original(fleet)),
)


def _nothing(*_: Any) -> Any:
    from reference_server.workers.admin import AdminAnswer  # noqa: PLC0415 - the list of mutants needs no server

    return AdminAnswer(202, (), {"status": "accepted", "worker_id": "x", "message": "no"})


add("forgets_additions", "Additions are accepted and forgotten.", ("workers_api.add.becomes_ready", "workers_api.add.served", "workers_api.add.listed_in_models",
    "workers_api.add.model_discovered"), swap("reference_server.workers.lifecycle:Lifecycle.begin", lambda *_: None))  # fmt: skip
add("forgets_removals", "Removals are accepted and forgotten.", ("workers_api.remove.gone", "workers_api.remove.no_new_requests", "workers_api.remove.model_not_found",
    "workers_api.remove.models_list", "workers_api.remove.readd", "workers_api.list.removed_disappears"),
    swap("reference_server.workers.lifecycle:Lifecycle.begin_removal", lambda *_: None))  # fmt: skip
add(
    "forgets_patches",
    "Changes are accepted and forgotten.",
    ("workers_api.patch.labels_merged",),
    swap("reference_server.workers.registry:Registry.replace_spec", lambda *_: None),
)


def _spec(edit: Callable[[Any], Any]) -> Vice:
    return swap(
        "reference_server.workers.registry:Registry.add", lambda original, self, spec: original(self, edit(spec))
    )


add(
    "forgets_labels",
    "Labels of an addition are lost.",
    ("workers_api.add.labels_kept",),
    _spec(lambda s: dataclasses.replace(s, labels={})),
)
add(
    "forgets_models_of_additions",
    "Models of an addition are not looked at.",
    ("workers_api.add.models_override",),
    _spec(lambda s: dataclasses.replace(s, models=())),
)
add(
    "forgets_keys_of_workers",
    "The key of a worker is never sent.",
    ("workers_api.add.worker_key",),
    _spec(lambda s: dataclasses.replace(s, api_key=None)),
)


def _duplicate(original: Any, self: Any, spec: Any) -> Any:
    """A URL that is known replaces the worker that had it."""
    from reference_server.workers.registry import WorkerExistsError  # noqa: PLC0415 - as above

    try:
        return original(self, spec)
    except WorkerExistsError as error:
        self.remove(error.worker)
        return original(self, spec)


add("replaces_duplicates", "A URL that is known replaces the worker that had it.", ("workers_api.add.duplicate_keeps_first", "workers_api.add.duplicate_refused"),
    swap("reference_server.workers.registry:Registry.add", _duplicate))  # fmt: skip


def _strict_body(original: Any, content_type: Any, body: bytes, model: Any) -> Any:
    """Unknown fields are refused."""
    from reference_server.workers.admin_bodies import BadBodyError  # noqa: PLC0415 - as above

    try:
        unknown = set(json.loads(body)) - set(model.model_fields)
    except (ValueError, TypeError):
        unknown = set()
    if unknown:
        raise BadBodyError(f"unknown: {unknown}")
    return original(content_type, body, model)


add(
    "refuses_unknown_fields_of_workers",
    "Additions with unknown fields are refused.",
    ("workers_api.add.unknown_fields_ignored",),
    swap(f"{ADMIN}:read_body", _strict_body),
)


async def _cut(original: Any, self: Any, worker: Any) -> None:
    """A removed worker is forgotten with its requests."""
    self._registry.remove(worker)


add("forgets_models_of_others", "With a worker all workers go.", ("workers_api.remove.others_served",), swap(
    "reference_server.workers.registry:Registry.remove", lambda original, self, worker: [original(self, each) for each in list(self)] and None), alone=True)  # noqa: ARG005 - the original's arguments  # fmt: skip


def _framework(edit: Callable[[Answer], Any]) -> Vice:
    async def refusal(original: Any, error: Any) -> Any:
        response = await original(error)
        edit(response.answer)
        return response

    return swap("reference_server.app:_framework_refusal", refusal)


add("answers_unknown_paths_bare", "Unknown paths and methods are refused without a body.", ("routes.unknown_path.envelope", "routes.wrong_method.envelope"),
    _framework(lambda a: setattr(a, "body", b"")))  # fmt: skip


async def _followed(original: Any, self: Any, worker: Any, request: Any) -> Any:
    """Which responses are a worker's."""
    found = await original(self, worker, request)
    _OPEN.setdefault(worker.id, []).append(found)
    return found


_OPEN: dict[str, list[Any]] = {}


def _cut_now(original: Any, self: Any, worker: Any) -> None:
    for each in _OPEN.pop(worker.id, ()):
        if hasattr(each, "_response"):
            each._response.close()
    original(self, worker)


add("cuts_streams_of_removed_workers", "A worker that is removed loses its requests at once.", ("workers_api.remove.stream_completes",),
    Vice({"reference_server.workers.lifecycle:Lifecycle.begin_removal": _cut_now, "reference_server.workers.dispatch:Dispatcher._attempt": _followed}))  # fmt: skip
add("prefers_keys_of_workers", "A worker's key replaces that of the client.", ("workers_api.add.client_key_wins",), swap(
    "reference_server.workers.dispatch:Dispatcher._attempt", lambda original, self, worker, request: original(
        self, worker, dataclasses.replace(request, headers=[p for p in request.headers if p[0] != "authorization"]) if worker.spec.api_key else request)))  # fmt: skip


async def _believes(original: Any, self: Any, spec: Any) -> Any:
    """A worker that does not answer is taken for one that does."""
    from reference_server.workers.detect import DetectionError  # noqa: PLC0415 - the list of mutants needs no server
    from reference_server.workers.worker import WorkerFacts  # noqa: PLC0415 - as above

    try:
        return await original(self, spec)
    except DetectionError:
        return WorkerFacts("generic", spec.models)


add(
    "believes_in_workers",
    "A worker that nobody answers for is taken for healthy.",
    ("workers_api.add.unreachable_not_served",),
    swap("reference_server.workers.detect:Detector.detect", _believes),
)
