"""Locust users that serve the flows of a scenario, in an open or a closed loop."""

from __future__ import annotations

import itertools
import json
import random
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import gevent
from gevent.pool import Pool
from locust import User, task

from fake_workers.markers import new_marker
from loadtests.arrivals import offsets
from loadtests.generator import lifecycle, options, record  # noqa: F401 - lifecycle registers itself with locust
from loadtests.generator.client import Client, address_of
from loadtests.observation import Observation
from loadtests.traffic import DRAIN_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from locust.env import Environment

    from loadtests.traffic import Flow

MOST_AT_ONCE = 4096
CHAT = "/v1/chat/completions"
_NUMBERS = itertools.count()


class GatewayUser(User):
    """Serves one flow. In an open loop it is an arrival process of its own: each request gets a greenlet when due."""

    abstract = True
    flow: ClassVar[Flow]

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls.weight = cls.flow.users

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        given = options.of(environment)
        self._address = address_of(self.host or environment.host)
        self._options = given
        self._dice = random.Random(self._seed(environment))
        self._requests = Pool(MOST_AT_ONCE)
        self._loop = given.loop or self.flow.loop
        self._due: Iterator[float] | None = None
        self._began = 0.0

    def _seed(self, environment: Environment) -> str:
        worker = getattr(environment.runner, "worker_index", 0)
        return f"{options.of(environment).seed}/{self.flow.name}/{worker}/{next(_NUMBERS)}"

    def on_start(self) -> None:
        """Begin the schedule now."""
        self._began = monotonic()
        pattern = self._options.arrivals or self.flow.pattern
        self._due = offsets(pattern, self._options.rate * self.flow.share, str(self._dice.random()))

    @task
    def serve(self) -> None:
        """Send the next request."""
        if self._loop == "closed":
            self._rest()
            self._one(None)
            gevent.sleep(self.flow.think_s)
            return
        assert self._due is not None  # noqa: S101 - on_start ran
        due = self._began + next(self._due)
        sleep_until(due)
        self._requests.spawn(self._one, due)

    def on_stop(self) -> None:
        """Wait (bounded) for the requests under way; what takes longer is cut, and recorded as a timeout."""
        self._requests.join(timeout=DRAIN_S)
        self._requests.kill()

    def _rest(self) -> None:
        """Sleep through the lull, if it is one."""
        burst_s, lull_s = self.flow.burst_s, self.flow.lull_s
        into = (monotonic() - self._began) % (burst_s + lull_s) if burst_s else 0.0
        if into < lull_s:
            sleep_until(monotonic() + lull_s - into)

    def _one(self, due: float | None) -> None:
        kind = self._dice.choice(self.flow.kinds)
        manners = self.flow.manners
        leave_s = self._dice.uniform(0.0, manners.leave_within_s) if manners.leave_within_s is not None else None
        marker = new_marker(kind.digits)
        observation = Observation(marker, self.flow.name, kind.name, sent_at=0.0, scheduled_at=due)
        client = Client(self._address, manners, leave_s)
        request = self._request(marker)
        record.begin(self.environment, self.flow, monotonic(), due)
        try:
            client.exchange(request, observation, kind if self._options.control else None)
        finally:
            record.note(self.environment, self.flow, observation)

    def _request(self, marker: str) -> bytes:
        body = json.dumps(
            {
                "model": self._options.model,
                "messages": [{"role": "user", "content": f"Say the words of {marker}."}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        host, port = self._address
        lines = [
            f"POST {CHAT} HTTP/1.1",
            f"host: {host}:{port}",
            "content-type: application/json",
            "accept: text/event-stream",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.flow.headers),
        ]
        if self._options.key:
            lines.append(f"authorization: Bearer {self._options.key}")
        return "\r\n".join([*lines, "", ""]).encode() + body


def sleep_until(at: float) -> None:
    """Sleep until a moment, never less: gevent counts from when its loop last looked at the clock."""
    while (left_s := at - monotonic()) > 0:
        gevent.sleep(left_s)
