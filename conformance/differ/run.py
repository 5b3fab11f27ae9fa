"""The command: send, compare, make small, sort into classes, report."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.differ import classes
from conformance.differ.compare import Difference, Observed, differences, message_of
from conformance.differ.requests import Generator, Request
from conformance.differ.shrink import shrink
from conformance.differ.sides import Sides, open_sides

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

AT_ONCE = 8
SHRUNK_PER_KEY = 4
OK, UNKNOWN = 0, 1
Pair = tuple[Observed, Observed]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--left", metavar="T", required=True, help="NAME[@VERSION], or http://HOST:PORT of one that runs"
    )
    parser.add_argument("--right", metavar="T", required=True, help="likewise")
    parser.add_argument("--requests", metavar="N", type=int, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of the generator (default: %(default)s)")
    parser.add_argument(
        "--known", metavar="FILE", type=Path, help="known classes (default: conformance/differ/known/LEFT-RIGHT.yaml)"
    )
    parser.add_argument("--report", metavar="FILE", type=Path, help="write the classes there as JSON")
    parser.add_argument("--admin-key", metavar="KEY", help="key of the admin API of gateways given by URL")


@dataclass
class Differ:
    """One run. `send` gives both sides of a request."""

    send: Callable[[Request], Awaitable[Pair]]
    known: list[classes.Known]
    found: dict[str, classes.Class] = field(default_factory=dict)
    requests: int = 0
    disagreeing: int = 0
    _by_key: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    _shrinks: Counter[tuple[str, ...]] = field(default_factory=Counter)

    async def run(self, generator: Generator, requests: int) -> None:
        """Send so many requests, some at once, and sort what comes back."""
        numbers = iter(range(1, requests + 1))

        async def sender() -> None:
            for number in numbers:
                await self.one(number, generator.next())

        await asyncio.gather(*(sender() for _ in range(min(AT_ONCE, requests))))

    async def one(self, number: int, request: Request) -> None:
        """One request to both."""
        left, right = await self.send(request)
        self.requests += 1
        found = differences(left, right)
        self.disagreeing += bool(found)
        for difference in found:
            await self._sort(number, request, difference, left, right)

    async def _sort(
        self, number: int, request: Request, difference: Difference, left: Observed, right: Observed
    ) -> None:
        """Put a difference into its class.

        What differs and the texts of the errors tell causes apart well enough, so only the first few requests that
        look alike are made small; later ones count for the class that the first fell into.
        """
        key = (request.kind, str(difference), message_of(left), message_of(right))
        if self._shrinks[key] < (1 if difference.place else SHRUNK_PER_KEY):
            self._shrinks[key] += 1
            request, left, right = await self._small(request, difference, left, right)
            name = classes.name_of(request, difference)
            if name not in self.found:
                tags = classes.tags(request, difference)
                known = classes.decide(name, self.known)
                self.found[name] = classes.Class(name, difference, request, left, right, tags, known=known)
            self._by_key.setdefault(key, []).append(name)
        # A key whose first request is still being made small has no class yet; that request counts for it.
        for name in self._by_key.get(key, ())[-1:]:
            self.found[name].count += 1
            if len(self.found[name].seen_at) < SHRUNK_PER_KEY:
                self.found[name].seen_at.append(number)

    async def _small(
        self, request: Request, difference: Difference, left: Observed, right: Observed
    ) -> tuple[Request, Observed, Observed]:
        last = (left, right)

        async def still(candidate: Request) -> bool:
            nonlocal last
            sides = await self.send(candidate)
            if difference not in differences(*sides):
                return False
            last = sides
            return True

        small = await shrink(request, still)
        return small, *last

    @property
    def unknown(self) -> list[classes.Class]:
        """Classes nobody has looked at."""
        return [each for each in self.found.values() if each.known is None]


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    file = options.known or classes.FOLDER / f"{_word(options.left)}-{_word(options.right)}.yaml"
    known = classes.load(file) if options.known or file.exists() else []
    return asyncio.run(_run(options, known))


def _word(target: str) -> str:
    """A target as part of a file's name: the default version filled in."""
    from conformance.targets.adapter import load  # noqa: PLC0415 - a URL needs no adapter

    if "://" in target:
        return "url"
    loaded = load(target)
    return f"{loaded.name}-{loaded.version}" if loaded.version else loaded.name


