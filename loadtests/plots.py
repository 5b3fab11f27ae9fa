"""Plots as inline SVG, so that the page works offline and without a script."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from loadtests import figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loadtests.run import Result

Points = list[tuple[float, float]]
WIDTH, HEIGHT = 640, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 170, 30, 44
COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7e22ce", "#b45309", "#475569")
TICKS = 4
SHARES = (*(step / 100 for step in range(0, 100, 2)), 0.99, 0.995, 1.0)


@dataclass(frozen=True)
class Plot:
    """A titled picture."""

    title: str
    about: str
    svg: Markup


def all_of(result: Result) -> list[Plot]:
    """The plots of a run; those without a point are left out."""
    samples = {name: figures.samples(result.data.flow(name), result.data) for name in result.by_flow}
    requests, over_time = ("% of requests", "ms"), ("seconds", "requests")
    latency, first = ({f: _percentiles(s[name]) for f, s in samples.items()} for name in ("latency_ms", "ttft_ms"))
    added = {
        f"{flow}, {word}": _percentiles(of_flow[metric])
        for flow, of_flow in samples.items()
        for word, metric in (("first event", "added_first_ms"), ("later events", "added_event_ms"))
    }
    admitted, depths = _admissions(result), _depths(result)
    found = [
        _plot("Latency percentiles", "from sending to the end of the answer", latency, requests),
        _plot("Time to first token", "from sending to the first event with text", first, requests),
        _plot("Added latency", "what the gateway adds to the time that the worker took", added, ("% of events", "ms")),
        _plot(
            "Admissions over time", "requests that have reached the worker, by flow", admitted, over_time, steps=True
        ),
        _plot(
            "Waiting and running", "requests sent and not yet at the worker, and at it", depths, over_time, steps=True
        ),
    ]
    return [each for each in found if each is not None]


def _percentiles(values: Sequence[float]) -> Points:
    return [(100 * share, figures.percentile(values, share)) for share in SHARES] if values else []


def _admissions(result: Result) -> dict[str, Points]:
    start = result.data.observations[0].sent_at
    found: dict[str, Points] = {}
    for flow in result.by_flow:
        times = sorted(e.received_at - start for o in result.data.flow(flow) if (e := result.data.entry(o)) is not None)
        found[flow] = [(at, float(number)) for number, at in enumerate(times, 1)]
    return found


def _depths(result: Result) -> dict[str, Points]:
    """How many were between client and worker, and how many at the worker."""
    data = result.data
    start = data.observations[0].sent_at
    waiting: list[tuple[float, int]] = []
    running: list[tuple[float, int]] = []
    for each in data.observations:
        entry = data.entry(each)
        waiting += [(each.sent_at - start, 1), ((entry.received_at if entry else each.ended_at) - start, -1)]
        if entry is not None:
            running += [(entry.received_at - start, 1), (max(entry.received_at, each.ended_at) - start, -1)]
    return {"waiting": _summed(waiting), "running": _summed(running)}


def _summed(changes: list[tuple[float, int]]) -> Points:
    ordered = sorted(changes)
    return [(at, float(n)) for (at, _), n in zip(ordered, itertools.accumulate(c for _, c in ordered), strict=True)]


def _plot(
    title: str, about: str, lines: Mapping[str, Points], units: tuple[str, str], *, steps: bool = False
) -> Plot | None:
    drawn = {name: points for name, points in lines.items() if points}
    if not drawn:
        return None
    most_x = _round_up(max(x for points in drawn.values() for x, _ in points))
    most_y = _round_up(max(y for points in drawn.values() for _, y in points))
    parts = [_axes(most_x, most_y, *units)]
    for (name, points), colour, row in zip(drawn.items(), itertools.cycle(COLOURS), itertools.count()):
        scaled = [(_x(x, most_x), _y(y, most_y)) for x, y in points]
        if steps:
            scaled = [
                each for (x0, y0), (x1, y1) in itertools.pairwise(scaled) for each in ((x0, y0), (x1, y0))
            ] + scaled[-1:]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in scaled)
        parts.append(Markup('<polyline points="{}" stroke="{}" class="line"/>').format(path, colour))
        y = TOP + 14 + 16 * row
        parts.append(Markup('<text x="{}" y="{}" fill="{}">{}</text>').format(WIDTH - RIGHT + 10, y, colour, name))
    inner = Markup("").join(parts)
    svg = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(WIDTH, HEIGHT, title, inner)
    return Plot(title, about, svg)


def _axes(most_x: float, most_y: float, x_unit: str, y_unit: str) -> Markup:
    parts = []
    for tick in range(TICKS + 1):
        share = tick / TICKS
        y = _y(share * most_y, most_y)
        parts.append(Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="grid"/>').format(LEFT, WIDTH - RIGHT, y, y))
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{:g}</text>').format(LEFT - 6, y + 4, share * most_y)
        )
        x = _x(share * most_x, most_x)
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="middle">{:g}</text>').format(
                x, HEIGHT - BOTTOM + 16, share * most_x
            )
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(middle, HEIGHT - 6, x_unit))
    parts.append(Markup('<text x="{}" y="{}">{}</text>').format(LEFT, TOP - 14, y_unit))
    return Markup('<g class="axis">{}</g>').format(Markup("").join(parts))


def _x(value: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / most


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(value, 0.0) / most


def _round_up(value: float) -> float:
    """The next number that divides well into ticks."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return float(next(step * size for step in (1, 2, 4, 8, 10) if step * size >= value))
