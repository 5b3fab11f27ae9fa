"""The measuring client: one request, one connection, every event stamped by the read that brought it.

gevent sockets and httptools, because the generator lives in locust. A connection of its own for each request keeps the
figures of requests apart: none waits for, or inherits the state of, another one's connection.
"""

from __future__ import annotations

import json
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import gevent
import httptools
from gevent import socket

from conformance.harness.sse import SseParser
from loadtests import invariants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.sse import Event
    from loadtests.observation import Observation
    from loadtests.traffic import Kind, Manners

READ_BYTES = 65536
SLOW_WINDOW_BYTES = 16384
MOST_ERROR_BYTES = 65536
LONG_CHARS = 16384
OK = 200


def address_of(url: str | None) -> tuple[str, int]:
    """Host and port of a gateway's URL; ValueError says what is wrong with it and what it should look like."""
    parts = urlsplit(url or "")
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"--host {url or 'is missing'}: expected http://HOST:PORT of a gateway, without /v1")
    return parts.hostname, parts.port or 80


class _Answer:
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


class Client:
    """One request.

    Args:
        address: host and port of the gateway.
        manners: how this client behaves.
        leave_after_s: seconds after which it leaves; None: it stays.
    """

    def __init__(self, address: tuple[str, int], manners: Manners, leave_after_s: float | None = None) -> None:
        self._address = address
        self._manners = manners
        self._leave_after_s = leave_after_s
        self._leave_at: float | None = None
        self._stopped = False

    def exchange(self, request: bytes, observation: Observation, kind: Kind | None) -> None:
        """Send the request and fill in what comes of it; never raises for what a gateway or network does.

        Raises:
            GreenletExit: the run is over and waits no longer; what was seen until then is filled in.
        """
        answer = _Answer()
        observation.sent_at = monotonic()
        if self._leave_after_s is not None:
            self._leave_at = observation.sent_at + self._leave_after_s
        try:
            with self._connect() as connection:
                connection.sendall(request)
                self._read(connection, answer, observation)
        except TimeoutError:
            observation.outcome = "left" if self._leaving() else "timeout"
        except ConnectionRefusedError as problem:
            observation.outcome, observation.problem = "refused", str(problem)
        except OSError as problem:
            observation.outcome, observation.problem = "cut", str(problem)
        except httptools.HttpParserError as problem:
            observation.outcome, observation.problem = "malformed", f"{type(problem).__name__}: {problem}"
        except gevent.GreenletExit:
            observation.outcome, observation.problem = "timeout", "it was not over when the run was"
            raise
        finally:
            observation.ended_at = monotonic()
            _fill_in(observation, answer, kind)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if self._manners.read_bytes or self._manners.stop_after_bytes:
                # What the kernel keeps for a slow reader would hide how much the gateway sends.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_WINDOW_BYTES)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(self._patience_s())
            connection.connect(self._address)
        except BaseException:
            connection.close()
            raise
        return connection

    def _leaving(self) -> bool:
        return self._leave_at is not None and monotonic() >= self._leave_at

    def _patience_s(self) -> float:
        if self._leave_at is None:
            return self._manners.patience_s
        return max(min(self._leave_at - monotonic(), self._manners.patience_s), 0.001)

    def _read(self, connection: socket.socket, answer: _Answer, observation: Observation) -> None:
        size = self._manners.read_bytes or READ_BYTES
        while not answer.complete:
            connection.settimeout(self._patience_s())
            data = connection.recv(size)
            answer.now = monotonic()
            if self._leaving():
                raise TimeoutError
            if not data:
                _end_of_connection(answer, observation)
                return
            observation.reads += 1
            answer.parser.feed_data(data)
            self._dawdle(answer)

    def _dawdle(self, answer: _Answer) -> None:
        manners = self._manners
        if manners.read_every_s:
            gevent.sleep(manners.read_every_s)
        if manners.stop_after_bytes and not self._stopped and answer.body_bytes >= manners.stop_after_bytes:
            self._stopped = True
            # As long as asked for, if a moment more or less: gevent's clock may lag.
            gevent.sleep(manners.stop_for_s)
            if manners.leaves_after_stop:
                self._leave_at = monotonic()
                raise TimeoutError


def _end_of_connection(answer: _Answer, observation: Observation) -> None:
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


def _fill_in(observation: Observation, answer: _Answer, kind: Kind | None) -> None:
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
