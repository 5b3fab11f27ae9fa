"""Figures of a run: latencies from both sides, and what the gateway added to the worker's own times.

All times are milliseconds. A percentile of few values is hardly more than their maximum, so each comes with their
number. Added latency compares the client's stamps with the worker's on one monotonic clock, so it
exists only for workers on this machine.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fake_workers.journal import Entry
    from loadtests.observation import Observation
    from loadtests.scenario import Data

METRICS = {
    "dispatch_ms": "how late the generator sent",
    "latency_ms": "from sending to the end of the answer",
    "scheduled_latency_ms": "from when it was due in an open loop to the end of the answer (no coordinated omission)",
    "ttft_ms": "from sending to the first token",
    "gap_ms": "between two tokens",
    "added_first_ms": "what the gateway adds until the first event, both ways",
    "added_event_ms": "what the gateway adds to each later event on its way",
}
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
COUNTS = ("requests", "answered", "shed", "left", "failed", "answered_per_s", "pings")
VALUES = "n"
NAMES = (*COUNTS, *(f"{metric}_{word}" for metric in METRICS for word in (VALUES, *PERCENTILES)))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values; NaN of none."""
    if not values:
        return math.nan
    return values[min(len(values) - 1, max(0, math.ceil(share * len(values)) - 1))]


def event_sends(entry: Entry, events: int) -> list[float]:
    """When the worker sent each event; empty when its writes cannot be told apart by event.

    A fake worker writes one event at a time; its head may come in a write of its own, and the end of the body does.
    """
    times = [at for at, _ in entry.sent]
    for spare in (1, 2):
        if len(times) == events + spare:
            return times[spare - 1 : -1]
    return []


def samples(observations: Iterable[Observation], data: Data) -> dict[str, list[float]]:
    """Every single value by metric, sorted, in milliseconds."""
    found: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for each in observations:
        if (delay_s := each.dispatch_delay_s) is not None:
            found["dispatch_ms"].append(delay_s)
        if not each.answered:
            continue
        found["latency_ms"].append(each.ended_at - each.sent_at)
        if each.scheduled_at is not None:
            found["scheduled_latency_ms"].append(each.ended_at - each.scheduled_at)
        if each.first_token_at is not None:
            found["ttft_ms"].append(each.first_token_at - each.sent_at)
        found["gap_ms"] += [later - earlier for earlier, later in itertools.pairwise(each.tokens)]
        entry = data.entry(each)
        sends = event_sends(entry, len(each.events)) if entry is not None else []
        if entry is not None and sends:
            found["added_first_ms"].append((entry.received_at - each.sent_at) + (each.events[0] - sends[0]))
            found["added_event_ms"] += [seen - sent for seen, sent in zip(each.events[1:], sends[1:], strict=True)]
    return {metric: sorted(1000.0 * value for value in values) for metric, values in found.items()}


def summary(observations: Sequence[Observation], data: Data) -> dict[str, float]:
    """Every figure of NAMES that has a value."""
    values = samples(observations, data)
    ends = [each.ended_at for each in observations]
    span_s = max(ends) - min(each.sent_at for each in observations) if observations else 0.0
    answered = sum(each.answered for each in observations)
    figures: dict[str, float] = {
        "requests": len(observations),
        "answered": answered,
        "shed": sum(each.shed for each in observations),
        "left": sum(each.outcome == "left" for each in observations),
        "failed": sum(not (each.answered or each.shed or each.outcome == "left") for each in observations),
        "answered_per_s": answered / span_s if span_s else 0.0,
        "pings": sum(len(each.pings) for each in observations),
    }
    for metric, of_metric in values.items():
        figures[f"{metric}_{VALUES}"] = len(of_metric)
        for word, share in PERCENTILES.items():
            if of_metric:
                figures[f"{metric}_{word}"] = percentile(of_metric, share)
    return {name: round(value, 3) for name, value in figures.items()}


def lateness(observations: Sequence[Observation]) -> tuple[float, float] | None:
    """The generator's p99 dispatch delay and the mean time between arrivals, in seconds; None without an open loop.

    Each flow is a schedule of its own: the one that was latest, measured by its interval, counts.
    """
    worst: tuple[float, float] | None = None
    for flow in {each.flow for each in observations}:
        due = sorted(each.scheduled_at for each in observations if each.flow == flow and each.scheduled_at is not None)
        delays = sorted(d for each in observations if each.flow == flow and (d := each.dispatch_delay_s) is not None)
        if len(due) < 2:  # noqa: PLR2004 - no interval without two
            continue
        pair = (percentile(delays, 0.99), (due[-1] - due[0]) / (len(due) - 1))
        if worst is None or pair[0] / pair[1] > worst[0] / worst[1]:
            worst = pair
    return worst
