"""The worker's side of a check: scripts put before a request, and what the workers saw of it.

A script is found by its marker, which travels in the prompt, so every check has its own answers and its own part of
the journal however many checks share one gateway.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from conformance.harness.errors import CheckError, Disproved
from conformance.harness.pace import paced
from fake_workers.errors import ControlTimeout
from fake_workers.journal import Entry
from fake_workers.script import Reply, Script, Wire

if TYPE_CHECKING:
    from conformance.harness.environment import WorkerAt
    from fake_workers.control import Control

DISPATCH_BOUND_S = 5.0


def new_marker() -> str:
    """A marker no other request of any run carries."""
    return f"igc-{secrets.token_hex(8)}"


_SEAL: Final = object()


class Proof:
    """An observation that a negative statement rests on.

    This request, differing only in what is judged, did reach a worker. Only the harness makes one, from an entry of the
    journal: `await gateway.proof(...)`, or the `.proof` of a Refusal.

    Attributes:
        what: the request, for messages.
        seen: the worker's record of it.
    """

    __slots__ = ("seen", "what")

    def __init__(self, what: str, seen: Entry, seal: object = None) -> None:
        if seal is not _SEAL or not isinstance(seen, Entry) or seen.marker is None:
            raise CheckError("a Proof cannot be written down, only observed: await gateway.proof(...)")
        self.what = what
        self.seen = seen


def observed(what: str, seen: Entry) -> Proof:
    """The proof that a marked request was seen. For the harness only: no check calls this, and a test looks."""
    return Proof(what, seen, _SEAL)


@dataclass
class Scripted:
    """A script put for one marker.

    Give it to `gateway.chat(script)`, or write `script.prompt` into a body of your own.
    """

    worker: Worker
    marker: str
    script: Script
    put: bool = False
    must_stay_unseen: bool = False
    entries: list[Entry] = field(default_factory=list)  # what the journal had when it was last asked

    @property
    def prompt(self) -> str:
        """A prompt that carries the marker."""
        return f"Say hello. {self.marker}"

    async def received(self, n: int = 1, within_s: float = DISPATCH_BOUND_S) -> list[Entry]:
        """At least `n` dispatches of this marker, in order of arrival.

        Disproved if there are fewer when the time is up.
        """
        entries = await self.look(n, within_s)
        if len(entries) < n:
            raise Disproved(
                "worker did not receive the request",
                f"{len(entries)} dispatch(es) reached a worker in {within_s:g} s, expected at least {n}",
            )
        return entries

    async def only(self, within_s: float = DISPATCH_BOUND_S) -> Entry:
        """The one dispatch of this marker; Disproved if there is none, or more than one."""
        entries = await self.received(1, within_s)
        if len(entries) > 1:
            raise Disproved(
                "worker received the request more than once",
                f"{len(entries)} dispatches of {self.marker} instead of one",
            )
        return entries[0]

    async def never_seen(self, because: Proof) -> None:
        """No worker received this marker, looked at now and again when the check ends.

        Args:
            because: proof that it would have been seen: without it, a gateway that reaches no worker at all would pass.
        """
        if not isinstance(because, Proof):
            raise CheckError("never_seen() needs a Proof: await gateway.proof(...), or the .proof of a Refusal")
        self.must_stay_unseen = True
        if entries := await self.look(0, 0.0):
            raise Disproved(
                "worker received a request it must not see",
                f"{len(entries)} dispatch(es) reached worker {entries[0].worker}: {entries[0].body[:300]!r}",
            )

    async def release(self, hold: str) -> None:
        """Let the worker go on behind the hold of that name."""
        await self.worker.control.release(self.marker, hold)

    async def reached(self, hold: str, within_s: float = DISPATCH_BOUND_S) -> bool:
        """Whether the worker arrives at the hold in that time."""
        return await self.worker.control.reached(self.marker, hold, within_s=paced(within_s))

    async def peer_left(self, within_s: float = DISPATCH_BOUND_S) -> Entry:
        """The dispatch whose peer went away before the answer was finished; Disproved if it stays."""
        await self.received(1)
        try:
            return await self.worker.control.until_peer_closed(self.marker, within_s=paced(within_s))
        except ControlTimeout:
            raise Disproved(
                "worker still had its peer",
                f"the gateway kept the worker's connection of {self.marker} open for {within_s:g} s",
            ) from None

    async def completed(self, within_s: float = DISPATCH_BOUND_S) -> Entry:
        """The dispatch whose answer the worker has sent completely; Disproved if it is not so in time."""
        await self.received(1)
        try:
            return await self.worker.control.until_completed(self.marker, within_s=paced(within_s))
        except ControlTimeout:
            raise Disproved(
                "worker could not finish its answer", f"the answer of {self.marker} was not taken in {within_s:g} s"
            ) from None

    async def look(self, at_least: int = 0, within_s: float = 0.0) -> list[Entry]:
        """The dispatches so far, waiting for `at_least` so many; never fails."""
        await self.worker.flush()
        self.entries = await self.worker.control.entries(self.marker, at_least=at_least, within_s=paced(within_s))
        return self.entries


class Worker:
    """The worker a check speaks to through the gateway (fixture `worker`).

    Scripts and journal are those of the whole fleet.

    Attributes:
        name, engine, model, url: of this worker; `url` as it is registered with the gateway.
        control: the fleet's control client, for what the methods here do not cover (`set_worker`, `all_entries`).
    """

    def __init__(self, at: WorkerAt, control: Control) -> None:
        self.name = at.name
        self.engine = at.engine
        self.model = at.model
        self.url = at.url
        self.control = control
        self.scripts: list[Scripted] = []

    def script(self, *answers: Reply | Wire) -> Scripted:
        """Script the answers to a new marker: the n-th dispatch gets the n-th, the last repeats.

        None given: a plain reply.
        """
        scripted = Scripted(self, new_marker(), Script(answers=list(answers) or [Reply()]))
        self.scripts.append(scripted)
        return scripted

    async def flush(self) -> None:
        """Put the scripts that are not put yet; every request does this by itself."""
        for scripted in self.scripts:
            if not scripted.put:
                await self.control.put_script(scripted.marker, scripted.script)
                scripted.put = True

    async def settle(self) -> None:
        """End of a check: what must not have been seen still is not, and the fleet forgets this check's markers."""
        late = [
            scripted.marker for scripted in self.scripts if scripted.must_stay_unseen and await scripted.look(0, 0.0)
        ]
        for scripted in self.scripts:
            if scripted.put:
                await self.control.forget(scripted.marker)
        if late:
            raise Disproved(
                "worker received a request it must not see", f"seen after the check had looked: {', '.join(late)}"
            )
