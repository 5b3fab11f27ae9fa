"""Streams that fall silent, also inside an event, beside busy ones: where pings come, and where they must not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from fake_workers.script import Chunk, Pause, Wire
from fake_workers.wire import DONE, sse_head
from loadtests.invariants import BETWEEN
from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import chunk, invariants
from loadtests.traffic import MARKER, Flow, Kind, reply

if TYPE_CHECKING:
    from fake_workers.journal import Entry
    from loadtests.findings import Findings
    from loadtests.observation import Observation

PING = "chat.stream.keepalive.ping"
REPEATS = "chat.stream.keepalive.repeats"
INTERVAL = "chat.stream.keepalive.interval"
FIRST = "chat.stream.keepalive.before_first_token"
BUSY = "chat.stream.keepalive.busy_stream"
SILENCE_S = 2.8
TORN_S = 1.6
LATE_SHARE = 1.3  # how late a ping may be, in intervals: half a machine's load must not decide it
EARLY_S = 0.05  # how much before its time a ping may come: the two sides' stamps lie a little apart
TORN_AT = 60  # bytes of the event that come before its silence


def _torn() -> Kind:
    """An event whose first half comes long before its second."""
    whole = chunk("the end")
    first, second = whole[:TORN_AT], whole[TORN_AT:]
    steps = [Chunk(data=chunk(MARKER, role=True)), Chunk(data=first), Pause(seconds=TORN_S), Chunk(data=second)]
    end = [Chunk(data=chunk("", finish="stop")), Chunk(data=DONE)]
    return Kind("4a03", "torn", Wire(steps=[sse_head(), *steps, *end]), MARKER + "the end")


QUIET = Flow("quiet", (reply("4a01", "quiet", tokens=3, first_s=SILENCE_S, every_s=0.05),))
BUSY_FLOW = Flow("busy", (reply("4a02", "busy", tokens=40, every_s=0.05),))
TORN = Flow("torn", (_torn(),))


def judge(data: Data, findings: Findings) -> None:
    """Pings come in time in silence between events, again and again, and nowhere else."""
    invariants(data, findings, served=[QUIET.name, BUSY_FLOW.name, TORN.name])
    findings.owe(PING, REPEATS, INTERVAL, FIRST, occasion="no stream was silent for long enough")
    findings.owe(BETWEEN, occasion="no event was torn by a silence")
    findings.owe(BUSY, occasion="no busy stream was answered")
    interval_s = float(data.settings["keepalive_s"])
    for each in data.flow(QUIET.name):
        if each.answered and (entry := data.entry(each)) is not None:
            _of_silence(each, entry, interval_s, data, findings)
    for each in data.flow(TORN.name):
        if each.answered:
            broken = next((what for clause, what in each.broken if clause == BETWEEN), "")
            findings.hold(BETWEEN, not broken, f"{each.marker}: {broken}")
    for each in data.flow(BUSY_FLOW.name):
        longest = max((b - a for a, b in itertools.pairwise(each.events)), default=0.0)
        # A busy machine may have been silent where the worker was not; then the ping was right.
        if each.answered and longest < interval_s - EARLY_S:
            seen = f"{each.marker}: {len(each.pings)} pings, the longest silence was {longest:.2f} s"
            findings.hold(BUSY, not each.pings, seen)


def _of_silence(each: Observation, entry: Entry, interval_s: float, data: Data, findings: Findings) -> None:
    """Judge the pings of the one long silence, which lies before the first token."""
    silent_from, silent_to = max(itertools.pairwise([at for at, _ in entry.sent]), key=lambda pair: pair[1] - pair[0])
    due = int((silent_to - silent_from) / (LATE_SHARE * interval_s))
    at = [f"{ping - silent_from:.2f}" for ping in each.pings]
    seen = f"{each.marker}: pings {at} s into a silence of {silent_to - silent_from:.2f} s"
    findings.hold(PING, each.pings, seen)
    if due > 1:
        findings.hold(REPEATS, len(each.pings) >= due, f"{seen}; {due} were due")
    before = [ping for ping in each.pings if each.first_token_at is None or ping <= each.first_token_at]
    findings.hold(FIRST, before, seen)
    # Delivery only delays: no ping can be early as counted from the silence's beginning.
    early = any(ping - silent_from < number * interval_s - EARLY_S for number, ping in enumerate(each.pings, 1))
    gaps = [later - earlier for earlier, later in itertools.pairwise([silent_from, *each.pings])]
    late = any(gap > LATE_SHARE * interval_s + data.margin_s for gap in gaps)
    findings.hold(INTERVAL, each.pings and not early and not late, f"{seen}; the interval is {interval_s:g} s")


SCENARIO = Scenario(
    name="keepalive",
    about="streams that are silent between or inside events, beside busy ones: pings where they belong",
    configuration="load-keepalive",
    flows=(QUIET, BUSY_FLOW, TORN),
    judge=judge,
    rate=2.0,
)
