"""The named mutants, from all modules of `tests/mutants/vices/`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from tests.mutants import vices
from tests.mutants.vice import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mutants.vice import Mutant


@cache
def mutants() -> Mapping[str, Mutant]:
    """Every named mutant by name."""
    for module in pkgutil.iter_modules(vices.__path__):
        importlib.import_module(f"{vices.__name__}.{module.name}")
    return REGISTRY
