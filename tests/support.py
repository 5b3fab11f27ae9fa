"""What several test rooms need: programs of ours as processes, the way a user runs them."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_WITHIN_S = 30.0
GONE_WITHIN_S = 10.0


@contextmanager
def running(command: list[str]) -> Iterator[dict[str, Any]]:
    """Run a program of ours and yield the JSON line it prints when it is ready; stop it in the end."""
    with started(command) as (_, ready):
        yield ready


@contextmanager
def started(command: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The same for who must look at the process: its id, and the line."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None

    def read() -> None:
        assert process.stdout is not None
        lines.put(process.stdout.readline())

    threading.Thread(target=read, daemon=True).start()
    try:
        line = lines.get(timeout=READY_WITHIN_S)
        if not line:
            raise AssertionError(
                f"{command} ended before it was ready: {process.communicate(timeout=GONE_WITHIN_S)[1]}"
            )
        yield process.pid, json.loads(line)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
