"""A storm of clients that leave at random moments, beside some that stay; afterwards every slot must be free again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loadtests.probes import prober
from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import invariants
from loadtests.traffic import Flow, Manners, reply

if TYPE_CHECKING:
    from conformance.harness.environment import Environment
    from loadtests.findings import Findings

RELEASED = "admission.slot.released_on_disconnect"
LIMIT = "admission.limit.respected"
FELT = "chat.stream.disconnect.many"
OTHERS = "chat.stream.disconnect.others_live"
FELT_S = 1.0
ROOM_S = 3.0
NOT_IN_S = 0.3

LEFT = reply("2a01", "left", tokens=12, silent_s=0.1, first_s=0.1, every_s=0.03)
STAYED = reply("2a02", "stayed", tokens=8, first_s=0.05, every_s=0.02)

LEAVING = Flow("leaving", (LEFT,), manners=Manners(leave_within_s=0.6))
STAYING = Flow("staying", (STAYED,), share=0.25)


def judge(data: Data, findings: Findings) -> None:
    """The worker feels every leave, and those who stay are served in full."""
    invariants(data, findings)
    findings.owe(FELT, occasion="no client left while the worker was at its request")
    findings.owe(OTHERS, occasion="no client stayed")
    for each in data.flow(LEAVING.name):
        entry = data.entry(each)
        if each.outcome != "left" or entry is None or (entry.completed_at or each.ended_at + 1) <= each.ended_at:
            continue
        gone = entry.peer_closed_at or entry.completed_at
        late_s = None if gone is None else gone - each.ended_at
        felt = late_s is not None and late_s <= FELT_S + data.margin_s
        said = "never" if late_s is None else f"after {late_s:.2f} s"
        findings.hold(FELT, felt, f"{each.marker}: the worker noticed {said} that the client had left")
    for each in data.flow(STAYING.name):
        seen = f"{each.marker}: status {each.status} ({each.error_code}), {each.outcome} {each.problem}"
        findings.hold(OTHERS, each.answered, seen)


async def probe(environment: Environment, settings: dict[str, Any], findings: Findings) -> None:
    """As many requests as the limit allows are at the worker at once again, and not one more."""
    limit = settings["max_concurrent"]
    findings.owe(RELEASED)
    async with prober(environment) as asking:
        room = await asking.room_for(limit, ROOM_S)
        findings.hold(RELEASED, room == limit, f"after the storm {room} requests were at the worker, not {limit}")
        if room != limit:
            return
        held = await asking.at_worker(await asking.ask_many(limit))
        one_more = await asking.at_worker(await asking.ask_many(1), NOT_IN_S)
        findings.hold(LIMIT, not one_more, f"{limit + 1} requests were at the worker at once, the limit is {limit}")
        await asking.release(*held)


SCENARIO = Scenario(
    name="disconnect-storm",
    about="most clients leave at a random moment; afterwards all capacity must be there again",
    configuration="load-storm",
    flows=(LEAVING, STAYING),
    judge=judge,
    probe=probe,
    rate=12.0,
)
