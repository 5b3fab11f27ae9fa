"""The ``fake-worker`` command."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from fake_workers.errors import SpecError
from fake_workers.fleet import Fleet
from fake_workers.spec import ENGINES, WorkerSpec, make_spec, parse_worker

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

_BAD_INPUT = 2


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command = argparse.ArgumentParser(
        prog="fake-worker",
        description="Engines that stand in for SGLang, vLLM and TokenSpeed. Prints one JSON line when ready.",
        allow_abbrev=False,
    )
    command.add_argument("--engine", choices=ENGINES, default="vllm", help="dialect of the worker (default: vllm)")
    command.add_argument("--model", default="fake-model", help="served model name")
    command.add_argument("--port", type=int, default=0, help="port of the worker, 0 for any free one")
    command.add_argument(
        "--worker",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="a worker of a fleet; repeat for more. Fields: " + ", ".join(WorkerSpec.model_fields),
    )
    command.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    command.add_argument("--control-port", type=int, default=0, help="port of the control port, 0 for any free one")
    command.add_argument("--seed", type=int, default=0, help="seed of texts and vectors")
    command.add_argument("--latency", default="none", help="latency profile: none, 8b, 70b")
    command.add_argument("--slots", type=int, default=0, help="requests running at once, 0 for no limit")
    command.add_argument("--health-delay-s", type=float, default=0.0, help="how long /health takes (a real SGLang: 1)")
    command.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help="on stderr (default: warning)",
    )
    command.add_argument("--exit-with-parent", action="store_true", help="stop when stdin is closed")
    return command


def specs_of(options: argparse.Namespace) -> list[WorkerSpec]:
    """Return the workers asked for; raises :class:`SpecError`."""
    common: dict[str, object] = {
        "engine": options.engine,
        "model": options.model,
        "seed": options.seed,
        "latency": options.latency,
        "slots": options.slots,
        "health_delay_s": options.health_delay_s,
    }
    if options.worker:
        return [parse_worker(text, common) for text in options.worker]
    return [make_spec({**common, "port": options.port}, "fake-worker")]


async def serve(fleet: Fleet, *, exit_with_parent: bool) -> None:
    """Run a fleet until SIGINT, SIGTERM, or (if asked) the end of stdin."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with fleet:
        if exit_with_parent:
            _watch_stdin(stopped)
        sys.stdout.write(json.dumps(fleet.describe(), separators=(",", ":")) + "\n")
        sys.stdout.flush()
        await stopped.wait()


def _watch_stdin(stopped: asyncio.Event) -> None:
    """Set the event when stdin ends. A thread waits for it, since an event loop cannot watch every kind of file."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        # os.read and not sys.stdin: a buffered reader's lock would abort the interpreter at its end.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(stopped.set)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 when stopped, 2 for bad input."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        fleet = Fleet(specs_of(options), host=options.host, control_port=options.control_port)
        with contextlib.suppress(KeyboardInterrupt):
            _run(serve(fleet, exit_with_parent=options.exit_with_parent))
    except SpecError as error:
        sys.stderr.write(f"fake-worker: {error}\n")
        return _BAD_INPUT
    return 0


def _run(work: Coroutine[None, None, None]) -> None:
    try:
        import uvloop  # noqa: PLC0415 - not available on every platform
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


if __name__ == "__main__":
    sys.exit(main())
