"""What one running server knows: its settings, its workers, who is inside, and whether it is leaving."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from reference_server.admission.build import build
from reference_server.metrics import Metrics
from reference_server.tenants.limiter import TenantLimiter

if TYPE_CHECKING:
    from reference_server.settings import Settings
    from reference_server.stages.admit import Admission
    from reference_server.workers.exchange import ModelCard, Readiness, UpstreamRequest
    from reference_server.workers.response import UpstreamResponse


class Workers(Protocol):
    """What the front needs of the workers; `reference_server.workers.fleet.Fleet` is the one that runs."""

    def models(self) -> list[ModelCard]:
        """The served models, each once, in a stable order."""
        ...

    def readiness(self) -> Readiness:
        """How many workers there are, and how many take requests."""
        ...

    def require(self, model: str) -> None:
        """Raise what `dispatch` would raise at once for lack of a worker: 404, or 503."""
        ...

    async def dispatch(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request to a worker that serves its model."""
        ...


class ServerState:
    """One server's memory. `draining` is set when it was asked to stop and open requests are being finished."""

    def __init__(
        self,
        settings: Settings,
        workers: Workers,
        admission: Admission | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self.workers = workers
        self.metrics = metrics or Metrics()
        limits = settings.tenant_rate_limits
        self.tenant_limits = None if limits is None else TenantLimiter(limits)
        self.admission: Admission = admission or build(settings.admission, self.metrics.registry)
        self.draining = False
        self._open: set[asyncio.Future[None]] = set()
        self._is_cut = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def open_requests(self) -> int:
        """How many requests are being answered."""
        return len(self._open)

    def enter(self) -> asyncio.Future[None]:
        """A request begins; what is returned stands for it, and is done when it is to be broken off."""
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(entered)
        self._idle.clear()
        if self._is_cut:
            entered.set_result(None)
        return entered

    def leave(self, entered: asyncio.Future[None]) -> None:
        """A request is settled."""
        self._open.discard(entered)
        if not self._open:
            self._idle.set()

    def cut(self) -> None:
        """Break off whatever is still being answered, and what may still come.

        Clients see an incomplete response, or a refusal where none had begun.
        """
        self._is_cut = True
        for entered in self._open:
            if not entered.done():
                entered.set_result(None)

    async def until_idle(self) -> None:
        """Wait until no request is being answered."""
        await self._idle.wait()
