"""The runner's end of a hive: fake workers a configuration, and mutants opened in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from conformance.harness.configurations import configuration
from conformance.harness.environment import Environment, start_fleet
from conformance.harness.errors import HarnessError
from conformance.targets.adapter import arguments, load
from fake_workers.control import Control

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from conformance.harness.environment import WorkerAt
    from conformance.harness.processes import Process

# What a gateway knows of its workers' state is its own there, and so are the workers, whose state checks change.
# Exclusive configurations (slots, queues, classes, budgets) need no name here: each check gets a fresh gateway there.
OWN_WORKERS = frozenset({"outage", "unhealthy", "health", "breaker", "overload", "overload-default"})
OWN_GATEWAY = OWN_WORKERS | {"registry", "retries", "retries-replicas", "replicas", "empty"}
ANSWER_BOUND_S = 120.0


class Gateways:
    """One hive and its fleets; `async with` starts and stops both."""

    def __init__(self) -> None:
        self._target = load("reference")
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._fleets: dict[str, asyncio.Future[tuple[Process, str, list[WorkerAt]]]] = {}
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._hive: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._controls: dict[str, Control] = {}

    async def __aenter__(self) -> Self:
        log = (self._folder / "hive.log").open("wb")
        self._hive = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.mutants.hive",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, limit=1 << 22,
        )  # fmt: skip
        log.close()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._hive is not None and self._hive.stdin is not None:
            self._hive.stdin.close()
            try:
                await asyncio.wait_for(self._hive.wait(), 12)
            except TimeoutError:
                self._hive.kill()
                await self._hive.wait()
        for control in self._controls.values():
            await control.aclose()
        for fleet in self._fleets.values():
            if fleet.done() and not fleet.cancelled() and not fleet.exception():
                await asyncio.to_thread(fleet.result()[0].stop)
        shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def open(self, name: str, what: dict[str, Any]) -> AsyncIterator[tuple[Environment, Control]]:
        """A gateway in a configuration: `what` says which mutant (see `tests.mutants.hive`), empty for none.

        Raises:
            HarnessError: it cannot be opened.
        """
        chosen = configuration(name)
        key = f"{name}-{next(self._ids)}" if name in OWN_WORKERS else name
        process, control_url, workers = await self._fleet(key, name)
        start = self._target.adapter.launch if self._target.adapter else None
        assert start is not None
        known = {"workers": [worker.url for worker in workers]} if chosen.registered else {}
        always = ["launch", "--port", "0", "--prometheus-port", "0"]
        question = {
            "base": key,
            "own": name in OWN_GATEWAY or chosen.exclusive,
            "arguments": [*always, *arguments(start, {**known, **chosen.settings}, self._folder)],
            **what,
        }
        answer = await self._ask({"open": question})
        environment = Environment(
            configuration=name,
            gateway_url=answer["url"],
            control_url=control_url,
            workers=workers,
            aliases=chosen.aliases,
            keys=chosen.keys,
            default_key=chosen.keys.get(chosen.default_key or ""),
            features=self._target.claims.features,
        )
        control = self._controls.setdefault(control_url, Control(control_url))
        try:
            yield environment, control
        finally:
            with contextlib.suppress(HarnessError):
                await self._ask({"close": answer["handle"]})
            if key != name:
                await self._controls.pop(control_url).aclose()
                del self._fleets[key]
                await asyncio.to_thread(process.stop)

    async def _fleet(self, key: str, name: str) -> tuple[Process, str, list[WorkerAt]]:
        """The fake workers of a key, started when it is first asked for."""
        if key not in self._fleets:
            chosen = configuration(name).model_copy(update={"name": key})
            self._fleets[key] = asyncio.ensure_future(asyncio.to_thread(start_fleet, chosen, self._folder))
        return await asyncio.shield(self._fleets[key])

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """A question to the hive."""
        assert self._hive is not None
        assert self._hive.stdin is not None
        number = next(self._ids)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._hive.stdin.write(json.dumps({"id": number, **question}).encode() + b"\n")
        try:
            answer: dict[str, Any] = await asyncio.wait_for(waiting, ANSWER_BOUND_S)
        except TimeoutError:
            raise HarnessError(f"the hive did not answer: {self._log()}") from None
        finally:
            self._waiting.pop(number, None)
        if "problem" in answer:
            raise HarnessError(f"the hive could not do {question}: {answer['problem']}")
        return answer

    async def _read(self) -> None:
        """Hand each answer to whoever waits for it."""
        assert self._hive is not None
        assert self._hive.stdout is not None
        while line := await self._hive.stdout.readline():
            answer = json.loads(line)
            if waiting := self._waiting.get(answer["id"]):
                waiting.set_result(answer)
        for each in self._waiting.values():
            if not each.done():
                each.set_result({"problem": f"the hive has ended: {self._log()}"})

    def _log(self) -> str:
        file = self._folder / "hive.log"
        return file.read_text("utf-8", errors="replace")[-1000:] if file.exists() else ""
