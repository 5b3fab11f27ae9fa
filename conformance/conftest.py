"""Loads the suite's plugin for `pytest conformance`; with `--pyargs`, give `-p conformance.plugin` instead."""

from __future__ import annotations

pytest_plugins = ["conformance.plugin"]
