"""One request and its answer as the client saw them: every byte, every time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from conformance.harness.errors import Disproved
from conformance.harness.headers import Headers
from conformance.harness.sse import Comment, Event, SseParser

Outcome = Literal["pending", "complete", "cut", "reset", "timeout", "garbage", "aborted"]
"""How the answer ended.

complete: by its own framing (length, last chunk, or end of connection where neither is given). cut: the connection
ended before that. reset: TCP reset. timeout: the bound of the request passed. garbage: not HTTP. aborted: the check
left. pending: still running.
"""


@dataclass
class Times:
    """Moments of an exchange, CLOCK_MONOTONIC seconds, comparable with the workers' journal on one machine."""

    started: float = 0.0
    sent: float | None = None
    head: float | None = None
    ended: float | None = None
    reads: list[tuple[float, int]] = field(default_factory=list)  # (when, bytes) of every read from the socket


@dataclass
class Exchange:
    """A request and its answer. `status` is None until (or unless) a response head came."""

    method: str
    target: str
    request: bytes
    status: int | None = None
    reason: str = ""
    headers: Headers = field(default_factory=Headers)
    informational: list[int] = field(default_factory=list)
    pieces: list[tuple[float, bytes]] = field(default_factory=list)  # the body without its framing, as it arrived
    trailing: bytes = b""  # bytes after the end of the response
    outcome: Outcome = "pending"
    problem: str = ""  # what the HTTP parser or the socket said, when the outcome is not `complete`
    times: Times = field(default_factory=Times)
    connection_kept: bool = False  # whether the gateway left the connection open after the answer
    http2: bool = False  # whether both went over HTTP/2; `request` is then as it would be written in HTTP/1.1
    _raw: bytearray = field(default_factory=bytearray, repr=False)
    _body: bytearray = field(default_factory=bytearray, repr=False)
    _sse: SseParser | None = None
    _sse_fed: int = 0

    @property
    def raw(self) -> bytes:
        """Every byte received."""
        return bytes(self._raw)

    @property
    def legible(self) -> bytes:
        """Every byte received; of HTTP/2, whose frames nobody reads, status, header fields and body."""
        if not self.http2:
            return self.raw
        fields = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items)
        return f"HTTP/2 {self.status or '(no answer)'}\r\n{fields}\r\n".encode() + self.body

    @property
    def body(self) -> bytes:
        """The body without its framing, as far as it came."""
        return bytes(self._body)

    @property
    def received_bytes(self) -> int:
        """How many bytes were received, head and framing included."""
        return len(self._raw)

    def took(self, data: bytes, at: float) -> None:
        """Note a read from the socket."""
        self._raw += data
        self.times.reads.append((at, len(data)))

    def took_body(self, data: bytes, at: float) -> None:
        """Note a piece of the body."""
        self._body += data
        self.pieces.append((at, data))

    def end(self, outcome: Outcome, at: float, problem: str = "") -> None:
        """Note how it ended; the first to say so is believed."""
        if self.outcome == "pending":
            self.outcome, self.problem, self.times.ended = outcome, problem, at

    def give_back(self, size: int) -> None:
        """The last `size` bytes received belong to the next answer on the connection."""
        del self._raw[len(self._raw) - size :]
        self.trailing = b""

    @property
    def succeeded(self) -> bool:
        """Whether the status says success (2xx). Which success is a clause of its own; other checks ask no more."""
        return self.status is not None and HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        """The body as UTF-8; wrong bytes are replaced."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def json(self) -> Any:
        """The body as JSON; the check fails if it is none."""
        try:
            return json.loads(self.body)
        except ValueError as problem:
            raise Disproved(
                "body is not JSON",
                f"{self.method} {self.target} answered {self.status}, not JSON ({problem}): {self.body[:300]!r}",
            ) from None

    @property
    def closed_cleanly(self) -> bool:
        """Whether the answer ended as its own framing says."""
        return self.outcome == "complete"

    def _parsed(self) -> SseParser:
        if self._sse is None:
            self._sse = SseParser()
        for at, data in self.pieces[self._sse_fed :]:
            self._sse.feed(data, at)
        self._sse_fed = len(self.pieces)
        return self._sse

    @property
    def events(self) -> list[Event]:
        """The body's server-sent events, `[DONE]` included."""
        return self._parsed().events

    @property
    def comments(self) -> list[Comment]:
        """The body's SSE comments, in order."""
        return self._parsed().comments

    @property
    def unfinished_event(self) -> bytes:
        """What follows the last blank line: an event the stream broke off in."""
        return self._parsed().unfinished

    @property
    def chunks(self) -> list[Any]:
        """The JSON of every event but `[DONE]`; the check fails if one is not JSON."""
        return [event.json for event in self.events if not event.is_done]

    @property
    def ended_with_done(self) -> bool:
        """The last event is `[DONE]`, the only one of its kind, nothing follows it, and the answer ended as framed."""
        events = self.events
        return (
            self.closed_cleanly
            and bool(events)
            and events[-1].is_done
            and sum(event.is_done for event in events) == 1
            and not self.unfinished_event.strip()
            and not self.trailing
        )

    @property
    def took_s(self) -> float:
        """Seconds from the first byte sent to the end of the answer."""
        return (self.times.ended or self.times.started) - self.times.started

    def brief(self) -> str:
        """One line for failure messages."""
        end = "" if self.outcome == "complete" else f", {self.outcome}{f' ({self.problem})' if self.problem else ''}"
        return f"{self.method} {self.target} → {self.status}{end}, {len(self.body)} bytes: {self.body[:200]!r}"

    def __repr__(self) -> str:
        return f"<Exchange {self.brief()}>"
