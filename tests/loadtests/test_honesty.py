"""The generator on trial: its figures against the worker's own stamps, with no gateway between them."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

from conformance.harness import noise
from loadtests import figures
from loadtests.journal import Collector
from loadtests.observation import read_all
from loadtests.scenario import Data
from loadtests.watch import Watch
from tests.loadtests.kit import ran

if TYPE_CHECKING:
    from pathlib import Path

MEDIAN_S = 0.010
"""Half of all times differ from the worker's stamps by no more than this and what 90% of short sleeps were late by."""
P99_S = 0.010
"""And 99% by no more than this and twice what the machine was seen to add to a sending or a sleep."""
LATE = 3


def generate(worker: tuple[str, str], folder: Path, file: str, *words: str) -> int:
    """Run locust against the worker alone; returns its exit status."""
    host, control = worker
    options = ["--headless", "--only-summary", "-u", "1", "-r", "1", "--host", host, "--control", control]
    ended = ran("locust", "-f", file, *options, "--record-dir", str(folder), *words)
    assert ended.returncode in {0, LATE}, ended.stderr
    return ended.returncode


def test_measured_times_are_the_workers_own(worker: tuple[str, str], tmp_path: Path) -> None:
    """TTFT and gaps measured at a known schedule are those that the worker stamped, within a stated p99."""
    with Watch() as watch:
        generate(worker, tmp_path, "loadtests/steady.py", "-t", "4s", "--rate", "6", "--max-late-share", "1000")
    collector = Collector(worker[1])
    collector.settle()
    seen = read_all(tmp_path)
    data = Data(seen, collector.by_marker(), {}, noise.measure(), watch.worst_s)
    assert len(seen) > 10
    assert all(each.answered and not each.broken for each in seen)
    firsts, gaps = [], []
    for each in seen:
        entry = data.entry(each)
        assert entry is not None
        sends = figures.event_sends(entry, len(each.events))
        assert len(sends) == len(each.events)
        firsts.append(abs((each.events[0] - each.sent_at) - (sends[0] - entry.received_at)))
        pairs = zip(itertools.pairwise(each.events), itertools.pairwise(sends), strict=True)
        gaps += [abs((b - a) - (d - c)) for (a, b), (c, d) in pairs]
    usual_s = figures.percentile(sorted(watch.delays_s), 0.9)
    for name, values in (("first", sorted(firsts)), ("gaps", sorted(gaps))):
        p50, p99 = (1000 * figures.percentile(values, share) for share in (0.5, 0.99))
        sys.stdout.write(f"{name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, margin {1000 * data.margin_s:.0f} ms\n")
        assert figures.percentile(values, 0.5) <= MEDIAN_S + usual_s
        assert figures.percentile(values, 0.99) <= P99_S + 2 * data.margin_s


def test_a_starved_generator_refuses_to_judge(worker: tuple[str, str], tmp_path: Path) -> None:
    """A generator whose time is burnt inside it is late, and says so by its exit status and in its record."""
    assert generate(worker, tmp_path, "tests/loadtests/starved.py", "-t", "3s", "--rate", "6") == LATE
    late = figures.lateness(read_all(tmp_path))
    assert late is not None
    assert late[0] > 0.5 * late[1]
