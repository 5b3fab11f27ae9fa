"""From a locust process's start to its end: options, the record, what the fake workers are taught, the exit status.

Importing this module registers its listeners with locust; every locust file does, through its users.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import gevent
from locust import events
from locust.runners import MasterRunner, WorkerRunner

from fake_workers.control import Control
from fake_workers.errors import FakeWorkerError
from loadtests.generator import distributed, options, record
from loadtests.generator.client import address_of
from loadtests.traffic import DRAIN_S, kinds_of

if TYPE_CHECKING:
    from locust.argument_parser import LocustArgumentParser
    from locust.env import Environment

    from loadtests.traffic import Kind

LOG = logging.getLogger("loadtests")
BAD_USAGE, LATE_STATUS, IDLE_STATUS = 2, 3, 4
STOP_S = DRAIN_S + 5.0  # users themselves wait no longer than DRAIN_S
_TAUGHT: set[str] = set()

distributed.register()


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser) -> None:
    options.add(parser)


@events.init.add_listener
def _prepare(environment: Environment, **_: Any) -> None:
    """Let requests under way come to their end, open the record, and teach the fake workers their answers."""
    environment.stop_timeout = environment.stop_timeout or STOP_S
    given = options.of(environment)
    if given.record_dir and not isinstance(environment.runner, MasterRunner):
        try:
            record.open_in(environment, Path(given.record_dir))
        except OSError as problem:
            _refuse(f"--record-dir {given.record_dir}: cannot be written ({problem.strerror})")
    try:
        if given.headless and not isinstance(environment.runner, WorkerRunner):
            address_of(environment.host)
        _teach(environment)
    except ValueError as problem:
        _refuse(str(problem))
    _interruptible()
    # To stop, locust asks who has called it, by way of every module's source: a tenth of a second in which nothing is
    # read or sent while answers are under way. What has been looked up once is looked up fast.
    inspect.stack()
    # Timers count from when the loop last looked at the clock. That was before all imports: --run-time would be over
    # before it has begun.
    gevent.get_hub().loop.update_now()


def _refuse(problem: str) -> NoReturn:
    LOG.error("%s", problem)
    raise SystemExit(BAD_USAGE)


def _interruptible() -> None:
    """Let Ctrl-C end the run where locust waits for it, and not inside of whatever request is just being served."""

    def interrupted() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever presses it again wants out
        gevent.get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        gevent.signal_handler(signal.SIGINT, interrupted)


@events.test_start.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    """Look again at what the web page may have changed; a run that is no use is stopped, and locust lives on."""
    if environment.web_ui is None or environment.runner is None:
        return
    try:
        address_of(environment.host)
        _teach(environment)
    except ValueError as problem:
        LOG.error("not begun: %s", problem)  # noqa: TRY400 - the text says it all
        gevent.spawn(environment.runner.stop)


def _teach(environment: Environment) -> None:
    """Register the answers with the fake workers, once for each control port; ValueError when none answer there."""
    control = options.of(environment).control
    if not control or control in _TAUGHT or isinstance(environment.runner, WorkerRunner):
        return
    try:
        asyncio.run(_put(control, kinds_of(each.flow for each in environment.user_classes if hasattr(each, "flow"))))
    except FakeWorkerError as problem:
        raise ValueError(f"--control {control}: {problem}") from None
    except (ValueError, LookupError, TypeError) as problem:
        said = f"--control {control}: what answers there is no control port of fake workers ({problem})"
        raise ValueError(said) from None
    _TAUGHT.add(control)


async def _put(control_url: str, kinds: list[Kind]) -> None:
    async with Control(control_url) as control:
        for kind in kinds:
            await control.put_template(kind.digits, kind.script)


@events.quitting.add_listener
def _close(environment: Environment, **_: Any) -> None:
    """Close the record; a generator that was late, or sent nothing, says so by its exit status.

    On Ctrl-C locust asks for the exit status before it stops: so stop first, or what is under way would not count.
    """
    if environment.runner is not None:
        environment.runner.stop()
    record.close(environment)
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
        if method != record.DISPATCH or entry.num_requests < 2:  # noqa: PLR2004 - no interval without two
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
