"""The workers API over HTTP; what it does is in `reference_server.workers.admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from reference_server.answers import Answer, json_answer
from reference_server.pipeline import enter
from reference_server.stages.identify import Group
from reference_server.workers import admin, maintenance

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.state import ServerState
    from reference_server.workers.admin import AdminAnswer
    from reference_server.workers.fleet import Fleet


class WorkersRoutes:
    """The admin routes of one server; `reference_server.stages.identify` says who may use them."""

    def __init__(self, state: ServerState, fleet: Fleet) -> None:
        self._state = state
        self._fleet = fleet

    async def list(self, this: Call) -> Answer:
        """GET /workers, with `?model=` for the workers of one model."""
        enter(this, self._state, Group.ADMIN)
        wanted = parse_qs(this.query).get("model")
        return _answer(admin.list_workers(self._fleet, wanted[0] if wanted else None))

    async def add(self, this: Call) -> Answer:
        """POST /workers."""
        enter(this, self._state, Group.ADMIN)
        return _answer(admin.add_worker(self._fleet, this.header("content-type"), await this.body.read()))

    async def get(self, this: Call, worker_id: str) -> Answer:
        """GET /workers/{id}."""
        enter(this, self._state, Group.ADMIN)
        return _answer(admin.get_worker(self._fleet, worker_id))

    async def remove(self, this: Call, worker_id: str) -> Answer:
        """DELETE /workers/{id}."""
        enter(this, self._state, Group.ADMIN)
        return _answer(admin.remove_worker(self._fleet, worker_id))

    async def update(self, this: Call, worker_id: str) -> Answer:
        """PATCH /workers/{id}."""
        enter(this, self._state, Group.ADMIN)
        body = await this.body.read()
        return _answer(admin.update_worker(self._fleet, worker_id, this.header("content-type"), body))

    async def replace(self, this: Call, worker_id: str) -> Answer:
        """PUT /workers/{id}."""
        enter(this, self._state, Group.ADMIN)
        body = await this.body.read()
        return _answer(admin.replace_worker(self._fleet, worker_id, this.header("content-type"), body))

    async def loads(self, this: Call) -> Answer:
        """GET /get_loads."""
        enter(this, self._state, Group.ADMIN)
        return _answer(maintenance.get_loads(self._fleet))

    async def flush_cache(self, this: Call) -> Answer:
        """POST /flush_cache; a body is not looked at."""
        enter(this, self._state, Group.ADMIN)
        return _answer(await maintenance.flush_cache(self._fleet))


def _answer(answer: AdminAnswer) -> Answer:
    return json_answer(answer.status, answer.body, list(answer.headers))
