"""The dialects: how each engine words the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_workers.dialects.sglang import SGLang
from fake_workers.dialects.tokenspeed import TokenSpeed
from fake_workers.dialects.vllm import VLLM

if TYPE_CHECKING:
    from fake_workers.dialects.base import Dialect
    from fake_workers.spec import WorkerSpec

_DIALECTS: dict[str, type[Dialect]] = {"sglang": SGLang, "vllm": VLLM, "tokenspeed": TokenSpeed}


def dialect_of(spec: WorkerSpec) -> Dialect:
    """Return the dialect a worker speaks."""
    return _DIALECTS[spec.engine](spec)
