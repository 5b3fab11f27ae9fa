"""The journal: every request as it arrived, and what became of it.

Times are ``CLOCK_MONOTONIC`` seconds, so they compare across processes of one machine. Memory is bounded: the oldest
entries leave when there are too many, or too many bytes; :meth:`Journal.forget` drops a marker's entries at once.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEFAULT_MAX_ENTRIES = 20_000
DEFAULT_MAX_BYTES = 128 * 1024 * 1024
_ENTRY_OVERHEAD_BYTES = 500


@dataclass(slots=True)
class Entry:
    """One request and what became of it.

    Attributes:
        seq: number in the order of arrival, from 1, over all workers of the fleet.
        worker: name of the worker that received it.
        marker: the marker found in body, target or head.
        method, target: from the request line.
        head, body: raw bytes; the body without chunk framing.
        started_at: time of the first byte of the head.
        received_at: time of the last byte of the body.
        answered_at: time of the first byte sent.
        sent: every write as (time, bytes).
        completed_at: when the answer was finished by the worker.
        peer_closed_at: when the peer left before the answer was finished.
        outcome: None while it goes on; answered, closed, reset, stalled, hold_expired, peer_left, incomplete,
            malformed, failed, cancelled.
        connection: number of the TCP connection it came over, from 1 in each worker.
        dispatch: number of this dispatch of its marker, from 0.
    """

    seq: int
    worker: str
    marker: str | None
    method: str
    target: str
    head: bytes
    body: bytes
    started_at: float
    received_at: float
    answered_at: float | None = None
    sent: list[tuple[float, int]] = field(default_factory=list)
    completed_at: float | None = None
    peer_closed_at: float | None = None
    outcome: str | None = None
    connection: int = 0
    dispatch: int = 0

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header fields in the order and spelling of the wire, values stripped, decoded as latin-1."""
        fields = []
        for line in self.head.split(b"\r\n")[1:]:
            name, colon, value = line.partition(b":")
            if colon:
                fields.append((name.decode("latin-1"), value.strip().decode("latin-1")))
        return fields

    @property
    def json(self) -> Any:
        """The body as JSON; raises ``ValueError`` when it is none."""
        return json.loads(self.body)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    def header_all(self, name: str) -> list[str]:
        """Return all values of a header, case-insensitively."""
        wanted = name.lower()
        return [value for field_name, value in self.headers if field_name.lower() == wanted]

    def header(self, name: str) -> str | None:
        """Return the first value of a header, or None."""
        values = self.header_all(name)
        return values[0] if values else None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; bytes as base64."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["head"] = base64.b64encode(self.head).decode()
        plain["body"] = base64.b64encode(self.body).decode()
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Entry:
        """Read what :meth:`to_dict` wrote."""
        values = dict(plain)
        values["head"] = base64.b64decode(values["head"])
        values["body"] = base64.b64decode(values["body"])
        values["sent"] = [(at, size) for at, size in values["sent"]]
        return cls(**values)


def _weight(entry: Entry) -> int:
    return len(entry.head) + len(entry.body) + _ENTRY_OVERHEAD_BYTES


class Journal:
    """All entries of a fleet, with waiting. Belongs to the event loop of the fleet; not for other threads."""

    def __init__(self, max_entries: int = DEFAULT_MAX_ENTRIES, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Start empty with the given bounds."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._ring: deque[Entry] = deque()
        self._bytes = 0
        self._seq = 0
        self._by_marker: dict[str, list[Entry]] = {}
        self._waiters: dict[str | None, list[asyncio.Future[None]]] = {}

    def next_seq(self) -> int:
        """Return the number for the next entry."""
        self._seq += 1
        return self._seq

    def add(self, entry: Entry) -> None:
        """Keep an entry, dropping the oldest ones beyond the bounds."""
        self._ring.append(entry)
        self._bytes += _weight(entry)
        if entry.marker is not None:
            self._by_marker.setdefault(entry.marker, []).append(entry)
        while len(self._ring) > self._max_entries or (self._bytes > self._max_bytes and len(self._ring) > 1):
            self._drop(self._ring.popleft())
        self.changed(entry)

    def _drop(self, entry: Entry) -> None:
        self._bytes -= _weight(entry)
        if entry.marker is not None:
            of_marker = self._by_marker.get(entry.marker)
            if of_marker is not None:
                of_marker[:] = [kept for kept in of_marker if kept is not entry]
                if not of_marker:
                    del self._by_marker[entry.marker]

    def changed(self, entry: Entry) -> None:
        """Wake whoever waits for something about this entry."""
        if not self._waiters:
            return
        for key in (entry.marker, None):
            for waiter in self._waiters.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def entries(self, marker: str) -> list[Entry]:
        """Return the entries of a marker in order of arrival."""
        return list(self._by_marker.get(marker, ()))

    def all_entries(self, since_seq: int = 0) -> list[Entry]:
        """Return all entries kept with a number above ``since_seq``, the gateway's own probes included."""
        return [entry for entry in self._ring if entry.seq > since_seq]

    def forget(self, marker: str) -> None:
        """Drop all entries of a marker."""
        if self._by_marker.pop(marker, None) is not None:
            kept = [entry for entry in self._ring if entry.marker != marker]
            self._ring = deque(kept)
            self._bytes = sum(_weight(entry) for entry in kept)

    async def wait(self, marker: str | None, settled: Callable[[], bool], within_s: float) -> bool:
        """Wait until ``settled()`` holds, looking whenever an entry of the marker changes; False when time is up."""
        loop = asyncio.get_running_loop()
        deadline = monotonic() + within_s
        while not settled():
            left = deadline - monotonic()
            if left <= 0:
                return False
            waiter = loop.create_future()
            self._waiters.setdefault(marker, []).append(waiter)
            try:
                await asyncio.wait_for(waiter, left)
            except TimeoutError:
                return settled()
            finally:
                self._discard(marker, waiter)
        return True

    def _discard(self, marker: str | None, waiter: asyncio.Future[None]) -> None:
        waiting = self._waiters.get(marker)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._waiters[marker]

    async def wait_for_count(self, marker: str, at_least: int, within_s: float) -> list[Entry]:
        """Return the marker's entries once there are ``at_least`` so many, or what there is when time is up."""
        await self.wait(marker, lambda: len(self._by_marker.get(marker, ())) >= at_least, within_s)
        return self.entries(marker)

    async def wait_for_entry(self, marker: str, holds: Callable[[Entry], bool], within_s: float) -> Entry | None:
        """Return the first entry of the marker for which ``holds`` is true, or None when time is up."""

        def find() -> Entry | None:
            """Return the entry looked for, if it is there by now."""
            of_marker: Iterable[Entry] = self._by_marker.get(marker, ())
            return next((entry for entry in of_marker if holds(entry)), None)

        await self.wait(marker, lambda: find() is not None, within_s)
        return find()
