"""What a check says about itself: which clauses it judges, behind which engines, in which configuration.

The marks are plain pytest marks, so a parametrised case can carry its own (`pytest.param(case,
marks=clause_mark(case.clause_id))`).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark.structures import MarkDecorator, ParameterSet

F = TypeVar("F", bound="Callable[..., Any]")

DEFAULT_ENGINE = "vllm"


def clause(*ids: str) -> Callable[[F], F]:
    """The clauses a check judges; at least one. Its configuration and applicability come from their rows."""
    if not ids:
        raise ValueError("clause() needs at least one clause id")

    def mark(check: F) -> F:
        marked: F = pytest.mark.clause(*ids)(check)
        # Explicit, so that checks also run where pytest-asyncio is in strict mode (an installed package, --pyargs).
        if inspect.iscoroutinefunction(check):
            marked = pytest.mark.asyncio(marked)
        return marked

    return mark


def clause_mark(*ids: str) -> MarkDecorator:
    """The same as a mark for `pytest.param(..., marks=...)`."""
    return pytest.mark.clause(*ids)


def case(clause_id: str, *values: Any, name: str = "", configuration: str = "") -> ParameterSet:
    """One case of a parametrised check, which judges this clause. `name` ends its node id; without it the values do.

    With a `configuration` the case runs in that one, whatever the clause's row says.
    """
    marks = [clause_mark(clause_id), *([configured(configuration)] if configuration else [])]
    return pytest.param(*values, id=name or None, marks=marks)


def engines(*names: str) -> MarkDecorator:
    """Run the check once per engine (`sglang`, `vllm`, `tokenspeed`) behind the gateway; without it: vllm only."""
    return pytest.mark.parametrize("engine", names, indirect=True)


def configured(name: str) -> MarkDecorator:
    """Run the check in this configuration, whatever the rows of its clauses say."""
    return pytest.mark.configured(name)
