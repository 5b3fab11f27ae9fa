"""The clients of the storm: each sends one request and leaves at a moment and in a way that were drawn beforehand."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import h11

from fake_workers.markers import new_marker

if TYPE_CHECKING:
    from random import Random

KIND = "57a0"
"""The marker kind whose template every worker of the storm has."""
CHAT = "/v1/chat/completions"
PIECES = [f"word{number} " for number in range(6)]
LEVELS = ("system", "interactive", "default", "bulk")
DELAYS_S = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2)
_READ_BYTES = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset
_ANSWERED = frozenset({200, 429, 503})


class Moment(StrEnum):
    """When a client leaves."""

    HEAD = "in the head"
    BODY = "in the body of the request"
    WAITING = "before the first byte"
    MIDDLE = "in the answer"
    DONE = "after the last event"
    NEVER = "stays to the end"


class Way(StrEnum):
    """How a client leaves."""

    CLOSE = "close"
    RESET = "reset"
    HALF = "half-close"  # says that it will send no more, and waits for the server to hang up


WEIGHTS = {Moment.HEAD: 1, Moment.BODY: 1, Moment.WAITING: 4, Moment.MIDDLE: 3, Moment.DONE: 1, Moment.NEVER: 2}


@dataclass(frozen=True)
class Plan:
    """What one client does.

    Attributes:
        share: of the head or body that is sent, where it leaves in there.
        delay_s: how long it stays when nothing comes, in seconds.
        events: of the answer that it reads, where it leaves in there.
    """

    marker: str
    moment: Moment
    way: Way
    stream: bool
    level: str
    share: float
    delay_s: float
    events: int


@dataclass(frozen=True)
class Ending:
    """What became of a client: where it really was when it left, and what is wrong with what it saw, if anything."""

    plan: Plan
    moment: Moment
    status: int | None = None
    fault: str | None = None


def drawn(rnd: Random) -> Plan:
    """One client's plan."""
    return Plan(
        marker=new_marker(KIND),
        moment=rnd.choices(list(WEIGHTS), list(WEIGHTS.values()))[0],
        way=rnd.choice(list(Way)),
        stream=rnd.random() < 0.6,
        level=rnd.choice(LEVELS),
        share=rnd.random(),
        delay_s=rnd.choice(DELAYS_S),
        events=rnd.randint(1, len(PIECES)),
    )


async def conduct(address: tuple[str, int], plan: Plan, patience_s: float) -> Ending:
    """Be that client. All of it is over within so many seconds, and its socket is closed when this returns."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)  # noqa: FBT003 - the socket's own signature
        try:
            async with asyncio.timeout(patience_s):
                ending = await _Client(connection, plan).run(address)
                if plan.moment is not Moment.NEVER:
                    await _leave(connection, plan.way)
        except TimeoutError:
            return Ending(plan, plan.moment, fault=f"not over within {patience_s:g} s")
        except OSError as problem:
            return Ending(plan, plan.moment, fault=f"{type(problem).__name__} before the client had left")
        return ending


async def _leave(connection: socket.socket, way: Way) -> None:
    """Leave; a half-closing client reads on until the server hangs up."""
    loop = asyncio.get_running_loop()
    if way is Way.RESET:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    elif way is Way.HALF:
        try:
            connection.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(connection, _READ_BYTES):
                pass
        except OSError:  # hung up with a reset, or before we did
            return


class _Client:
    def __init__(self, connection: socket.socket, plan: Plan) -> None:
        self._connection = connection
        self._plan = plan
        self._http = h11.Connection(h11.CLIENT)
        self._status: int | None = None
        self._body = b""
        self._complete = False

    async def run(self, address: tuple[str, int]) -> Ending:
        """Everything but the leaving."""
        plan, loop = self._plan, asyncio.get_running_loop()
        await loop.sock_connect(self._connection, address)
        head, body = self._request()
        if plan.moment in {Moment.HEAD, Moment.BODY}:
            part = head[: int(plan.share * len(head))]
            if plan.moment is Moment.BODY:
                part = head + body[: int(plan.share * len(body))]
            await loop.sock_sendall(self._connection, part)
            await asyncio.sleep(plan.delay_s)
            return Ending(plan, plan.moment)
        await loop.sock_sendall(self._connection, head + body)
        if plan.moment is Moment.WAITING and not await self._byte_within(plan.delay_s):
            return Ending(plan, plan.moment)
        while not self._complete and not self._enough():
            await self._read()
        return Ending(plan, self._reached(), self._status, self._fault())

    def _request(self) -> tuple[bytes, bytes]:
        messages = [{"role": "user", "content": self._plan.marker}]
        body = json.dumps({"model": "m", "stream": self._plan.stream, "messages": messages}).encode()
        fields = [
            ("Host", "storm"), ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
            ("X-SMG-Priority", self._plan.level),
        ]  # fmt: skip
        head = self._http.send(h11.Request(method="POST", target=CHAT, headers=fields))
        self._http.send(h11.Data(data=body))
        self._http.send(h11.EndOfMessage())
        return head or b"", body

    async def _byte_within(self, delay_s: float) -> bool:
        """Whether something comes so soon."""
        try:
            async with asyncio.timeout(delay_s):
                await self._read()
        except TimeoutError:
            return False
        return True

    async def _read(self) -> None:
        """Take in what comes next.

        Raises:
            ConnectionError: the server hung up in the middle of its answer, or sent what is none.
        """
        data = await asyncio.get_running_loop().sock_recv(self._connection, _READ_BYTES)
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                elif isinstance(event, h11.Data):
                    self._body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self._complete = True
                    return
                else:
                    raise ConnectionAbortedError
        except h11.RemoteProtocolError as problem:
            raise ConnectionAbortedError from problem

    def _enough(self) -> bool:
        """Whether the client has read as far as it wanted."""
        match self._plan.moment:
            case Moment.WAITING:
                return True
            case Moment.MIDDLE:
                return self._body.count(b"data:") >= self._plan.events if self._plan.stream else bool(self._body)
            case Moment.DONE:
                return b"data: [DONE]" in self._body
            case _:
                return False

    def _reached(self) -> Moment:
        """Where in the answer the client is."""
        if self._plan.moment is Moment.NEVER:
            return Moment.NEVER
        return Moment.DONE if self._complete or b"data: [DONE]" in self._body else Moment.MIDDLE

    def _fault(self) -> str | None:
        if self._status is not None and self._status not in _ANSWERED:
            return f"status {self._status}: {self._body[:200]!r}"
        if self._complete and self._status == 200:
            last = b"data: [DONE]\n\n" if self._plan.stream else b"}"
            if not self._body.endswith(last) or PIECES[-1].encode() not in self._body:
                return f"an answer that is not whole: {self._body[-200:]!r}"
        return None
