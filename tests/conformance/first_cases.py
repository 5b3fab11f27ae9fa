"""A pytest plugin for runs of the suite that go once through every check: it keeps the first case of each function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but the first case of each check."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    _keep(config, items, list(first.values()))


def _keep(config: pytest.Config, items: list[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    ids = {item.nodeid for item in kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
    items[:] = [item for item in items if item.nodeid in ids]
