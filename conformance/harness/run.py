"""One run in one process: the plan, the environments, and who started them."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness.broker import Broker, Server
from conformance.harness.configurations import configuration, configurations
from conformance.harness.environment import Environment, Running, launch
from conformance.harness.errors import HarnessError, UserError
from conformance.harness.planning import Planned, plan, selected
from conformance.reports.evidence import Redactor
from conformance.targets import running as running_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.harness.worker import Proof
    from conformance.options import Options

RUN = pytest.StashKey["Run"]()
PLANNED = pytest.StashKey[Planned]()
STARTS_AT_ONCE = 2


class Run:
    """State of a run. In an xdist worker `broker` speaks to the controlling process, which owns every environment.

    Attributes:
        options: what the user asked for.
        planned: every selected check by node id, also those that do not apply.
        environments: by configuration, once `bring_up` is done.
        proofs: what `Gateway.proof` has established in this process.
        deviations: what the target declares.
        redactor: takes keys out of everything that is shown.
        whole_clauses: whether every check of a selected clause is in the plan, so that a deviation can be stale.
    """

    def __init__(self, options: Options, broker: Broker | None = None) -> None:
        self.options = options
        self.broker = broker
        self.planned: dict[str, Planned] = {}
        self.environments: dict[str, Environment] = {}
        self.proofs: dict[str, Proof] = {}
        self.started_at = time.time()
        self.deviations = options.deviations
        keys = [key for each in configurations().values() for key in each.keys.values()]
        self.redactor = Redactor([*keys, *filter(None, (options.api_key, options.admin_key))])
        self.whole_clauses = True
        self._running: list[Running] = []
        self._server: Server | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._log_dir: Path | None = None
        self._say: Any = None

    # -- plan

    def select(self, items: list[pytest.Item]) -> None:
        """Plan the checks among the collected items, and leave in `items` those to be run.

        Other tests are not touched.
        """
        kept = []
        for item in items:
            if not _is_check(item):
                kept.append(item)
                continue
            if not selected(item, self.options.clauses):
                continue
            planned = plan(item, self.options.target, self.options.available, keyed=self.options.api_key is not None)
            self.planned[item.nodeid] = item.stash[PLANNED] = planned
            if not planned.not_applicable:
                kept.append(item)
        items[:] = kept

    # -- environments

    def bring_up(self, config: pytest.Config, selected_ids: set[str]) -> None:
        """Have every environment of the plan running; a failure is kept as the environment's `problem`.

        Checks that pytest itself deselected (`-k`, node ids) leave the plan first.
        """
        self.planned = {
            nodeid: each for nodeid, each in self.planned.items() if each.not_applicable or nodeid in selected_ids
        }
        runnable = [each for each in self.planned.values() if not each.not_applicable and not each.problem]
        needed = sorted({each.configuration for each in runnable})
        if self.broker is not None:
            self.environments = self.broker.environments([each.to_plain() for each in self.planned.values()], needed)
        elif needed:
            self._speak_to(config)
            self.provide(needed)

    def provide(self, needed: Sequence[str]) -> dict[str, Environment]:
        """The environments of these configurations, started now unless they run; in the controlling process only."""
        with self._lock:
            missing = [name for name in needed if name not in self.environments and not self._closed]
            if missing:
                self._log_dir = logs = self._log_dir or Path(tempfile.mkdtemp(prefix="conformance-"))
                with ThreadPoolExecutor(STARTS_AT_ONCE) as pool:
                    for environment in pool.map(lambda name: self._start(name, logs), missing):
                        self.environments[environment.configuration] = environment
            return {name: self.environments[name] for name in needed if name in self.environments}

    def _start(self, name: str, log_dir: Path) -> Environment:
        began = time.monotonic()
        try:
            if url := self.options.running.get(name):
                running = running_targets.attach(self.options, configuration(name), url, log_dir)
            else:
                running = launch(self.options.target, configuration(name), log_dir)
        except (HarnessError, UserError, OSError) as problem:
            self.say(f"conformance: {self.options.target.label} ({name}) is not available: {problem}")
            return Environment(name, problem=str(problem) or repr(problem))
        if configuration(name).exclusive:
            running.environment = replace(running.environment, turn=str(log_dir / f"{name}.turn"))
        self._running.append(running)
        took = time.monotonic() - began
        url = running.environment.gateway_url
        self.say(f"conformance: {self.options.target.label} ({name}) ready at {url} in {took:.1f} s")
        return running.environment

    def _speak_to(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._say = reporter.write_line if reporter else None

    def say(self, line: str) -> None:
        """Show progress, where there is a terminal."""
        if self._say is not None:
            self._say(line)

    # -- xdist

    def serve(self, config: pytest.Config) -> str:
        """Address at which xdist workers ask this process for environments."""
        if self._server is None:
            self._speak_to(config)
            self._server = Server(self)
        return self._server.address

    def casualties(self) -> list[str]:
        """What is said of every process of this run that ended before it was stopped, its last output included."""
        return [
            self.redactor.text(process.describe())
            for running in self._running
            for process in running.processes
            if process.status is not None
        ]

    def close(self) -> None:
        """Stop everything this process started."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Running.stop, self._running))
        self._running.clear()
        if self._log_dir is not None:
            shutil.rmtree(self._log_dir, ignore_errors=True)


def _is_check(item: pytest.Item) -> bool:
    return item.get_closest_marker("clause") is not None or "/checks/" in item.nodeid.partition("::")[0]
