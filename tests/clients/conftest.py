"""A gateway and its engines as processes of their own, the way a user runs them."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Stack:
    """Addresses of a running gateway and of the engines behind it."""

    base_url: str
    control_url: str
    workers: list[dict[str, str]]


@contextlib.contextmanager
def stacked(*flags: str) -> Iterator[Stack]:
    """A reference gateway with retries on and these flags, and three engines behind it, one of each kind."""
    engines = [
        "--worker",
        "engine=sglang,model=m-sglang,port=0",
        "--worker",
        "engine=vllm,model=m-vllm,port=0",
        "--worker",
        "engine=tokenspeed,model=m-tokenspeed,port=0",
    ]
    with running([sys.executable, "-m", "fake_workers.cli", *engines, "--exit-with-parent"]) as fleet:
        urls = [worker["url"] for worker in fleet["workers"]]
        gateway = [
            "launch",
            "--port",
            "0",
            "--prometheus-port",
            "0",
            "--policy",
            "round_robin",
            "--api-key",
            "k-shared",
            "--exit-with-parent",
            *flags,
        ]
        with running([sys.executable, "-m", "reference_server.cli", *gateway, "--worker-urls", *urls]) as ready:
            yield Stack(ready["url"], fleet["control"], fleet["workers"])


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The reference gateway with retries on and three engines behind it, one of each kind."""
    with stacked() as found:
        yield found


@pytest.fixture(scope="module")
def pinging_stack() -> Iterator[Stack]:
    """The same with a keepalive after each second of silence."""
    with stacked("--sse-keepalive-secs", "1") as found:
        yield found
