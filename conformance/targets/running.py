"""Gateways that already run (`--target`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.harness.errors import TargetError

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.harness.configurations import Configuration
    from conformance.harness.environment import Running
    from conformance.options import Options


def attach(options: Options, configuration: Configuration, url: str, log_dir: Path) -> Running:
    """Put fake workers behind a running gateway."""
    raise TargetError(f"--target {configuration.name}={url}: not built yet ({options.advertise}, {log_dir})")
