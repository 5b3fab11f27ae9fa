"""Processes a run starts (gateways, fake workers): logged, bounded, and never outliving the run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from conformance.harness import guard
from conformance.harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

POLL_S = 0.02
LOG_LINES = 15
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Below the ephemeral range of Linux (32768-60999), so that no outgoing connection takes the port between two steps.
PORTS = range(20000, 32000)


class Process:
    """A child under guard, its output in files.

    Args:
        name: for messages and log file names.
        command: program and arguments.
        log_dir: where standard output and error go.
        env: environment variables on top of the run's own.
    """

    def __init__(self, name: str, command: Sequence[str], log_dir: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.command = list(command)
        self.out_file = log_dir / f"{name}.out.log"
        self.err_file = log_dir / f"{name}.err.log"
        with self.out_file.open("wb") as out, self.err_file.open("wb") as err:
            self._guard = subprocess.Popen(  # noqa: S603 - commands come from adapter files and this package
                [sys.executable, "-S", "-E", guard.__file__, *self.command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._guard.poll()

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines the process wrote, on either stream."""
        text = ""
        for file in (self.out_file, self.err_file):
            if file.exists():
                text += COLOURS.sub("", file.read_bytes()[-16384:].decode("utf-8", errors="replace"))
        return "\n".join(line[:400] for line in text.splitlines()[-lines:]) or "(it wrote nothing)"

    def describe(self) -> str:
        """Command, state and last output, for error messages."""
        state = "still runs" if self.status is None else f"exited with status {self.status}"
        return (
            f"{self.name} {state}\n  command: {' '.join(self.command)}\n  last output:\n    "
            + self.log_tail().replace("\n", "\n    ")
        )

    def ready_line(self, within_s: float) -> dict[str, Any]:
        """Wait for the JSON line `{"ready": true, ...}` on standard output; HarnessError when it does not come."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for line in self.out_file.read_text("utf-8", errors="replace").splitlines():
                if line.startswith("{"):
                    with contextlib.suppress(ValueError):
                        found: dict[str, Any] = json.loads(line)
                        if found.get("ready"):
                            return found
            if self.status is not None:
                raise HarnessError(f"did not become ready: {self.describe()}")
            time.sleep(POLL_S)
        raise HarnessError(f"was not ready within {within_s:g} s: {self.describe()}")

    def stop(self) -> None:
        """Stop it and wait; safe to call twice."""
        if self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
        try:
            self._guard.wait(2 * guard.GRACE_S + 1)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait(5)


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on at the moment, below the ephemeral range.

    Whoever uses it must be ready for a conflict.
    """
    for _ in range(200):
        port = random.choice(PORTS)  # noqa: S311 - no secret
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise HarnessError(f"no free port found on {host} between {PORTS.start} and {PORTS.stop}")
