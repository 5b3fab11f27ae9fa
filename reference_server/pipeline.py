"""The whole way of a request, in its order. Each stage is a module of `reference_server.stages`.

A stage passes on what the next one needs or raises `Refused`; routing (404, 405) comes before all of them, and
*settle* after, on every way out (`reference_server.connection`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_server.stages.admit import admit
from reference_server.stages.budget import meter, reserve
from reference_server.stages.choose import choose, dispatch
from reference_server.stages.identify import Group, identify
from reference_server.stages.parse import parse
from reference_server.stages.profile import choose as choose_profile
from reference_server.stages.receive import refuse_announced_excess
from reference_server.stages.relay import relay
from reference_server.stages.validate import validate

if TYPE_CHECKING:
    from reference_server.answers import Answer
    from reference_server.call import Call
    from reference_server.endpoints import Endpoint
    from reference_server.stages.identify import Caller
    from reference_server.state import ServerState


async def serve(this: Call, endpoint: Endpoint, state: ServerState) -> Answer:
    """A request for inference.

    Raises:
        Refused: some stage ends it; the answer is made of what was raised.
    """
    caller = enter(this, state, Group.SERVING)
    await admit(this, caller, state.admission)
    request = await parse(this, endpoint)
    profile = choose_profile(request.model)
    validate(request, profile)
    outgoing = choose(this, request, profile, state.settings)
    charge = reserve(this, caller, request, outgoing, state)
    response = await dispatch(this, outgoing, state.workers)
    return meter(this, await relay(this, request, response, state.settings), charge)


def enter(this: Call, state: ServerState, group: Group) -> Caller:
    """What every request goes through: the size it announces, then who is asking.

    Raises:
        Refused: 413 or 401.
    """
    refuse_announced_excess(this, state.settings)
    return identify(this, state.settings, group)
