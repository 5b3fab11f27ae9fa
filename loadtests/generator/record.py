"""Where observations go: to locust's statistics, and as lines of JSON into a folder if one is named.

Importing this module registers its listeners with locust; every locust file does, through its users.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import gevent
from locust import events
from locust.runners import WorkerRunner

from fake_workers.control import Control
from fake_workers.errors import FakeWorkerError
from loadtests.generator import distributed, options

if TYPE_CHECKING:
    from locust.argument_parser import LocustArgumentParser
    from locust.env import Environment

    from loadtests.observation import Observation
    from loadtests.traffic import Flow, Kind

LOG = logging.getLogger("loadtests")
BAD_USAGE, LATE_STATUS, IDLE_STATUS = 2, 3, 4
DRAIN_S = 35.0
DISPATCH = "DISPATCH"
_FILES: dict[int, TextIO] = {}
_TAUGHT: set[str] = set()


distributed.register()


class Failed(Exception):  # noqa: N818 - locust shows the name before the text
    """What locust counts as a failed request."""


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser) -> None:
    options.add(parser)


@events.init.add_listener
def _prepare(environment: Environment, **_: Any) -> None:
    """Let requests under way come to their end, open the record, and teach the fake workers their answers."""
    environment.stop_timeout = environment.stop_timeout or DRAIN_S
    given = options.of(environment)
    if given is not None and given.record_dir:
        folder = Path(given.record_dir)
        folder.mkdir(parents=True, exist_ok=True)
        _FILES[id(environment)] = (folder / f"observations-{os.getpid()}.jsonl").open("w", encoding="utf-8")
    _teach(environment)
    # Timers count from when the loop last looked at the clock. That was before all imports: --run-time would be over
    # before it has begun.
    gevent.get_hub().loop.update_now()


@events.test_start.add_listener
def _teach(environment: Environment, **_: Any) -> None:
    """Register the answers with the fake workers, once for each control port: the web page may name another one.

    Raises:
        SystemExit: with status 2 when nobody answers there.
    """
    control = options.of(environment).control
    if not control or control in _TAUGHT or isinstance(environment.runner, WorkerRunner):
        return
    from loadtests.generator.users import kinds_of  # noqa: PLC0415 - users import this module

    try:
        asyncio.run(teach(control, kinds_of(list(environment.user_classes))))
    except (FakeWorkerError, ValueError) as problem:
        LOG.error("--control %s: %s", control, problem)  # noqa: TRY400 - the text says it all
        raise SystemExit(BAD_USAGE) from None
    _TAUGHT.add(control)


async def teach(control_url: str, kinds: list[Kind]) -> None:
    """Put the templates of the kinds into the fake workers' book."""
    async with Control(control_url) as control:
        for kind in kinds:
            await control.put_template(kind.digits, kind.script)


@events.quitting.add_listener
def _close(environment: Environment, **_: Any) -> None:
    """Close the record; a generator that was late, or sent nothing, says so by its exit status."""
    if file := _FILES.pop(id(environment), None):
        file.close()
    if isinstance(environment.runner, WorkerRunner):
        return
    if not environment.stats.num_requests:
        LOG.error("nothing was sent, so nothing is known")
        environment.process_exit_code = environment.process_exit_code or IDLE_STATUS
    elif said := lateness(environment):
        LOG.error("%s", said)
        environment.process_exit_code = environment.process_exit_code or LATE_STATUS


def lateness(environment: Environment) -> str:
    """What to say when the generator was late over all its workers; empty when it was not."""
    share = options.of(environment).max_late_share
    for (name, method), entry in environment.stats.entries.items():
        if method != DISPATCH or entry.num_requests < 2:  # noqa: PLR2004 - no interval without two
            continue
        span_s = (entry.last_request_timestamp or 0.0) - entry.start_time
        interval_ms = 1000.0 * span_s / entry.num_requests
        p99_ms = entry.get_response_time_percentile(0.99)
        if p99_ms > share * interval_ms:
            return (
                f"the generator was late: 99% of {name} were sent within {p99_ms:.0f} ms of their time, allowed are "
                f"{share:g} of the mean {interval_ms:.0f} ms between arrivals; lower --rate, or add locust workers"
            )
    return ""


def note(environment: Environment, flow: Flow, observation: Observation) -> None:
    """Keep an observation."""
    if file := _FILES.get(id(environment)):
        file.write(observation.to_line() + "\n")
        file.flush()
    fire = environment.events.request.fire
    failed = failure(flow, observation)
    common: dict[str, Any] = {"name": flow.name, "context": {}, "response": None}
    took_ms = 1000.0 * (observation.ended_at - (observation.scheduled_at or observation.sent_at))
    fire(
        request_type="POST",
        response_time=took_ms,
        response_length=observation.body_bytes,
        exception=Failed(failed) if failed else None,
        **common,
    )
    if observation.first_token_at is not None:
        first_ms = 1000.0 * (observation.first_token_at - observation.sent_at)
        fire(request_type="TTFT", response_time=first_ms, response_length=0, exception=None, **common)
    if (delay_s := observation.dispatch_delay_s) is not None:
        fire(request_type=DISPATCH, response_time=1000.0 * delay_s, response_length=0, exception=None, **common)


def failure(flow: Flow, observation: Observation) -> str:
    """Why an exchange failed by itself, clause first; empty when it did not."""
    if observation.broken:
        clause, what = observation.broken[0]
        return f"{clause}: {what}"
    if observation.outcome not in {"complete", "left"}:
        return f"{observation.outcome}: {observation.problem}"
    if observation.outcome == "left" or observation.status == 200:  # noqa: PLR2004 - HTTP's word for success
        return ""
    if observation.status in flow.tolerates and observation.retry_after is not None:
        return ""
    return f"status {observation.status}, code {observation.error_code}, Retry-After {observation.retry_after}"
