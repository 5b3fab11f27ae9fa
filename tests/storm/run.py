"""One storm from the warm-up to the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from fake_workers.control import Control
from fake_workers.errors import FakeWorkerError
from fake_workers.markers import new_marker
from fake_workers.script import Reply, Script
from tests.storm.clients import KIND, PIECES, Ending, Moment, Plan, Way, conduct, drawn
from tests.storm.site import SLOTS

if TYPE_CHECKING:
    from tests.storm.site import Reading, Site

CLIENTS = 64
PACE_S = 0.01
PATIENCE_S = 20.0
MEMORY_MB = 8.0
"""How much more resident memory may stay than after the warm-up, in millions of bytes."""
HELD_KIND = "57a1"
QUEUED = "while queued"
_HOLD = "storm"


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Attributes:
        settle_s: how long the server has to become still, in seconds.
        memory_mb: how much memory may stay, in millions of bytes.
        patience_s: within how many seconds each client must be done.
    """

    requests: int = 10_000
    warm_up: int = 500
    mode: str = "limit"
    seed: int = 0
    settle_s: float = 20.0
    memory_mb: float = MEMORY_MB
    patience_s: float = PATIENCE_S


@dataclass
class Report:
    """The figures, and what is wrong with them."""

    options: Options
    took_s: float = 0.0
    left: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    before: Reading | None = None
    after: Reading | None = None
    memory_mb_by_tenth: list[float] = field(default_factory=list)
    unfinished_at_worker: int = 0
    held_at_once: int = 0
    problems: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {**asdict(self), "ok": not self.problems}


async def storm(site: Site, options: Options) -> Report:
    """Warm up, let it blow, and judge what is left of the server."""
    report = Report(options)
    try:
        async with Control(site.control_url) as control:
            await _storm(site, control, report)
    except (psutil.Error, httpx.HTTPError, LookupError) as problem:
        report.problems.append(f"the server can no longer be observed: {type(problem).__name__} {problem}")
    except FakeWorkerError as problem:
        report.problems.append(f"the fake worker can no longer be observed: {problem}")
    return report


async def _storm(site: Site, control: Control, report: Report) -> None:
    options = report.options
    rnd = random.Random(options.seed)  # noqa: S311 - the same storm for the same seed, nothing secret
    await control.put_template(KIND, Script.of(Reply(pieces=PIECES, every_s=PACE_S)))
    await _blow(site, [drawn(rnd) for _ in range(options.warm_up)], report)
    report.before = await site.settle(options.settle_s)
    _judge_stillness("the warm-up", report.before, report)
    if report.problems:
        return  # what comes would be measured from a bad start
    seen = max((entry.seq for entry in await control.all_entries()), default=0)
    began = time.monotonic()
    endings = await _blow(site, [drawn(rnd) for _ in range(options.requests)], report)
    report.took_s = round(time.monotonic() - began, 1)
    report.after = await site.settle(options.settle_s, report.before.fds)
    _judge_stillness("the storm", report.after, report)
    _judge_growth(report.before, report.after, report)
    entries = [entry for entry in await control.all_entries(seen) if entry.marker]
    report.unfinished_at_worker = sum(entry.outcome is None for entry in entries)
    if report.unfinished_at_worker:
        report.problems.append(f"{report.unfinished_at_worker} requests still run at the worker")
    _count(endings, {entry.marker for entry in entries if entry.marker}, report)
    await _judge_capacity(site, control, report)


async def _blow(site: Site, plans: list[Plan], report: Report) -> list[Ending]:
    """Let so many clients at once carry out the plans, one after the other, and note what was wrong for them."""
    coming = iter(plans)
    endings: list[Ending] = []
    tenth = -(-len(plans) // 10)
    report.memory_mb_by_tenth = []

    async def client() -> None:
        for plan in coming:
            ending = await conduct(site.address, plan, report.options.patience_s)
            endings.append(ending)
            if len(endings) % tenth == 0:
                report.memory_mb_by_tenth.append(site.rss_mb())

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    faults = Counter(ending.fault for ending in endings if ending.fault)
    report.problems += [f"{times} clients: {fault}" for fault, times in faults.most_common(5)]
    return endings


def _judge_stillness(after: str, found: Reading, report: Report) -> None:
    within = f"{report.options.settle_s:g} s after {after}"
    report.problems += [f"{within} {gauge} is {value:g}, not 0" for gauge, value in found.gauges.items()]
    if found.connections:
        report.problems.append(f"{within} {found.connections} connections are still open")


def _judge_growth(before: Reading, after: Reading, report: Report) -> None:
    if after.fds > before.fds:
        report.problems.append(f"{before.fds} file descriptors before, {after.fds} after")
    if after.rss_mb > before.rss_mb + report.options.memory_mb:
        report.problems.append(
            f"{before.rss_mb:.1f} MB of memory before, {after.rss_mb:.1f} MB after; "
            f"at most {report.options.memory_mb:g} MB more may stay"
        )


def _count(endings: list[Ending], served: set[str], report: Report) -> None:
    """Say who left when, how, and with what; a storm in which a moment never came proves nothing about it."""
    left = Counter(_moment(ending, served) for ending in endings)
    report.left = dict(left)
    report.statuses = dict(Counter(str(ending.status) for ending in endings if ending.status))
    ways = {ending.plan.way for ending in endings if ending.moment is not Moment.NEVER}
    report.problems += [f"no client left {moment}" for moment in (*Moment, QUEUED) if not left[moment]]
    report.problems += [f"no client left by {way}" for way in Way if way not in ways]
    if "200" not in report.statuses or "429" not in report.statuses:
        report.problems.append(f"not both served and sent away: {report.statuses}")


def _moment(ending: Ending, served: set[str]) -> str:
    if ending.moment is Moment.WAITING and ending.plan.marker not in served:
        return QUEUED
    return ending.moment


async def _judge_capacity(site: Site, control: Control, report: Report) -> None:
    """Hold as many requests at the worker as there are slots; one more has to wait, and in the end all are served."""
    await control.put_template(HELD_KIND, Script.of(Reply(pieces=PIECES, hold_before={-1: _HOLD})))
    within_s = report.options.settle_s
    markers = [new_marker(HELD_KIND) for _ in range(SLOTS + 1)]
    plans = [
        Plan(marker, Moment.NEVER, Way.CLOSE, number % 2 == 0, "system", 1.0, 0.0, 0)
        for number, marker in enumerate(markers)
    ]
    clients = [asyncio.ensure_future(conduct(site.address, plan, within_s)) for plan in plans[:-1]]
    try:
        reached = await asyncio.gather(*(control.reached(marker, _HOLD, within_s) for marker in markers[:-1]))
        report.held_at_once = sum(reached)
        clients.append(asyncio.ensure_future(conduct(site.address, plans[-1], within_s)))
        if not await _until_one_waits(site, within_s):
            report.problems.append("with all slots held, one more request does not wait")
        for marker, there in zip(markers, [*reached, True], strict=True):
            if there and (marker != markers[-1] or await control.reached(marker, _HOLD, within_s)):
                await control.release(marker, _HOLD)
        statuses = [ending.status for ending in await asyncio.gather(*clients)]
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    if report.held_at_once < SLOTS:
        report.problems.append(f"{report.held_at_once} requests ran at once, not {SLOTS}")
    if statuses != [200] * len(markers):
        report.problems.append(f"held requests ended with {statuses}")


async def _until_one_waits(site: Site, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if site.waiting(await site.gauges()) == 1:
            return True
        await asyncio.sleep(0.1)
    return False
