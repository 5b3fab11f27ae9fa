"""The script book of a fleet: scripts by marker, how often each was dispatched, and the holds tests release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fake_workers.errors import ScriptError
from fake_workers.markers import is_kind, is_marker, kind_of
from fake_workers.script import filled

if TYPE_CHECKING:
    from fake_workers.script import Reply, Script, Wire


@dataclass(slots=True)
class _Gate:
    """One named hold of one marker. Both events are sticky, so a release may come before the hold is reached."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Page:
    script: Script | None = None
    dispatches: int = 0
    gates: dict[str, _Gate] = field(default_factory=dict)


class ScriptBook:
    """Scripts, dispatch counts and holds by marker. Belongs to the event loop of the fleet."""

    def __init__(self) -> None:
        """Start without scripts."""
        self._pages: dict[str, _Page] = {}
        self._templates: dict[str, Reply | Wire] = {}

    def put(self, marker: str, script: Script) -> None:
        """Register (or replace) the script of a marker; the count of dispatches starts again."""
        if not is_marker(marker):
            raise ScriptError(f"{marker!r} is no marker: it takes 'igc-' and 16 lower-case hex digits")
        page = self._pages.setdefault(marker, _Page())
        page.script = script
        page.dispatches = 0

    def put_template(self, kind: str, script: Script) -> None:
        """Answer every marker that starts with these four digits, and has no script of its own, in this way.

        So a load test scripts thousands of requests with one call. ``{marker}`` in the answer stands for the
        request's marker; no dispatches are counted, so there is exactly one answer.
        """
        if not is_kind(kind):
            raise ScriptError(f"{kind!r} names no template: it takes four lower-case hex digits")
        if len(script.answers) != 1:
            raise ScriptError(f"a template has exactly one answer, this one has {len(script.answers)}")
        self._templates[kind] = script.answers[0]

    def forget(self, marker: str) -> None:
        """Drop the script and the holds of a marker; whoever is held there is released."""
        page = self._pages.pop(marker, None)
        if page is not None:
            for gate in page.gates.values():
                gate.released.set()

    def dispatched(self, marker: str | None) -> tuple[int, Reply | Wire | None]:
        """Count a dispatch; return its number from 0 and its answer, None for engine mode."""
        page = self._pages.get(marker) if marker is not None else None
        if page is None or page.script is None:
            template = self._templates.get(kind_of(marker)) if marker is not None and self._templates else None
            return 0, filled(template, marker) if template is not None and marker is not None else None
        number = page.dispatches
        page.dispatches += 1
        answers = page.script.answers
        return number, answers[min(number, len(answers) - 1)]

    def _gate(self, marker: str, hold: str) -> _Gate:
        return self._pages.setdefault(marker, _Page()).gates.setdefault(hold, _Gate())

    def release(self, marker: str, hold: str) -> None:
        """Let everyone pass a hold, now and later."""
        self._gate(marker, hold).released.set()

    async def held(self, marker: str, hold: str, max_s: float) -> bool:
        """Wait at a hold; False when ``max_s`` seconds passed without a release."""
        gate = self._gate(marker, hold)
        gate.reached.set()
        return await _within(gate.released, max_s)

    async def reached(self, marker: str, hold: str, within_s: float) -> bool:
        """Wait until a worker has come to a hold; False when time is up."""
        return await _within(self._gate(marker, hold).reached, within_s)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    if event.is_set():
        return True
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
