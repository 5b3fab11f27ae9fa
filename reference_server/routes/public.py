"""Routes that ask for no key: the models list, and the three probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference_server.answers import Answer, json_answer, text_answer
from reference_server.errors import GatewayError
from reference_server.pipeline import enter
from reference_server.stages.identify import Group

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.state import ServerState
    from reference_server.workers.exchange import ModelCard


class PublicRoutes:
    """The public routes of one server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def models(self, this: Call) -> Answer:
        """GET /v1/models: each served model once, under its canonical id; 503 in plain text when there is none."""
        enter(this, self._state, Group.PUBLIC)
        cards = self._state.workers.models()
        if not cards:
            return text_answer(503, "No models available")
        return json_answer(200, {"object": "list", "data": [_entry(card) for card in cards]})

    async def model(self, this: Call, model_id: str) -> Answer:
        """GET /v1/models/{id}: one entry of the list; an alias gets the entry of the model it stands for.

        The contract does not describe this route; it is the newer real gateway's.
        """
        enter(this, self._state, Group.PUBLIC)
        wanted = self._state.settings.canonical_model(model_id)
        for card in self._state.workers.models():
            if card.id == wanted:
                return json_answer(200, _entry(card))
        raise GatewayError(404, "model_not_found", f"No worker serves the model '{model_id}'.")

    async def alive(self, this: Call) -> Answer:
        """GET /health and /liveness: the process answers, whatever its workers do."""
        enter(this, self._state, Group.PUBLIC)
        return text_answer(200, "OK")

    async def readiness(self, this: Call) -> Answer:
        """GET /readiness: 200 while there is a worker that takes requests and the server is not leaving."""
        enter(this, self._state, Group.PUBLIC)
        if self._state.draining:
            return json_answer(503, {"status": "not ready", "reason": "draining"})
        readiness = self._state.workers.readiness()
        if not readiness.ready:
            return json_answer(503, {"status": "not ready", "reason": "insufficient healthy workers"})
        ready = {"status": "ready", "healthy_workers": readiness.healthy, "total_workers": readiness.total}
        return json_answer(200, ready)


def _entry(card: ModelCard) -> dict[str, Any]:
    return {"id": card.id, "object": "model", "created": card.created, "owned_by": card.owned_by}
