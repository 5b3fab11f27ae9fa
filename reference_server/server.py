"""One server from the first socket to the last byte: binding, the ready line, and an end that is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from hypercorn.asyncio import serve as hypercorn_serve
from prometheus_client.exposition import start_http_server

from reference_server import http1, http2, logs, tcp
from reference_server.app import create_app
from reference_server.errors import StartupError
from reference_server.metrics import Metrics
from reference_server.state import ServerState
from reference_server.workers.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from typing import TextIO

    from hypercorn.config import Config
    from hypercorn.typing import Framework

    from reference_server.settings import Settings

LOG = logging.getLogger("reference_server")
_BACKLOG = 1024
_WORKERS_FIRST_S = 2.0  # how long the ready line waits for workers that answer at once
_POLL_S = 0.02
_CUT_S = 0.5  # how long connections get to close once the grace period is over
_GIVE_UP_S = 3.0
_HEADER_LIMIT_BYTES = 131_072
_EVER = 2**62


async def run(settings: Settings, out: TextIO) -> None:
    """Serve until SIGTERM or SIGINT (or, if asked, until standard input closes).

    The first signal begins the grace period: `/readiness` says 503, everything else goes on, and the server ends when
    no request is open. A second signal, or the end of the period, cuts what is still open.

    Raises:
        StartupError: a port or host that cannot be listened at.
    """
    http2.install()
    http1.install()
    tcp.install()
    asyncio.get_running_loop().set_exception_handler(logs.loop_fault)
    listening = bind(settings.host, settings.port, "--port")
    url = _url(listening)
    metrics = Metrics()
    fleet = Fleet(settings, metrics.workers)
    metrics.workers.follow(fleet.registry, time.monotonic, settings.overload)
    state = ServerState(settings, fleet, metrics=metrics)
    fleet.watch_slots(state.admission.resize)
    stop = _Stop(asyncio.get_running_loop(), watch_stdin=settings.exit_with_parent)
    with _metrics_endpoint(settings, state), stop:
        await fleet.start()
        finish = asyncio.Event()
        app = create_app(state, fleet)
        serving = asyncio.ensure_future(
            hypercorn_serve(cast("Framework", app), _config(settings, listening), shutdown_trigger=finish.wait)
        )
        try:
            await _until_workers_answer(settings, fleet, stop, serving)
            out.write(json.dumps({"ready": True, "url": url}) + "\n")
            out.flush()
            await _first_of(stop.first.wait(), serving)
            state.draining = True
            await _drain(state, settings.shutdown_grace_period_s, stop)
        finally:
            finish.set()
            await _end(serving)
            await fleet.stop()


def bind(host: str, port: int, flag: str) -> socket.socket:
    """A listening socket.

    Raises:
        StartupError: says which flag to change.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise StartupError(
            f"cannot listen at {host} port {port} ({error.strerror or error}); "
            f"choose another with {flag}, or {flag} 0 for any free one"
        ) from None
    listening.setblocking(False)  # noqa: FBT003 - the socket's own signature
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(settings: Settings, listening: socket.socket) -> Config:
    config = tcp.TimedConfig()
    config.bind = [f"fd://{listening.detach()}"]
    config.backlog = _BACKLOG  # hypercorn listens once more, with its own
    config.accesslog = None
    config.errorlog = logging.getLogger("reference_server.http")
    config.include_server_header = False  # a worker's own passes through
    config.include_date_header = False  # the same; the connection adds one where the worker has none
    config.head_timeout_s = settings.header_read_timeout_s
    config.idle_timeout_s = settings.idle_connection_timeout_s
    config.keep_alive_max_requests = _EVER
    config.graceful_timeout = _CUT_S
    config.h11_max_incomplete_size = _HEADER_LIMIT_BYTES
    return config


@contextlib.contextmanager
def _metrics_endpoint(settings: Settings, state: ServerState) -> Iterator[None]:
    """The metrics port, served by the metrics library's own thread."""
    try:
        server, thread = start_http_server(
            settings.prometheus_port, settings.prometheus_host, registry=state.metrics.registry
        )
    except OSError as error:
        raise StartupError(
            f"cannot listen at {settings.prometheus_host} port {settings.prometheus_port} for metrics "
            f"({error.strerror or error}); choose another with --prometheus-port, or 0 for any free one"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_GIVE_UP_S)


class _Stop:
    """Turns signals, and on request the end of standard input, into events."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, watch_stdin: bool) -> None:
        self._loop = loop
        self._watch_stdin = watch_stdin
        self.first = asyncio.Event()
        self.again = asyncio.Event()

    def __enter__(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled)
        if self._watch_stdin:
            threading.Thread(target=self._wait_for_end_of_stdin, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        (self.again if self.first.is_set() else self.first).set()

    def _wait_for_end_of_stdin(self) -> None:
        # os.read and not sys.stdin: a buffered reader's lock would abort the interpreter at its end.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self.first.set)


async def _until_workers_answer(settings: Settings, fleet: Fleet, stop: _Stop, serving: asyncio.Future[None]) -> None:
    """Give workers that are there already a moment to be registered, so that "ready" means usable."""
    wanted = 0 if settings.enable_igw else len(set(settings.worker_urls))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _WORKERS_FIRST_S
    while fleet.readiness().healthy < wanted and loop.time() < deadline:
        if stop.first.is_set() or serving.done():
            return
        await asyncio.sleep(_POLL_S)


async def _drain(state: ServerState, grace_s: float, stop: _Stop) -> None:
    if state.open_requests:
        LOG.info("stopping: %d open request(s) get up to %g s", state.open_requests, grace_s)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_first_of(state.until_idle(), stop.again.wait()), grace_s)
    if state.open_requests:
        LOG.warning("stopping: %d open request(s) are cut", state.open_requests)
        state.cut()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(state.until_idle(), _CUT_S)


async def _first_of(*awaitables: Awaitable[Any]) -> None:
    """Wait for the first of several; the others are cancelled unless they are futures of somebody else."""
    futures = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future, given in zip(futures, awaitables, strict=True):
            if future is not given:
                future.cancel()


async def _end(serving: asyncio.Future[None]) -> None:
    """Wait for the server to end, but not for ever: an interpreter may wait for connections that nobody closes."""
    done, _ = await asyncio.wait({serving}, timeout=_GIVE_UP_S)
    if not done:
        serving.cancel()
        await asyncio.wait({serving}, timeout=_GIVE_UP_S)
    if serving.done() and not serving.cancelled() and serving.exception() is not None:
        LOG.error("the HTTP server ended badly", exc_info=serving.exception())
