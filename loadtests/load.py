"""The load of a run: locust in a process of its own, watched until all its requests are over."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from conformance.harness.errors import FleetError, HarnessError, TargetError
from conformance.harness.processes import Process
from loadtests.progress import Progress
from loadtests.traffic import DRAIN_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.environment import Environment, Running
    from loadtests.journal import Collector
    from loadtests.options import Options

PACKAGE = Path(__file__).parent
START_S = 20.0
END_S = 10.0
POLL_S = 0.25
SHOW_EVERY_S = 1.0
CONNECT_S = 2.0
SOUND = {0, 1, 3, 4}  # locust: fine, failures, late, idle; anything else is a generator that did not work


def generate(
    options: Options, running: Running, record: Path, collector: Collector, say: Callable[[str], None]
) -> None:
    """Send what the scenario says, showing how it goes.

    Raises:
        HarnessError: the generator does not work, or gateway or workers have ended meanwhile; what was recorded until
            then is in the folder.
    """
    environment = running.environment
    key = {"LOADTESTS_KEY": environment.default_key} if environment.default_key else None
    process = Process("generator", command(options, environment, record), record.parent, env=key)
    progress = Progress(record)
    shown = began = time.monotonic()
    try:
        while process.status is None:
            if time.monotonic() > began + START_S + options.duration_s + DRAIN_S + END_S:
                raise HarnessError(f"the generator did not end in time: {process.describe()}")
            time.sleep(POLL_S)
            still_there(options, running)
            if time.monotonic() - shown >= SHOW_EVERY_S:
                shown = time.monotonic()
                with contextlib.suppress(FleetError):
                    collector.fetch()  # if the workers are gone, the next look tells which
                progress.look()
                say(f"{options.scenario.name} {progress.line(shown, options.duration_s, DRAIN_S)}")
        if process.status not in SOUND:
            raise HarnessError(f"the generator did not work: {process.describe()}")
    finally:
        process.stop()
        with contextlib.suppress(FleetError):
            collector.fetch()  # what the workers know of a load that was cut short


def command(options: Options, environment: Environment, record: Path) -> list[str]:
    """The command line of the generator."""
    named = {
        "-f": PACKAGE / options.scenario.locust_file, "-t": f"{options.duration_s}s",
        "-u": options.users, "-r": options.users,
        "--host": environment.gateway_url, "--control": environment.control_url, "--record-dir": record,
        "--model": environment.workers[0].model, "--rate": options.rate, "--seed": options.seed,
        "--max-late-share": options.thresholds.max_late_share,
        **({"--loop": options.loop} if options.loop else {}),
        **({"--arrivals": options.arrivals} if options.arrivals else {}),
    }  # fmt: skip
    words = [str(word) for pair in named.items() for word in pair]
    return [sys.executable, "-m", "locust", "--headless", "--only-summary", "--loglevel", "WARNING", *words]


def still_there(options: Options, running: Running) -> None:
    """HarnessError when a process of the run has ended, or a gateway that ran already takes no connections any more."""
    for process in running.processes:
        if process.status is not None:
            raise HarnessError(f"a process ended during the run: {process.describe()}")
    if options.url is not None:
        parts = urlsplit(options.url)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 80), CONNECT_S).close()
        except ConnectionRefusedError:
            raise TargetError(f"{options.url} refuses connections: the gateway ended during the run") from None
        except OSError:
            return  # too busy to take this one, which is for the load to judge
