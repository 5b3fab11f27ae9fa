"""A fake worker for tests of the generator, with no gateway before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def worker() -> Iterator[tuple[str, str]]:
    """URL of a fake worker, and of its control port."""
    command = [sys.executable, "-m", "fake_workers.cli", "--engine", "vllm", "--model", "conformance-load"]
    with running(command) as ready:
        yield ready["workers"][0]["url"], ready["control"]
