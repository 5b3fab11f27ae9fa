"""How a run goes: reads what generators have appended to their records since it looked last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtests.observation import Observation

if TYPE_CHECKING:
    from pathlib import Path


class Progress:
    """Counts of a record that is still being written, or was cut short."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_to: dict[Path, int] = {}
        self._first_at: float | None = None
        self._begun = self._over = self._answered = self._shed = self._broken = 0

    @property
    def under_way(self) -> int:
        """How many requests were sent and are not over."""
        return self._begun - self._over

    def look(self) -> None:
        """Read on; a line that is half written is left for the next time."""
        # What is over first: a request may end between the two looks, and none is over before it has begun.
        for line in self._lines("observations-*.jsonl"):
            each = Observation.from_line(line)
            self._over += 1
            self._answered += each.answered
            self._shed += each.shed
            self._broken += bool(each.broken)
        for line in self._lines("begun-*.txt"):
            self._begun += 1
            self._first_at = min(self._first_at or float(line), float(line))

    def _lines(self, pattern: str) -> list[str]:
        found = []
        for file in sorted(self._folder.glob(pattern)):
            with file.open("rb") as record:
                record.seek(self._read_to.get(file, 0))
                whole, newline, _ = record.read().rpartition(b"\n")
            self._read_to[file] = self._read_to.get(file, 0) + len(whole) + len(newline)
            found += whole.decode().splitlines()
        return found

    def line(self, now: float, duration_s: float, longest_s: float) -> str:
        """What to show: how far it is, or what it waits for and how long at most, and the counts so far."""
        if self._first_at is None:
            return "begins: nothing is sent yet"
        counts = f"{self._answered} answered, {self._shed} shed, {self._broken} broken"
        if (past_s := now - self._first_at - duration_s) < 0:
            return f"{now - self._first_at:.0f}/{duration_s:g} s: {counts}, {self.under_way} under way"
        waits = f"waiting for {self.under_way} answers, at most {max(0.0, longest_s - past_s):.0f} s more"
        return f"sending is over, {waits if self.under_way else 'the generator ends'}: {counts}"
