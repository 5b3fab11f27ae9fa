"""What the checks of raw bytes share: an honest request, another one hidden in its bytes, and what may become of both.

Every hostile request has two markers. The *seen* one is in the request that the client means to send; the *hidden* one
is in bytes that only a wrong reader takes for a request of its own. What a worker journals decides: the hidden one is
never there, the seen one at most once, and then whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.harness.bodies import encode
from conformance.harness.errors import Disproved
from conformance.harness.gateway import CHAT
from conformance.harness.raw import LINGER_S, QUIET_S, Conversation, Step, converse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Proof, Scripted, Worker
    from fake_workers.journal import Entry

REFUSALS = frozenset({*range(400, 500), 501, 505})
CRLF = b"\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """The data as one chunk."""
    return b"%x\r\n" % len(data) + data + CRLF


def chunked(*pieces: bytes) -> bytes:
    """The pieces as chunks, and the last chunk."""
    return b"".join(map(chunk, pieces)) + LAST_CHUNK


class Raw:
    """One check's honest request, the hidden one, and the proof that either would be seen.

    Attributes:
        seen, hidden: the scripts of the two markers.
        body: of the honest request.
        injected: a text that no header a worker gets may contain.
    """

    injected = "igc-injected"

    def __init__(self, gateway: Gateway, worker: Worker, proof: Proof, **fields: object) -> None:
        self.gateway = gateway
        self.worker = worker
        self.proof = proof
        self.seen = worker.script()
        self.hidden = worker.script()
        self.body = encode(gateway.chat_body(self.seen, **fields))

    @classmethod
    async def of(cls, gateway: Gateway, worker: Worker, **fields: object) -> Raw:
        """Prove that an honest request reaches a worker, then make a pair; `fields` belong to the honest body."""
        return cls(gateway, worker, await gateway.proof(worker, CHAT, {}), **fields)

    def head(
        self,
        *lines: str | bytes,
        first: str | bytes = f"POST {CHAT} HTTP/1.1",
        host: Sequence[str] | None = None,
        marker: str = "",
    ) -> bytes:
        """A head: request line, Host (or the lines of `host` instead), content type, credential, then `lines`.

        The marker (of the seen request, unless given) is in X-Request-ID too, unless `lines` have one: so it is found
        also in a request whose body no worker ever reads.
        """
        first = _bytes(first).replace(CHAT.encode(), self.gateway.target(CHAT).encode(), 1)
        credential = [f"{name}: {value}" for name, value in self.gateway.credential()]
        every = [first, *map(_bytes, [f"Host: {self.gateway.netloc}"] if host is None else host)]
        every += [_bytes(line) for line in ("Content-Type: application/json", *credential, *lines)]
        if not any(line.lower().startswith(b"x-request-id") for line in every):
            every.append(_bytes(f"X-Request-ID: {marker or self.seen.marker}"))
        return CRLF.join(every) + CRLF + CRLF

    def honest(self, *lines: str | bytes, first: str | bytes = f"POST {CHAT} HTTP/1.1") -> bytes:
        """The honest request with its length, and further lines."""
        return self.head(f"Content-Length: {len(self.body)}", *lines, first=first) + self.body

    def smuggled(self) -> bytes:
        """The hidden request, complete and well-formed."""
        body = encode(self.gateway.chat_body(self.hidden))
        return self.head(f"Content-Length: {len(body)}", marker=self.hidden.marker) + body

    async def say(
        self, *steps: Step, methods: Sequence[str] = ("POST",), patience_s: float = 2.5, closing: bool = False
    ) -> Conversation:
        """Write the steps to a connection of their own; `closing`: the gateway is to close it, and gets time for it."""
        quiet_s = LINGER_S if closing else QUIET_S
        return await converse(
            self.gateway, self.worker, *steps, methods=methods, patience_s=patience_s, quiet_s=quiet_s
        )

    async def nothing_smuggled(self) -> None:
        """No worker saw the hidden request, neither as one nor as the beginning of one."""
        await self.hidden.never_seen(because=self.proof)

    async def refused(
        self, talk: Conversation, statuses: Collection[int] = REFUSALS, *, answer_owed: bool = False
    ) -> None:
        """No worker saw anything; the client got one of these statuses or, unless one is owed, a closed connection."""
        if talk.status is None and not answer_owed:
            if not talk.closed:
                raise Disproved("neither refused nor closed", talk.brief())
        elif talk.status not in statuses:
            kind = "served" if talk.status == 200 else "refused with another status"
            raise Disproved(kind, f"expected a refusal: {talk.brief()}")
        await self.seen.never_seen(because=self.proof)
        await self.nothing_smuggled()

    async def served(self, talk: Conversation) -> Entry:
        """The client got 200, and a worker the honest request once, whole, under one framing."""
        if talk.status != 200:
            raise Disproved("not served", f"expected 200: {talk.brief()}")
        entry = await self.seen.only()
        await self.nothing_smuggled()
        return self.whole(entry)

    def whole(self, entry: Entry) -> Entry:
        """The entry, which must be the honest request and nothing else, under one framing.

        A gateway may write the JSON anew, so values are compared and not bytes.
        """
        sent = json.loads(self.body)
        try:
            got = entry.json
        except ValueError:
            got = None
        if not isinstance(got, dict) or any(got.get(name) != value for name, value in sent.items()):
            raise Disproved("worker received another body", f"{entry.body[:300]!r} instead of {self.body[:300]!r}")
        framings = entry.header_all("content-length") + entry.header_all("transfer-encoding")
        if len(framings) != 1:
            raise Disproved("worker received another framing", f"{framings} in {entry.head!r}")
        return entry

    async def refused_or_served(self, talk: Conversation, statuses: Collection[int] = REFUSALS) -> Entry | None:
        """One of the two, properly; the worker's entry if it was served."""
        if talk.status == 200:
            return await self.served(talk)
        await self.refused(talk, statuses)
        return None

    async def at_most_once(self, script: Scripted) -> list[Entry]:
        """What the workers saw of a script that may be served or not, but not twice."""
        entries = await script.look()
        if len(entries) > 1:
            raise Disproved("worker received the request more than once", f"{len(entries)} dispatches")
        return entries


def _bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode("latin-1")


def closes(talk: Conversation) -> None:
    """The gateway itself closed the connection: where the next request would begin is unknown."""
    if not talk.closed:
        raise Disproved("connection left open", talk.brief())
