"""Requests no HTTP library will send: any bytes, cut anywhere, with pauses and half-closes, and all their answers.

`converse` writes the steps in order and reads until the gateway has closed the connection, or has answered and gone
quiet. It never hangs: who says nothing gets a FIN after a while, and who then neither answers nor closes is
disproved.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from conformance.harness.answer import AnswersReader
from conformance.harness.errors import Disproved, TargetError
from conformance.harness.pace import paced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

BOUND_S = 15.0
PATIENCE_S = 2.5  # how long a gateway may say nothing before the client half-closes
QUIET_S = 0.3  # how long nothing must come behind the last answer expected
LINGER_S = 3.0  # the same where the gateway is to close: it may first read what the client still sends
LAST_S = 1.5  # how long a gateway may take to close after the client's FIN, once it has answered
READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Fin:
    """Step: no more bytes will come (half-close); reading goes on."""


@dataclass(frozen=True)
class Pause:
    """Step: wait so many seconds before the next bytes."""

    seconds: float


@dataclass(frozen=True)
class Answered:
    """Step: wait until so many final answers have begun, or a 100 Continue came, at most `within_s` seconds."""

    number: int = 0
    informational: bool = False
    within_s: float = 5.0


Step = bytes | Fin | Pause | Answered


def slowly(data: bytes, size: int = 1, every_s: float = 0.002) -> list[Step]:
    """The bytes in pieces of `size`, with a pause behind each."""
    steps: list[Step] = []
    for at in range(0, len(data), size):
        steps += [data[at : at + size], Pause(every_s)]
    return steps


@dataclass
class Conversation:
    """What came of it.

    Attributes:
        answers: in order; at least one, whose status is None when nothing came.
        end: who ended the connection before the client did: `closed` (FIN) or `reset` by the gateway, `open` if it
            left it open until it had been quiet for a while.
        sent_all: whether every step was written.
        gave_up: whether the client half-closed because nothing had come for too long.
    """

    answers: list[Exchange]
    end: Literal["open", "closed", "reset"]
    sent_all: bool
    gave_up: bool

    @property
    def first(self) -> Exchange:
        """The answer to the first request."""
        return self.answers[0]

    @property
    def status(self) -> int | None:
        """Status of the first answer; None when the connection ended without one."""
        return self.first.status

    @property
    def statuses(self) -> list[int | None]:
        """The statuses of all answers."""
        return [each.status for each in self.answers]

    @property
    def closed(self) -> bool:
        """Whether the gateway ended the connection."""
        return self.end != "open"

    def brief(self) -> str:
        """One line for failure messages."""
        return f"{self.end} connection, answers {self.statuses}, the first: {self.first.brief()}"


class _Line:
    """One connection and the tasks round it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: AnswersReader) -> None:
        self.reader = reader
        self.writer = writer
        self.answers = answers
        self.sent_all = False
        self.gave_up = False
        self.end: Literal["open", "closed", "reset"] = "open"
        self.last_byte = time.monotonic()  # of either side

    async def send(self, steps: Sequence[Step]) -> None:
        """Write the steps; a gateway may close before it has read everything, and then its answer matters."""
        with contextlib.suppress(ConnectionError, RuntimeError):  # uvloop raises RuntimeError on a closed transport
            for step in steps:
                match step:
                    case bytes():
                        self.writer.write(step)
                        await self.writer.drain()
                    case Fin():
                        self.writer.write_eof()
                    case Pause(seconds):
                        await asyncio.sleep(seconds)
                    case Answered():
                        await self._until(step)
            self.sent_all = True

    async def _until(self, step: Answered) -> None:
        deadline = time.monotonic() + paced(step.within_s)
        while time.monotonic() < deadline and self.end == "open":
            informed = step.informational and self.answers.exchanges[-1].informational
            if informed or self.answers.begun >= max(step.number, 1):
                return
            await asyncio.sleep(0.005)

    async def read(self, within_s: float) -> bool:
        """Read once; False when nothing came in time or nothing can come any more."""
        if self.end != "open":
            return False
        try:
            data = await asyncio.wait_for(self.reader.read(READ_BYTES), max(within_s, 0.001))
        except TimeoutError:
            return False
        except OSError as problem:
            self.end = "reset"
            self.answers.finish("reset", time.monotonic(), str(problem))
            return False
        now = time.monotonic()
        if not data:
            self.end = "closed"
            self.answers.finish("cut", now)
            return False
        self.last_byte = now
        self.answers.feed(data, now)
        return True


