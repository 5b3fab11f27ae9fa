"""A fleet: several workers, one script book, one journal, one control port, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from fake_workers.book import ScriptBook
from fake_workers.control_port import ControlPort
from fake_workers.errors import SpecError
from fake_workers.journal import Journal
from fake_workers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from fake_workers.spec import WorkerSpec


class Fleet:
    """Workers that share a book and a journal.

    ``async with Fleet([WorkerSpec(engine="vllm", model="m")]) as fleet`` starts them; ``fleet.urls`` are their
    addresses, ``fleet.control_url`` that of the control port. Belongs to the event loop that started it.
    """

    def __init__(self, specs: Sequence[WorkerSpec], *, host: str = "127.0.0.1", control_port: int = 0) -> None:
        """Describe the fleet; nothing is bound before :meth:`start`."""
        self.book = ScriptBook()
        self.journal = Journal()
        self.workers: dict[str, Worker] = {}
        for number, spec in enumerate(specs):
            name = spec.name or f"w{number}"
            if name in self.workers:
                raise SpecError(f"two workers are called {name!r}; give each its own name")
            self.workers[name] = Worker(spec, name, host=host, book=self.book, journal=self.journal)
        self._control = ControlPort(self, host, control_port)

    @property
    def urls(self) -> list[str]:
        """Base URLs of the workers, in the order of their specs."""
        return [worker.url for worker in self.workers.values()]

    @property
    def control_url(self) -> str:
        """Base URL of the control port."""
        return self._control.url

    def describe(self) -> dict[str, Any]:
        """Return what the ready line says."""
        return {
            "ready": True,
            "control": self.control_url,
            "workers": [
                {"name": name, "engine": worker.spec.engine, "model": worker.spec.model, "url": worker.url}
                for name, worker in self.workers.items()
            ],
        }

    async def start(self) -> None:
        """Start everything; on an error nothing is left listening."""
        try:
            for worker in self.workers.values():
                await worker.start()
            await self._control.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop everything; connections are dropped."""
        await self._control.stop()
        for worker in self.workers.values():
            await worker.stop()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()
