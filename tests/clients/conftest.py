"""A gateway and its engines as processes of their own, the way a user runs them."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

READY_WITHIN_S = 30.0
GONE_WITHIN_S = 10.0


@dataclass(frozen=True)
class Stack:
    """Addresses of a running gateway and of the engines behind it."""

    base_url: str
    control_url: str
    workers: list[dict[str, str]]


@contextmanager
def running(command: list[str]) -> Iterator[dict[str, Any]]:
    """Run a program of ours and yield the JSON line it prints when it is ready; stop it in the end."""
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
            pytest.fail(f"{command} ended before it was ready: {process.communicate(timeout=GONE_WITHIN_S)[1]}")
        yield json.loads(line)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The reference gateway with retries on and three engines behind it, one of each kind."""
    engines = [
        "--worker",
        "engine=sglang,model=m-sglang,port=0",
        "--worker",
        "engine=vllm,model=m-vllm,port=0",
        "--worker",
        "engine=tokenspeed,model=m-tokenspeed,port=0",
    ]
    with running([sys.executable, "-m", "fake_workers", *engines, "--exit-with-parent"]) as fleet:
        urls = [worker["url"] for worker in fleet["workers"]]
        gateway = ["launch", "--port", "0", "--policy", "round_robin", "--api-key", "k-shared", "--exit-with-parent"]
        with running([sys.executable, "-m", "reference_server", *gateway, "--worker-urls", *urls]) as ready:
            yield Stack(ready["url"], fleet["control"], fleet["workers"])