async def _run(options: argparse.Namespace, known: list[classes.Known]) -> int:
    with tempfile.TemporaryDirectory(prefix="differ-") as folder:
        async with open_sides(options.left, options.right, Path(folder), admin_key=options.admin_key) as sides:
            began = time.monotonic()
            differ = Differ(sides.both, known)
            progress = asyncio.create_task(_progress(differ, options.requests))
            try:
                await differ.run(Generator(options.seed), options.requests)
            finally:
                progress.cancel()
            took_s = time.monotonic() - began
            report = as_plain(differ, sides, options.seed, took_s)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    _print(differ, sides, took_s)
    return UNKNOWN if differ.unknown else OK


async def _progress(differ: Differ, requests: int) -> None:
    while True:
        await asyncio.sleep(10)
        sys.stderr.write(f"differ: {differ.requests} of {requests} requests, {len(differ.found)} classes\n")


def as_plain(differ: Differ, sides: Sides, seed: int, took_s: float) -> dict[str, Any]:
    """The report: JSON-ready."""
    return {
        "left": sides.left.label,
        "right": sides.right.label,
        "seed": seed,
        "requests": differ.requests,
        "disagreeing_requests": differ.disagreeing,
        "duration_s": round(took_s, 1),
        "classes": [_plain(each) for each in _ordered(differ)],
    }


def _ordered(differ: Differ) -> list[classes.Class]:
    return sorted(differ.found.values(), key=lambda each: (each.known is not None, -each.count, each.name))


def _plain(found: classes.Class) -> dict[str, Any]:
    request = found.request
    return {
        "name": found.name,
        "count": found.count,
        "known": found.known.model_dump() if found.known else None,
        "clauses": found.clauses,
        "first_requests": found.seen_at,
        "case": {
            "method": "POST",
            "path": request.path,
            "headers": [list(each) for each in request.headers],
            "body": request.data(model="{model}", prompt="{prompt}").decode("utf-8", "backslashreplace"),
            "worker_answers": request.answer,
        },
        "left": _side(found.left),
        "right": _side(found.right),
    }


def _side(observed: Observed) -> dict[str, Any]:
    received = observed.received
    return {
        "status": observed.status,
        "content_type": observed.content_type,
        "body": observed.body[:2000].decode("utf-8", "backslashreplace"),
        "dispatches": observed.dispatches,
        "worker_received": None if received is None else received[:2000].decode("utf-8", "backslashreplace"),
    }


def _print(differ: Differ, sides: Sides, took_s: float) -> None:
    say = sys.stdout.write
    for found in _ordered(differ):
        decided = found.known.clause or "silent" if found.known else "UNKNOWN"
        say(f"{found.count:6}  {found.name}\n        {decided}{f': {found.known.reason}' if found.known else ''}\n")
        if found.known is None:
            case = _plain(found)
            say(f"        {case['case']['path']} {case['case']['body'][:400]}\n")
            say("".join(f"        clause {each}\n" for each in found.clauses[:4]))
            for label, side in ((sides.left.label, case["left"]), (sides.right.label, case["right"])):
                say(f"        {label}: {side['status']} {side['body'][:200]!r}\n")
                say(f"          worker: {(side['worker_received'] or 'nothing')[:200]}\n")
    say(
        f"differ: {sides.left.label} and {sides.right.label}: {differ.requests} requests in {took_s:.0f} s "
        f"({differ.requests / max(took_s, 0.001):.0f} a second), {differ.disagreeing} with a disagreement, "
        f"{len(differ.found)} classes, {len(differ.unknown)} of them unknown\n"
    )