async def converse(
    gateway: Gateway,
    worker: Worker,
    *steps: Step,
    methods: Sequence[str] = ("POST",),
    patience_s: float = PATIENCE_S,
    quiet_s: float = QUIET_S,
    within_s: float = BOUND_S,
) -> Conversation:
    """Write the steps to one new connection and read what comes back; the answers become part of the evidence.

    Args:
        gateway: who is spoken to.
        worker: whose pending scripts are put first.
        steps: bytes and what lies between them; the end of each bytes object is the end of a segment.
        methods: of the requests an honest reader finds in it: so many answers are waited for.
        patience_s: how long to wait for the next byte before the client half-closes.
        quiet_s: how long nothing must come behind the last answer before the connection counts as left open.
        within_s: bound of the whole conversation.

    Raises:
        Disproved: the gateway neither answered nor closed the connection, though it knew that nothing more would come.
        TargetError: it takes no connection.
    """
    await worker.flush()
    started = time.monotonic()
    parts = urlsplit(gateway.base_url)
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port or 80), within_s)
    except OSError as problem:
        raise TargetError(f"cannot connect to the gateway at {gateway.base_url}: {problem or 'no answer'}") from problem
    written = b"".join(step for step in steps if isinstance(step, bytes))
    answers = AnswersReader(written, methods, started)
    gateway.exchanges.append(answers.exchanges[0])
    line = _Line(reader, writer, answers)
    sender = asyncio.create_task(line.send(steps))
    try:
        await _listen(line, sender, len(methods), (paced(patience_s), paced(quiet_s)), started + paced(within_s))
        end = line.end
        await _drain(line)
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
        writer.transport.abort()
        answers.finish("aborted", time.monotonic())
        gateway.exchanges += answers.exchanges[1:]
    talk = Conversation(answers.exchanges, end, line.sent_all, line.gave_up)
    if line.end == "open" and not answers.begun:
        raise Disproved("hangs", f"neither an answer nor the end of the connection within {within_s:g} s")
    return talk


async def _listen(
    line: _Line, sender: asyncio.Task[None], expected: int, patience: tuple[float, float], deadline: float
) -> None:
    """Read until the gateway closes, has given the answers expected and is quiet, or has used up its bound."""
    while line.end == "open" and time.monotonic() < deadline:
        if await line.read(min(QUIET_S, deadline - time.monotonic())):
            continue
        if not sender.done():
            line.last_byte = time.monotonic()
            continue
        patience_s, quiet_s = patience
        silent_s = time.monotonic() - line.last_byte
        if line.answers.complete >= expected:
            if silent_s >= quiet_s:
                return
        elif not line.gave_up and silent_s > patience_s:
            line.gave_up = True
            with contextlib.suppress(OSError, RuntimeError):  # the other side was faster
                line.writer.write_eof()


async def _drain(line: _Line) -> None:
    """Say that nothing more will come, so that whatever the gateway still makes of the bytes becomes visible."""
    if line.end != "open":
        return
    with contextlib.suppress(OSError, RuntimeError):  # the other side was faster
        if line.writer.can_write_eof():
            line.writer.write_eof()
    deadline = time.monotonic() + paced(LAST_S)
    while line.end == "open" and time.monotonic() < deadline:
        await line.read(deadline - time.monotonic())
