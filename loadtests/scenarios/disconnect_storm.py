"""A storm of clients that leave at random moments, beside some that stay; afterwards every slot must be free again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loadtests.probes import prober
from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import invariants
from loadtests.traffic import Flow, Manners, reply

if TYPE_CHECKING:
    from conformance.harness.environment import Environment
    from fake_workers.journal import Entry
    from loadtests.findings import Findings
    from loadtests.observation import Observation

RELEASED = "admission.slot.released_on_disconnect"
LIMIT = "admission.limit.respected"
NOT_DISPATCHED = "admission.queue.disconnect_not_dispatched"
FELT = "chat.stream.disconnect.many"
OTHERS = "chat.stream.disconnect.others_live"
FELT_S = 1.0
ARRIVED_S = 0.05
NOTICED_S = 0.1  # how long the gateway may take to notice a leave
ROOM_S = 3.0
NOT_IN_S = 0.3

# Longer than anybody stays, and than the worker may take to notice: whoever is not cut there is seen to go on.
LEFT = reply("2a01", "left", tokens=80, silent_s=0.1, first_s=0.1, every_s=0.03)
STAYED = reply("2a02", "stayed", tokens=8, first_s=0.05, every_s=0.02)

LEAVING = Flow("leaving", (LEFT,), manners=Manners(leave_within_s=1.0))
STAYING = Flow("staying", (STAYED,), share=0.25)


def judge(data: Data, findings: Findings) -> None:
    """The worker feels every leave, hears nothing of who left in the queue, and those who stay are served in full."""
    invariants(data, findings)
    findings.owe(FELT, occasion="no client left while the worker was at its request")
    findings.owe(NOT_DISPATCHED, occasion="no client left while its request waited")
    findings.owe(OTHERS, occasion="no client stayed")
    for each in data.flow(LEAVING.name):
        if each.outcome == "left":
            _left(each, data.entry(each), data.margin_s, findings)
    for each in data.flow(STAYING.name):
        seen = f"{each.marker}: status {each.status} ({each.error_code}), {each.outcome} {each.problem}"
        findings.hold(OTHERS, each.answered, seen)


def _left(each: Observation, entry: Entry | None, margin_s: float, findings: Findings) -> None:
    """Judge what became of a request whose client has left, by where it was then."""
    if entry is None or entry.received_at > each.ended_at:
        if each.ended_at - each.sent_at < ARRIVED_S:
            return  # the gateway may not have had it in hand
        late_s = 0.0 if entry is None else entry.received_at - each.ended_at
        seen = f"{each.marker} came to the worker {late_s:.2f} s after its client had left"
        findings.hold(NOT_DISPATCHED, late_s <= NOTICED_S + margin_s, seen)
    elif entry.completed_at is None or entry.completed_at > each.ended_at:
        gone, within_s = entry.peer_closed_at, FELT_S + margin_s
        if gone is None and entry.completed_at is not None and entry.completed_at - each.ended_at <= within_s:
            return  # the answer came to its end before the worker had to notice
        said = "never" if gone is None else f"after {gone - each.ended_at:.2f} s"
        felt = gone is not None and gone - each.ended_at <= within_s
        findings.hold(FELT, felt, f"{each.marker}: the worker noticed {said} that the client had left")


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
