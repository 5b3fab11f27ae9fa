"""A process full of gateways: `python -m tests.mutants.hive` opens and closes mutants as told on its standard input.

One JSON object a line each way. Questions carry an `id` that the answer repeats:
`{"id": 1, "open": {"base": "default", "own": false, "arguments": [...], "named": "drops_n"}}` → `{"id": 1, "handle": 7,
"url": "http://127.0.0.1:…"}`, `{"id": 2, "close": 7}` → `{"id": 2}`. A mutant is named, or automatic (`"models"`: a
generated module, `"schema"`: the request model in it, `"endpoint"`), or none: the reference server itself.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_server.errors import ParseRefusal
from tests.mutants import automatic, hosting, models, named
from tests.mutants.vice import Vice, install

if TYPE_CHECKING:
    from reference_server.call import Call
    from reference_server.endpoints import Endpoint
    from reference_server.stages.parse import ParsedRequest


class Hive:
    """What is open."""

    def __init__(self) -> None:
        self._bases: dict[str, asyncio.Future[hosting.Base]] = {}
        self._open: dict[int, tuple[hosting.Listening, hosting.Base | None]] = {}
        self._next = 0
        # Before the first gateway is made: some of what it holds on to are the functions themselves.
        for mutant in named.mutants().values():
            install(mutant.vice)

    async def open(self, question: dict[str, Any]) -> dict[str, Any]:
        """Open a gateway; bases without a state of their own are shared by all mutants of a configuration."""
        vice = _vice(question)
        settings = hosting.settings_of(question["arguments"])
        own = question["own"] or (vice is not None and vice.settings is not None)
        if own:
            base = await asyncio.create_task(hosting.base(settings, vice))
        else:
            name = question["base"]
            if name not in self._bases:
                self._bases[name] = asyncio.ensure_future(hosting.base(settings))
            base = await self._bases[name]
        listening = await hosting.listen(base, vice)
        self._next += 1
        self._open[self._next] = (listening, base if own else None)
        return {"handle": self._next, "url": listening.url}

    async def close(self, handle: int) -> dict[str, Any]:
        """Close a gateway."""
        listening, base = self._open.pop(handle)
        await listening.stop()
        if base is not None:
            await base.stop()
        return {}

    async def stop(self) -> None:
        """Close everything."""
        await asyncio.gather(*(self.close(handle) for handle in list(self._open)), return_exceptions=True)
        for base in self._bases.values():
            await (await base).stop()

    async def answer(self, line: bytes) -> None:
        """One question."""
        question = json.loads(line)
        try:
            found = await (self.open(question["open"]) if "open" in question else self.close(question["close"]))
        except Exception as problem:  # noqa: BLE001 - told to whoever asked, who decides
            found = {"problem": f"{type(problem).__name__}: {problem}"}
        sys.stdout.write(json.dumps({"id": question["id"], **found}) + "\n")
        sys.stdout.flush()


def _vice(question: dict[str, Any]) -> Vice | None:
    if name := question.get("named"):
        return named.mutants()[name].vice
    if file := question.get("models"):
        return _by_models(Path(file), question)
    return None


def _by_models(file: Path, question: dict[str, Any]) -> Vice:
    """The vice of judging the bodies of one endpoint by other models.

    What the server checks by hand, because models cannot say it, is switched off where the document no longer says it.
    """
    model = models.load(file, question["schema"])
    strict = automatic.mutants()[question["strict"]].validator() if question.get("strict") else None

    async def parse(original: Any, this: Call, endpoint: Endpoint) -> ParsedRequest:
        if endpoint.schema != question["schema"]:
            found: ParsedRequest = await original(this, endpoint)
            return found
        request: ParsedRequest = await original(this, dataclasses.replace(endpoint, model=model))
        request.endpoint = endpoint
        if strict is not None and not strict.is_valid(request.body):
            raise ParseRefusal("not what the broken document allows")
        return request

    made = {"reference_server.pipeline:parse": parse}
    for target in question.get("by_hand", ()):
        made[target] = lambda _original, *_arguments: []  # type: ignore[assignment]  # nothing is wrong
    return Vice(made)


async def main() -> None:
    """Answer until standard input ends."""
    logging.disable(logging.CRITICAL)  # vices are not worth a log
    hive = Hive()
    reader = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while line := await reader.readline():
            task = asyncio.create_task(hive.answer(line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        await asyncio.wait_for(hive.stop(), 10)


if __name__ == "__main__":
    asyncio.run(main())
