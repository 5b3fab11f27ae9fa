"""One configuration made real.

A fleet of fake workers, a gateway in front of them, and the proof that requests get through.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from conformance.harness import bodies
from conformance.harness.client import Live
from conformance.harness.errors import Disproved, FleetError, HarnessError, TargetError
from conformance.harness.processes import Process, free_port
from conformance.harness.worker import new_marker
from conformance.targets.adapter import arguments, command_override
from conformance.targets.install import installed
from fake_workers.control import Control
from fake_workers.script import Reply, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from conformance.harness.configurations import Configuration
    from conformance.harness.exchange import Exchange
    from conformance.targets.adapter import Target

HOST = "127.0.0.1"
FLEET_BOUND_S = 60.0
ROUTES_BOUND_S = 30.0
LAUNCH_TRIES = 3
RUN_FLEET = "import sys; from fake_workers.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class WorkerAt:
    """A fake worker and the URL under which the gateway knows it."""

    name: str
    engine: str
    model: str
    url: str


@dataclass(frozen=True)
class Environment:
    """Addresses and facts of a configuration that is up; plain data, so that it travels to other processes.

    `default_key` is what requests carry unless a check says otherwise, on admin routes `admin_key` if there is one.
    `problem` is set instead when it could not be brought up; every check that needs it is a harness error then.
    `turn` names the lock file of a configuration that one check at a time has to itself.
    """

    configuration: str
    gateway_url: str = ""
    control_url: str = ""
    workers: list[WorkerAt] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    default_key: str | None = None
    admin_key: str | None = None
    features: list[str] = field(default_factory=list)
    turn: str = ""
    problem: str = ""

    def to_plain(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Environment:
        """Read what `to_plain` wrote."""
        return cls(**{**plain, "workers": [WorkerAt(**worker) for worker in plain["workers"]]})


@dataclass
class Running:
    """An environment and the processes behind it."""

    environment: Environment
    processes: list[Process] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)  # before the processes stop

    def stop(self) -> None:
        """Undo what was done to a running gateway, then stop processes, gateway first."""
        while self.undo:
            with contextlib.suppress(HarnessError):
                self.undo.pop()()
        for process in reversed(self.processes):
            process.stop()


def start_fleet(
    configuration: Configuration, log_dir: Path, *, host: str = HOST, ports: Sequence[int] = ()
) -> tuple[Process, str, list[WorkerAt]]:
    """Start the fake workers of a configuration; FleetError when they do not come up."""
    command = [sys.executable, "-c", RUN_FLEET, "--host", host]
    for worker, port in zip(configuration.workers, ports or [0] * len(configuration.workers), strict=True):
        options = "".join(f",{key}={value}" for key, value in worker.options.items())
        command += ["--worker", f"name={worker.name},engine={worker.engine},model={worker.model},port={port}{options}"]
    process = Process(f"workers-{configuration.name}", command, log_dir)
    try:
        ready = process.ready_line(FLEET_BOUND_S)
    except HarnessError as problem:
        process.stop()
        raise FleetError(f"the fake workers of configuration {configuration.name!r} {problem}") from None
    found = [
        WorkerAt(**{key: worker[key] for key in ("name", "engine", "model", "url")}) for worker in ready["workers"]
    ]
    return process, ready["control"], found


def launch(target: Target, configuration: Configuration, log_dir: Path) -> Running:
    """Bring up one configuration of a gateway that has an adapter.

    TargetError or FleetError with the last log lines otherwise.
    """
    running = Running(Environment(configuration.name))
    try:
        fleet, control_url, workers = start_fleet(configuration, log_dir)
        running.processes.append(fleet)
        known = {"workers": [worker.url for worker in workers]} if configuration.registered else {}
        settings = {**known, **configuration.settings}
        gateway, url = start_gateway(target, configuration.name, settings, log_dir)
        running.processes.append(gateway)
        running.environment = Environment(
            configuration=configuration.name,
            gateway_url=url,
            control_url=control_url,
            workers=workers,
            aliases=configuration.aliases,
            keys=configuration.keys,
            default_key=configuration.keys.get(configuration.default_key or ""),
            features=target.claims.features,
        )
        try:
            if configuration.registered:
                asyncio.run(until_routed(running.environment))
        except HarnessError as problem:
            raise TargetError(f"{problem}\n{gateway.describe()}") from None
    except BaseException:
        running.stop()
        raise
    return running


def start_gateway(target: Target, configuration: str, settings: dict[str, Any], log_dir: Path) -> tuple[Process, str]:
    """Start the gateway process; returns it and its base URL. Another port is tried when somebody took the first."""
    if target.adapter is None:
        raise TargetError(f"{target.name} has no adapter, so it cannot be launched")
    start = target.adapter.launch
    override = command_override(target)
    bin_dir = "" if override or target.adapter.install is None else str(installed(target) / "bin")
    name = f"{target.name}-{configuration}"
    problem = ""
    for _ in range(LAUNCH_TRIES):
        words = {
            "{host}": HOST,
            "{port}": str(free_port()),
            "{port2}": str(free_port()),
            "{bin}": bin_dir,
            "{python}": sys.executable,
        }
        command = [
            *(override + start.command[start.program_words :] if override else start.command),
            *start.always,
            *arguments(start, settings, log_dir),
        ]
        for word, value in words.items():
            command = [part.replace(word, value) for part in command]
        process = Process(name, command, log_dir, env=start.env)
        try:
            if start.ready == "line":
                return process, str(process.ready_line(start.within_s)["url"])
            url = f"http://{HOST}:{words['{port}']}"
            _until_http(process, url, start.within_s)
        except HarnessError as failed:
            problem = str(failed)
            process.stop()
            if "in use" not in problem.lower():
                break
        else:
            return process, url
    raise TargetError(f"the gateway {target.label} (configuration {configuration!r}) {problem}")


def _until_http(process: Process, url: str, within_s: float) -> None:
    """Wait until something answers HTTP there."""

    async def answers() -> bool:
        exchange = await once(url, "GET", "/health")
        return exchange is not None and exchange.status is not None

    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.status is not None:
            raise HarnessError(f"did not start: {process.describe()}")
        if asyncio.run(answers()):
            return
        time.sleep(0.05)
    raise HarnessError(f"did not answer HTTP within {within_s:g} s: {process.describe()}")


async def once(
    url: str,
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    key: str | None = None,
    within_s: float = 5.0,
) -> Exchange | None:
    """One request outside of any check; None when nobody listens."""
    parts = urlsplit(url)
    host, port = parts.hostname or HOST, parts.port or 80
    headers: list[tuple[str, str | None]] = [("authorization", f"Bearer {key}")] if key else []
    pieces = bodies.request(method, parts.path + path, body, headers, host=f"{host}:{port}")
    with contextlib.suppress(TargetError):
        async with Live((host, port), pieces, method=method, target=path, within_s=within_s) as live:
            return await live.rest()
    return None


async def until_routed(environment: Environment, within_s: float = ROUTES_BOUND_S) -> None:
    """Wait until a chat request for every model (and alias) reaches the worker it belongs to.

    TargetError when one does not.
    """
    control = Control(environment.control_url)
    deadline = time.monotonic() + within_s
    owner = {worker.model: worker.name for worker in environment.workers}
    wanted = {**owner, **{alias: owner[model] for alias, model in environment.aliases.items()}}
    try:
        while True:
            problems = [
                problem
                for model, worker in wanted.items()
                if (problem := await _routed(environment, control, model, worker))
            ]
            if not problems:
                return
            if time.monotonic() > deadline:
                raise TargetError(f"after {within_s:g} s the gateway does not route: " + "; ".join(problems))
            await asyncio.sleep(0.1)
    finally:
        await control.aclose()


async def _routed(environment: Environment, control: Control, model: str, worker: str) -> str:
    """Empty when a chat request for the model is answered by that worker, else what happened instead."""
    marker = new_marker()
    await control.put_script(marker, Script(answers=[Reply()]))
    body = bodies.body_for("/v1/chat/completions", model, f"Is anybody there? {marker}", {})
    try:
        exchange = await once(
            environment.gateway_url, "POST", "/v1/chat/completions", body, key=environment.default_key
        )
        if exchange is None:
            return f"{model}: connection refused"
        if not exchange.succeeded:
            return f"{model}: {exchange.brief()}"
        seen = [entry.worker for entry in await control.entries(marker, at_least=1, within_s=1.0)]
    except Disproved as problem:
        return f"{model}: {problem}"
    else:
        expected = f"expected [{worker!r}]"
        return (
            ""
            if seen == [worker]
            else f"{model}: answered with success, but the workers that saw it are {seen}, {expected}"
        )
    finally:
        await control.forget(marker)
