"""Target adapters: data that says how to run a gateway.

How to install, launch and configure it, and what each of its versions claims (`conformance/targets/<name>.yaml`).

An adapter is data. The suite knows settings by neutral names (`conformance/configurations.yaml`); the adapter turns
them into arguments:

- `"{value}"` in an argument: the setting's value;
- `"{values}"` as a whole argument: one argument per element of the list;
- `"{each}"` in an argument: the whole argument list is repeated per element;
- `"{file}"` as a whole argument: the path of a YAML file that holds the value;
- no placeholder: the arguments are added when the value is true.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.harness.errors import UserError

FOLDER = Path(__file__).parent


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claims(_Model):
    """What a version of a gateway claims to be: the contract revision it follows and the features it has."""

    revision: str = "1.13"
    features: list[str] = Field(default_factory=lambda: ["core"])
    transports: list[Literal["http", "grpc"]] = Field(default_factory=lambda: ["http"])  # type: ignore[arg-type]  # a literal list
    without_settings: list[str] = Field(default_factory=list)


class Version(Claims):
    """Claims of the versions that match the glob `match`; the first match counts."""

    match: str = "*"


class Install(_Model):
    """Requirements for pip, `{version}` filled in, installed into an environment of their own."""

    pip: list[str]


class Launch(_Model):
    """How a gateway starts: command, arguments always given, settings → arguments, and how to know that it is ready."""

    command: list[str]
    program_words: int = Field(default=1, ge=1)  # so many words of `command` an existing installation stands in for
    always: list[str] = Field(default_factory=list)
    settings: dict[str, list[str]] = Field(default_factory=dict)
    ready: Literal["line", "http"] = "http"
    env: dict[str, str] = Field(default_factory=dict)
    within_s: float = 60.0


class Adapter(_Model):
    """One gateway the suite can launch."""

    name: str
    about: str
    default_version: str | None = None
    install: Install | None = None
    launch: Launch
    versions: list[Version]


@dataclass(frozen=True)
class Target:
    """A gateway of one version, ready to be launched or (without an adapter) already running."""

    name: str
    version: str | None
    claims: Claims
    adapter: Adapter | None = None

    @property
    def label(self) -> str:
        """`name@version` for people and files."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def lacks(self, settings: dict[str, Any]) -> list[str]:
        """Settings of a configuration that this target cannot be given."""
        if self.adapter is None:
            return []
        known = set(self.adapter.launch.settings) - set(self.claims.without_settings)
        return sorted(name for name, value in settings.items() if value is not False and name not in known)


def names() -> list[str]:
    """The gateways that have an adapter."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load(spec: str) -> Target:
    """The target that `--gateway NAME[@VERSION]` means; UserError when there is none."""
    name, _, version = spec.partition("@")
    file = FOLDER / f"{name}.yaml"
    if not re.fullmatch(r"[a-z0-9-]+", name) or not file.exists():
        raise UserError(
            f"--gateway {spec}: no adapter for {name!r}; there are: {', '.join(names())} (conformance/targets/)"
        )
    try:
        adapter = Adapter(**yaml.safe_load(file.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError, TypeError) as problem:
        raise UserError(f"{file}: not a target adapter: {problem}") from problem
    chosen = version or adapter.default_version
    if chosen is None:
        return Target(name, None, _claims(adapter, ""), adapter)
    if version and adapter.install is None and adapter.default_version is None:
        raise UserError(f"--gateway {spec}: {name} has no versions to choose from; write --gateway {name}")
    return Target(name, chosen, _claims(adapter, chosen), adapter)


def _claims(adapter: Adapter, version: str) -> Claims:
    for row in adapter.versions:
        if fnmatch.fnmatch(version, row.match):
            return row
    file = f"conformance/targets/{adapter.name}.yaml"
    raise UserError(f"{adapter.name} {version}: {file} says nothing of this version; add it under `versions`")


def arguments(launch: Launch, settings: dict[str, Any], folder: Path | None = None) -> list[str]:
    """The command-line arguments for `settings` (names the launch does not know are the caller's business).

    Files for settings that go by a file are written into `folder`.
    """
    made: list[str] = []
    for name, value in settings.items():
        template = launch.settings.get(name)
        if template is None or value is False or value is None or value == []:
            continue
        if any("{each}" in part for part in template):
            made += [part.replace("{each}", str(each)) for each in value for part in template]
            continue
        for part in template:
            if part == "{values}":
                made += [str(element) for element in value]
            elif part == "{file}" and folder is not None:
                made.append(str(_written(name, value, folder)))
            else:
                made.append(part.replace("{value}", str(value)))
    return made


def _written(name: str, value: Any, folder: Path) -> Path:
    """A new YAML file that holds the value; several configurations of a run have the setting, each its own file."""
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=f"{name}-", suffix=".yaml", delete=False) as file:
        yaml.safe_dump(value, file, sort_keys=False)
    return Path(file.name)


def command_override(target: Target) -> list[str] | None:
    """An existing installation named by the environment.

    CONFORMANCE_COMMAND_<NAME>[_<VERSION>], e.g. CONFORMANCE_COMMAND_SMG_1_12_0.
    """
    base = "CONFORMANCE_COMMAND_" + re.sub(r"\W", "_", target.name).upper()
    keys = [f"{base}_{re.sub(r'[^A-Za-z0-9]', '_', target.version).upper()}"] if target.version else []
    for key in [*keys, base]:
        if os.environ.get(key):
            return shlex.split(os.environ[key])
    return None
