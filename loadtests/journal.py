"""Fetches the workers' journal while a run goes on, for the journal itself forgets the oldest entries."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from conformance.harness.errors import FleetError
from fake_workers.control import Control
from fake_workers.errors import FakeWorkerError

if TYPE_CHECKING:
    from fake_workers.journal import Entry

SETTLE_S = 5.0


class Collector:
    """Keeps every entry of a fleet that carries a marker; the gateway's own probes are left out."""

    def __init__(self, control_url: str) -> None:
        self._url = control_url
        self._entries: dict[int, Entry] = {}
        self._from = 0

    def fetch(self) -> int:
        """Fetch what is new or was unfinished; returns how many requests are unfinished still.

        Raises:
            FleetError: the fake workers do not answer.
        """
        try:
            found = asyncio.run(self._fetch())
        except FakeWorkerError as problem:
            raise FleetError(f"the journal of the fake workers cannot be read: {problem}") from problem
        for entry in found:
            self._entries[entry.seq] = entry
        open_ones = [seq for seq, entry in self._entries.items() if entry.outcome is None]
        last = max(self._entries, default=0)
        self._from = min(open_ones, default=last + 1) - 1
        return sum(self._entries[seq].marker is not None for seq in open_ones)

    async def _fetch(self) -> list[Entry]:
        async with Control(self._url) as control:
            return await control.all_entries(self._from)

    def settle(self, within_s: float = SETTLE_S) -> None:
        """Fetch until no request is unfinished, or the time is up: what a worker still does then is a fact, too."""
        deadline = monotonic() + within_s
        while self.fetch() and monotonic() < deadline:
            asyncio.run(asyncio.sleep(0.1))

    def by_marker(self) -> dict[str, list[Entry]]:
        """The entries, in the order of arrival."""
        found: dict[str, list[Entry]] = {}
        for _, entry in sorted(self._entries.items()):
            if entry.marker is not None:
                found.setdefault(entry.marker, []).append(entry)
        return found
