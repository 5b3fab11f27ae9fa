"""What comes back on a connection, and what an observation keeps of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import gevent
import httptools

from conformance.harness.sse import SseParser
from loadtests import invariants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.sse import Event
    from loadtests.observation import Observation
    from loadtests.traffic import Kind

MOST_ERROR_BYTES = 65536
LONG_CHARS = 16384
OK = 200


class Answer:
    """What httptools calls back with, collected."""

    def __init__(self) -> None:
        self.now = 0.0
        self.headers: list[tuple[str, str]] = []
        self.complete = False
        self.status: int | None = None
        self.head_at: float | None = None
        self.first_byte_at: float | None = None
        self.body_bytes = 0
        self.error = b""
        self.events = SseParser()
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Note when the head was there; informational heads are followed by the real one."""
        self.status = self.parser.get_status_code()
        if self.status < OK:
            self.headers.clear()
            return
        self.head_at = self.now

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self.first_byte_at is None:
            self.first_byte_at = self.now
        self.body_bytes += len(data)
        if not self.is_stream:
            self.error += data[: MOST_ERROR_BYTES - len(self.error)]
            return
        self.events.feed(data, self.now)

    def on_message_complete(self) -> None:
        """Note that the answer came to its proper end."""
        if self.status is not None and self.status >= OK:
            self.complete = True

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.header("content-type").startswith("text/event-stream")

    def header(self, name: str) -> str:
        """The first value of a header, empty when there is none."""
        return next((value for each, value in self.headers if each == name), "")


def end_of_connection(answer: Answer, observation: Observation) -> None:
    """The gateway closed: the end of a body without framing, or a cut."""
    framed = bool(answer.header("transfer-encoding") or answer.header("content-length"))
    if answer.head_at is not None and not framed:
        answer.complete = True
        return
    observation.outcome = "cut"
    observation.problem = (
        f"the connection was closed after {answer.body_bytes} bytes of body"
        if answer.head_at
        else ("the connection was closed without an answer")
    )


def fill_in(observation: Observation, answer: Answer, kind: Kind | None) -> None:
    """Keep what was seen, and judge the exchange by itself."""
    observation.status = answer.status if answer.head_at is not None else None
    observation.head_at = answer.head_at
    observation.first_byte_at = answer.first_byte_at
    observation.body_bytes = answer.body_bytes
    events = answer.events
    observation.events = [event.at for event in events.events]
    observation.pings = [comment.at for comment in events.comments]
    observation.error_code = answer.header("x-smg-error-code") or None
    observation.retry_after = answer.header("retry-after") or None
    observation.preempted = answer.header("x-smg-preempted") or None
    observation.ratelimit_headers = [name for name, _ in answer.headers if name.startswith("x-ratelimit")]
    if answer.error and observation.status != OK:
        observation.error_body = _code_of(answer.error)
    if observation.status == OK:
        chunks = _parsed(events.events)
        observation.tokens = [
            event.at for event, chunk in zip(events.events, chunks, strict=True) if invariants.brings_text(chunk)
        ]
        observation.undecided = invariants.undecided(kind)
        observation.broken = [
            *invariants.of_comments(events.comments, events.events),
            *invariants.of_stream(
                events.events,
                chunks,
                kind,
                observation.marker,
                finished=observation.outcome == "complete",
                content_type=answer.header("content-type"),
                unfinished=events.unfinished,
            ),
        ]


def _parsed(events: Sequence[Event]) -> invariants.Chunks:
    """What the events say, with pauses: a long answer must not hold up the requests that are due meanwhile."""
    found: invariants.Chunks = []
    for event in events:
        found.append(invariants.parsed(event.data))
        if len(event.data) > LONG_CHARS:
            gevent.sleep(0)
    return found


def _code_of(body: bytes) -> str | None:
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError):
        return None
    return str(code)
