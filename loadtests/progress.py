"""How a run goes: reads what generators have appended to their records since it looked last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadtests.observation import Observation

if TYPE_CHECKING:
    from pathlib import Path


class Progress:
    """Counts of a record that is still being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_to: dict[Path, int] = {}
        self._answered = self._shed = self._broken = 0

    def line(self) -> str:
        """The counts so far; a line that is half written is left for the next time."""
        for file in self._folder.glob("observations-*.jsonl"):
            with file.open("rb") as record:
                record.seek(self._read_to.get(file, 0))
                whole, newline, _ = record.read().rpartition(b"\n")
            self._read_to[file] = self._read_to.get(file, 0) + len(whole) + len(newline)
            for each in map(Observation.from_line, whole.decode().splitlines()):
                self._answered += each.answered
                self._shed += each.shed
                self._broken += bool(each.broken)
        return f"{self._answered} answered, {self._shed} shed, {self._broken} broken"
