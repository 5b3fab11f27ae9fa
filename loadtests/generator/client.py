"""The measuring client: one request, one connection, every event stamped by the read that brought it.

gevent sockets and httptools, because the generator lives in locust. A connection of its own for each request keeps the
figures of requests apart: none waits for, or inherits the state of, another one's connection.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import gevent
import httptools
from gevent import socket

from loadtests.generator.answer import Answer, end_of_connection, fill_in

if TYPE_CHECKING:
    from loadtests.observation import Observation
    from loadtests.traffic import Kind, Manners

READ_BYTES = 65536
SLOW_WINDOW_BYTES = 16384


def address_of(url: str | None) -> tuple[str, int]:
    """Host and port of a gateway's URL; ValueError says what is wrong with it and what it should look like."""
    parts = urlsplit(url or "")
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"--host {url or 'is missing'}: expected http://HOST:PORT of a gateway, without /v1")
    return parts.hostname, parts.port or 80


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
        answer = Answer()
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
            fill_in(observation, answer, kind)

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

    def _read(self, connection: socket.socket, answer: Answer, observation: Observation) -> None:
        size = self._manners.read_bytes or READ_BYTES
        while not answer.complete:
            connection.settimeout(self._patience_s())
            data = connection.recv(size)
            answer.now = monotonic()
            if self._leaving():
                raise TimeoutError
            if not data:
                end_of_connection(answer, observation)
                return
            observation.reads += 1
            answer.parser.feed_data(data)
            self._dawdle(answer)

    def _dawdle(self, answer: Answer) -> None:
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
