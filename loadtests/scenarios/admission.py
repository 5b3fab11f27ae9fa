"""More requests than the limit lets in: who runs, who waits, who is sent away and how; every slot comes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from loadtests.probes import Asked, Prober, prober
from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import invariants, running
from loadtests.traffic import Flow, reply

if TYPE_CHECKING:
    from conformance.harness.environment import Environment
    from conformance.harness.exchange import Exchange
    from loadtests.findings import Findings
    from loadtests.observation import Observation

LIMIT = "admission.limit.respected"
FIFO = "admission.queue.fifo"
RETURNED = "admission.slot.returned"
FULL = "rate_limiting.admission_queue_full"
TIMED_OUT = "rate_limiting.admission_queue_timeout"
SHED = "rate_limiting.shed"
SHED_STATUS = {"admission_queue_full": 429, "admission_queue_timeout": 503}
OWED_WHEN_FULL = ("status", "retry_after", "when_full", "not_dispatched")
RETRY_AFTER = "2"
APART_S = 0.1  # arrivals so far apart reach the gateway in the order of sending, also on a busy machine
SOON_S = 5.0  # for what a right gateway does at once: the bound costs it nothing
LATE_S = 1.5
TRIES = 3

SHORT = reply("5a01", "short", tokens=4, first_s=0.1, every_s=0.03)
LONG = reply("5a02", "long", tokens=8, first_s=0.2, every_s=0.04)
CROWD = Flow("crowd", (SHORT, LONG), tolerates=(429, 503))


def judge(data: Data, findings: Findings) -> None:
    """The limit holds at the workers, the queue is served in order, and whoever is shed is told so in full."""
    invariants(data, findings)
    findings.owe(LIMIT, occasion="there were never as many requests at the worker as the limit allows")
    findings.owe(FIFO, occasion="no two requests waited for a slot")
    findings.owe(*(f"{FULL}.{each}" for each in OWED_WHEN_FULL), occasion="nothing was shed")
    limit = data.settings["max_concurrent"]
    entries = [entry for found in data.entries.values() for entry in found]
    for number in running(entries):
        if number >= limit:
            findings.hold(LIMIT, number <= limit, f"{number} requests were at the worker at once, the limit is {limit}")
    _order(data, findings)
    for each in data.observations:
        if each.answered:
            continue
        code = _shed(each, data.entry(each) is not None, findings)
        if code == "admission_queue_full":
            _justified(each, data, findings)


def _order(data: Data, findings: Findings) -> None:
    """Whoever was sent clearly earlier came to the worker earlier, of those that had to wait."""
    waited = [
        (each, entry.received_at)
        for each in data.observations
        if (entry := data.entry(each)) is not None and entry.received_at - each.sent_at > APART_S
    ]
    for number, (each, at) in enumerate(waited):
        for later, later_at in waited[number + 1 :]:
            if later.sent_at - each.sent_at < max(APART_S, data.margin_s) or later.sent_at > at:
                continue
            seen = f"{later.marker} was sent {later.sent_at - each.sent_at:.2f} s after {each.marker}, and came first"
            findings.hold(FIFO, at <= later_at, seen)


def _shed(each: Observation, dispatched: bool, findings: Findings) -> str:
    """Judge an answer that is no success; returns the code it names, or that its status stands for."""
    by_status = next((code for code, status in SHED_STATUS.items() if each.status == status), "admission_queue_full")
    code = each.error_body or each.error_code or by_status
    code = code if code in SHED_STATUS else by_status
    about = FULL if code == "admission_queue_full" else TIMED_OUT
    said = (
        f"{each.marker}: status {each.status}, {each.outcome}, code {each.error_body}, Retry-After {each.retry_after}"
    )
    findings.hold(f"{about}.status", each.status == SHED_STATUS[code] and each.error_body == code, said)
    findings.hold(f"{about}.retry_after", each.retry_after == RETRY_AFTER, said)
    findings.hold(f"{about}.not_dispatched", not dispatched, f"{said}, and it was at the worker")
    findings.hold(f"{SHED}.envelope", each.error_body is not None, said)
    findings.hold(f"{SHED}.code_header", each.error_code == each.error_body, f"{said}, header {each.error_code}")
    findings.hold(f"{SHED}.retry_after_seconds", (each.retry_after or "").isdecimal(), said)
    findings.hold(f"{SHED}.no_x_ratelimit", not each.ratelimit_headers, f"{said}, {each.ratelimit_headers}")
    return code


def _justified(each: Observation, data: Data, findings: Findings) -> None:
    """A request is only turned away at once when slots and queue were full about then."""
    room = data.settings["max_concurrent"] + data.settings["queue_size"]
    margin_s = data.margin_s
    others = sum(
        other.sent_at <= each.ended_at and other.ended_at + margin_s >= each.sent_at
        for other in data.observations
        if other.status != SHED_STATUS["admission_queue_full"]  # who waits in vain takes a place as well
    )
    seen = f"{each.marker} was shed with {others} others in the house, which holds {room}"
    findings.hold(f"{FULL}.when_full", others >= room, seen)


async def probe(environment: Environment, settings: dict[str, Any], findings: Findings) -> None:
    """Slots and queue are filled on purpose: the next one is shed, the queue is served in order, or times out."""
    limit, places, timeout_s = settings["max_concurrent"], settings["queue_size"], float(settings["queue_timeout_s"])
    findings.owe(RETURNED, f"{TIMED_OUT}.status", f"{TIMED_OUT}.retry_after", f"{TIMED_OUT}.after")
    async with prober(environment) as asking:
        room = await asking.room_for(limit, SOON_S)
        findings.hold(RETURNED, room == limit, f"after the load {room} requests were at the worker, not {limit}")
        for number in range(1, TRIES + 1):
            held = await asking.at_worker(await asking.ask_many(limit))
            began = time.monotonic()
            queued = await asking.ask_many(places)
            if number == 1:
                await _one_too_many(asking, findings)
            came = await _freed_one_by_one(asking, held, queued, timeout_s)
            # Whoever was sent away for waiting too long says nothing about order: this machine may have been too slow.
            if came == queued or time.monotonic() - began < timeout_s / 2 or number == TRIES:
                _in_order(came, queued, findings)
                break
        held = await asking.at_worker(await asking.ask_many(limit))
        await _timeout(asking, timeout_s, findings)
        await asking.release(*held)


async def _one_too_many(asking: Prober, findings: Findings) -> None:
    (asked,) = await asking.ask_many(1)
    answer = await asking.answered(asked, SOON_S)
    said = answer.brief() if answer is not None else f"no answer within {SOON_S:g} s"
    findings.hold(f"{FULL}.status", answer is not None and answer.status == SHED_STATUS["admission_queue_full"], said)
    if answer is not None:
        after = answer.headers.get("retry-after")
        findings.hold(f"{FULL}.retry_after", after == RETRY_AFTER, f"Retry-After is {after}")


async def _freed_one_by_one(asking: Prober, held: list[Asked], queued: list[Asked], timeout_s: float) -> list[Asked]:
    """Slots are freed one at a time; returns who came from the queue to the worker, in that order.

    Nobody comes after the queue's timeout any more, so nothing is awaited for longer.
    """
    waiting, came, inside = list(queued), [], list(held)
    while waiting and inside:
        await asking.release(inside.pop(0))
        if (each := await asking.first_at_worker(waiting, timeout_s)) is None:
            break
        waiting.remove(each)
        came.append(each)
        inside.append(each)
    await asking.release(*inside)
    return came


def _in_order(came: list[Asked], queued: list[Asked], findings: Findings) -> None:
    places = [queued.index(each) + 1 for each in came]
    seen = f"the {len(queued)} that waited came to the worker in the order {places}"
    findings.hold(FIFO, came == queued, seen)


async def _timeout(asking: Prober, timeout_s: float, findings: Findings) -> None:
    """A request that waits in vain is sent away when its time is up."""
    began = time.monotonic()
    (asked,) = await asking.ask_many(1)
    answer: Exchange | None = await asking.answered(asked, timeout_s + LATE_S)
    took_s = time.monotonic() - began if answer is None else (answer.times.ended or time.monotonic()) - began
    said = answer.brief() if answer is not None else "no answer"
    status = SHED_STATUS["admission_queue_timeout"]
    findings.hold(f"{TIMED_OUT}.status", answer is not None and answer.status == status, said)
    after = answer.headers.get("retry-after") if answer is not None else None
    findings.hold(f"{TIMED_OUT}.retry_after", after == RETRY_AFTER, f"Retry-After is {after}; {said}")
    in_time = timeout_s - APART_S <= took_s <= timeout_s + LATE_S
    findings.hold(f"{TIMED_OUT}.after", in_time, f"after {took_s:.2f} s, the queue timeout is {timeout_s:g} s")


SCENARIO = Scenario(
    name="admission",
    about="more requests than the limit lets in: who runs, who waits in order, who is sent away",
    configuration="load-admission",
    flows=(CROWD,),
    judge=judge,
    probe=probe,
    rate=10.0,
)
