"""Configurations: named, gateway-neutral settings that clauses need (`conformance/configurations.yaml`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.harness.errors import UserError

FILE = Path(__file__).parent.parent / "configurations.yaml"


class WorkerPlan(BaseModel):
    """One fake worker of a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    engine: str
    model: str
    options: dict[str, str] = Field(default_factory=dict)  # further words of a fake worker's description


class Configuration(BaseModel):
    """A named set of settings. `settings` are known to target adapters; `keys` are what callers may present.

    With `registered` false the workers run, but the gateway is not told of them. With `exclusive` one check at a time
    has the gateway: what it is about (slots, queues, loads) is the whole gateway's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    by_hand: str
    settings: dict[str, Any] = Field(default_factory=dict)
    workers: list[WorkerPlan] = Field(default_factory=list)
    registered: bool = True
    exclusive: bool = False
    keys: dict[str, str] = Field(default_factory=dict)
    default_key: str | None = None

    @property
    def aliases(self) -> dict[str, str]:
        """Alias → model."""
        return dict(alias.split("=", 1) for alias in self.settings.get("aliases", []))


@cache
def configurations(file: Path = FILE) -> dict[str, Configuration]:
    """Every configuration by name; UserError when the file is broken."""
    try:
        rows = yaml.safe_load(file.read_text("utf-8"))
        return {name: Configuration(name=name, **row) for name, row in rows.items()}
    except (OSError, yaml.YAMLError, ValidationError, TypeError, AttributeError) as problem:
        raise UserError(f"{file}: not a file of configurations: {problem}") from problem


def configuration(name: str) -> Configuration:
    """One configuration; UserError that names the known ones."""
    known = configurations()
    if name not in known:
        raise UserError(f"no configuration {name!r}; known are {', '.join(known)} (conformance/configurations.yaml)")
    return known[name]
