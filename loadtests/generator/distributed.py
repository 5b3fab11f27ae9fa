"""Master and workers at the end of a run: requests under way come to their end, and their figures reach the master.

Locust's master waits half a second for the last figures of its workers, too short for answers that take longer. So it
asks them first to drain, and goes on when all have.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import gevent
from locust import events
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from loadtests.traffic import DRAIN_S

if TYPE_CHECKING:
    from locust.env import Environment
    from locust.rpc import Message

LOG = logging.getLogger("loadtests")
DRAIN, DRAINED = "loadtests-drain", "loadtests-drained"
LONGEST_S = DRAIN_S + 15.0
INCOMPLETE_STATUS = 4
POLL_S = 0.05
_DRAINED: set[str] = set()


def register() -> None:
    """Hook into locust; once a process."""
    events.init.add_listener(_listen)
    events.test_stopping.add_listener(_collect)


def _listen(environment: Environment, **_: Any) -> None:
    """Let the two sides understand each other."""
    if isinstance(environment.runner, WorkerRunner):
        environment.runner.register_message(DRAIN, _drain)
    elif isinstance(environment.runner, MasterRunner):
        environment.runner.register_message(DRAINED, lambda msg, **_: _DRAINED.add(msg.node_id))


def _drain(environment: Environment, msg: Message, **_: Any) -> None:  # noqa: ARG001 - what locust calls with
    """As a worker: stop, which waits for the requests under way, then hand in the figures."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        runner.stop()
        runner._send_stats()
        runner.send_message(DRAINED)


def _collect(environment: Environment, **_: Any) -> None:
    """As the master: wait (bounded) until every worker has handed in its figures."""
    runner = environment.runner
    if not isinstance(runner, MasterRunner):
        return
    _DRAINED.clear()
    wanted = {client.id for client in runner.clients.all}
    runner.send_message(DRAIN)
    with gevent.Timeout(LONGEST_S, False):  # noqa: FBT003 - gevent's own signature
        while (wanted - _DRAINED) & {each.id for each in runner.clients.all if each.state != STATE_MISSING}:
            gevent.sleep(POLL_S)
    if missing := wanted - _DRAINED:
        LOG.error("the last figures of %d locust workers are missing: they have ended or do not answer", len(missing))
        environment.process_exit_code = environment.process_exit_code or INCOMPLETE_STATUS
