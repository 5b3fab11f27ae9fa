"""The two gateways the observed cases ran on: an open one with aliases, and one with keys."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_numbers = itertools.count(1)


@dataclass(frozen=True)
class ReplayStack:
    """Where the gateways and the control port listen."""

    ports: dict[str, int]
    control_url: str
    marker: Callable[[], str]


def _marker() -> str:
    """Return a fresh marker, unique across parallel test processes."""
    return f"igc-{os.getpid():08x}{next(_numbers):08x}"


@pytest.fixture(scope="module")
def replay_stack() -> Iterator[ReplayStack]:
    """Start the engines and both gateways."""
    engines = ["--worker", "engine=sglang,model=m-sg,port=0", "--worker", "engine=vllm,model=m-vl,port=0"]
    serve = [
        sys.executable,
        "-m",
        "reference_server",
        "launch",
        "--port",
        "0",
        "--exit-with-parent",
        "--policy",
        "round_robin",
    ]
    serve += ["--prometheus-port", "0", "--disable-retries", "--disable-circuit-breaker"]
    aliases = [word for pair in ("al-vl=m-vl", "al-sg=m-sg", "chain=al-vl") for word in ("--model-alias", pair)]
    keys = ["--api-key", "k1", "--tenant-api-key", "t:k2", "--request-id-headers", "x-my-id", "x-other-id"]
    with running([sys.executable, "-m", "fake_workers.cli", *engines, "--exit-with-parent"]) as fleet:
        urls = ["--worker-urls", *(worker["url"] for worker in fleet["workers"])]
        with running([*serve, *aliases, *urls]) as main, running([*serve, *keys, *urls]) as auth:
            ports = {name: urlsplit(ready["url"]).port or 0 for name, ready in {"main": main, "auth": auth}.items()}
            yield ReplayStack(ports, fleet["control"], _marker)
