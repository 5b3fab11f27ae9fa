"""The extensions of the core contract that a gateway may claim (`features.yaml`)."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from spec.loading import HERE, SpecError, label, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CORE = "core"


@cache
def features(path: Path | None = None) -> Mapping[str, str]:
    """Feature names with one line about each; `core` is always among them.

    Args:
        path: another features file (tests); the package's own when left out.

    Raises:
        SpecError: the file is not a mapping of names to sentences, or `core` is missing.
    """
    source = path or HERE / "features.yaml"
    data = read_yaml(source)
    if not isinstance(data, dict) or not all(isinstance(k, str) and isinstance(v, str) for k, v in data.items()):
        raise SpecError(label(source), "is not a mapping of feature names to sentences", "Write `name: one line` rows")
    if CORE not in data:
        raise SpecError(label(source), f"lacks the feature {CORE!r}", "Add it: it marks what every gateway owes")
    return MappingProxyType(data)
