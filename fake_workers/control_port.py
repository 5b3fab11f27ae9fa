"""The control port: scripts in, journal out, holds released, workers switched. JSON over HTTP/1.1.

====================================================== ==============================================================
``GET /``                                              the ready line: control URL and workers
``PUT /scripts/{marker}``                              register a script
``PUT /templates/{kind}``                              register the answer of all markers that start with ``kind``
``DELETE /markers/{marker}``                           forget script, holds and entries of a marker
``GET /entries?marker&at_least&within_s``              entries of a marker, once there are so many or the time is up
``GET /entries?since_seq``                             all entries above a number
``GET /entries?marker&until=peer_closed|completed``    the first entry of which this is true; 408 when time is up
``PUT /holds/{marker}/{hold}``                         release a hold
``GET /holds/{marker}/{hold}?within_s``                whether a worker has reached a hold
``PUT /workers/{name}``                                ``{"listening": bool, "health": int | "hang" | null}``
``PUT /workers/{name}/load``                           ``{"running": n, "waiting": n, "usage": 0..1}`` or ``null``
``PUT /workers/{name}/paths?path=/x``                  an answer for unscripted requests to a path, or ``null``
====================================================== ==============================================================
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from pydantic import ValidationError

from fake_workers.errors import FakeWorkerError, ScriptError
from fake_workers.net.listener import Listener
from fake_workers.net.messages import Response
from fake_workers.script import Script

if TYPE_CHECKING:
    from fake_workers.fleet import Fleet
    from fake_workers.journal import Entry
    from fake_workers.net.exchange import Exchange, Request
    from fake_workers.worker import Worker

_LONGEST_WAIT_S = 600.0
_KEEP_ALIVE_S = 600.0
_FINAL_STATUSES = range(200, 600)


class _Refused(Exception):  # noqa: N818 - an answer of the control port
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ControlPort:
    """Serves one fleet's book, journal and workers."""

    server_name: str | None = None

    def __init__(self, fleet: Fleet, host: str, port: int) -> None:
        """Describe the port; nothing is bound before :meth:`start`."""
        self._fleet = fleet
        self._listener = Listener(self, host, port, keep_alive_s=_KEEP_ALIVE_S)

    @property
    def url(self) -> str:
        """Base URL."""
        return self._listener.url

    async def start(self) -> None:
        """Listen; raises :class:`~fake_workers.errors.SpecError` when the port cannot be used."""
        await self._listener.listen()

    async def stop(self) -> None:
        """Stop listening."""
        await self._listener.close()

    def incomplete(self, request: Request, connection: int, outcome: str) -> None:
        """Nothing to note about a broken control request."""

    def handle(self, exchange: Exchange) -> None:
        """Answer from a task, for most requests may wait."""
        exchange.run(self._answer(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        try:
            result = await self._route(exchange.request)
        except _Refused as refused:
            exchange.respond(_json(refused.status, {"error": str(refused)}))
        except ValidationError as invalid:
            problem = invalid.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            exchange.respond(_json(400, {"error": f"script: {where}: {problem['msg']}"}))
        except FakeWorkerError as error:
            exchange.respond(_json(400, {"error": str(error)}))
        else:
            exchange.respond(_json(200, result))

    async def _route(self, request: Request) -> Any:
        path, _, query = request.target.partition("?")
        parts = [unquote(part) for part in path.split("/") if part]
        arguments = dict(parse_qsl(query))
        match request.method, parts:
            case "GET", []:
                return self._fleet.describe()
            case "PUT", ["scripts", marker]:
                self._fleet.book.put(marker, Script.from_json(request.body))
                return {}
            case "PUT", ["templates", kind]:
                self._fleet.book.put_template(kind, Script.from_json(request.body))
                return {}
            case "DELETE", ["markers", marker]:
                self._fleet.book.forget(marker)
                self._fleet.journal.forget(marker)
                return {}
            case "GET", ["entries"]:
                return await self._entries(arguments)
            case "PUT", ["holds", marker, hold]:
                self._fleet.book.release(marker, hold)
                return {}
            case "GET", ["holds", marker, hold]:
                return {"reached": await self._fleet.book.reached(marker, hold, _seconds(arguments))}
            case "PUT", ["workers", name, *what]:
                return await self._put_worker(self._worker(name), what, arguments, request.body)
        raise _Refused(404, f"the control port has no {request.method} {path}; see fake_workers.control_port")

    async def _entries(self, arguments: dict[str, str]) -> Any:
        journal = self._fleet.journal
        marker = arguments.get("marker")
        if marker is None:
            return [entry.to_dict() for entry in journal.all_entries(_whole(arguments, "since_seq"))]
        until = arguments.get("until")
        if until is None:
            found = await journal.wait_for_count(marker, _whole(arguments, "at_least"), _seconds(arguments))
            return [entry.to_dict() for entry in found]
        if until not in {"peer_closed", "completed"}:
            raise _Refused(400, f"until={until!r} is neither 'peer_closed' nor 'completed'")

        def settled(entry: Entry) -> bool:
            return getattr(entry, f"{until}_at") is not None

        entry = await journal.wait_for_entry(marker, settled, _seconds(arguments))
        if entry is None:
            raise _Refused(408, _not_yet(marker, until, journal.entries(marker)))
        return entry.to_dict()

    def _worker(self, name: str) -> Worker:
        worker = self._fleet.workers.get(name)
        if worker is None:
            raise _Refused(404, f"there is no worker {name!r}; there are {', '.join(self._fleet.workers)}")
        return worker

    async def _put_worker(self, worker: Worker, what: list[str], arguments: dict[str, str], body: bytes) -> Any:
        if not what:
            return await self._set_worker(worker, body)
        if what == ["load"]:
            worker.set_load(_load(body))
            return {}
        if what == ["paths"]:
            return self._set_path(worker, arguments.get("path", ""), body)
        raise _Refused(404, f"a worker has no {'/'.join(what)}; there are load and paths")

    @staticmethod
    def _set_path(worker: Worker, path: str, body: bytes) -> Any:
        if not path.startswith("/"):
            raise _Refused(400, f"path={path!r} does not start with '/'")
        if body == b"null":
            worker.overrides.pop(path, None)
        else:
            worker.overrides[path] = Script.from_json(body).answers[0]
        return {}

    @staticmethod
    async def _set_worker(worker: Worker, body: bytes) -> Any:
        wanted = _parsed(body)
        if not isinstance(wanted, dict):
            raise ScriptError("the body must be an object with 'listening' and 'health'")
        health = wanted.get("health")
        if health is not None and health != "hang" and not (isinstance(health, int) and health in _FINAL_STATUSES):
            raise ScriptError(
                f"health={health!r}: must be a status from 200 to 599, 'hang', or null for the engine's own"
            )
        worker.health = health
        if wanted.get("listening") is not None:
            await worker.set_listening(bool(wanted["listening"]))
        return {"name": worker.name, "listening": worker.listening, "health": worker.health}


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ScriptError(f"the body is no JSON: {error}") from None


def _load(body: bytes) -> dict[str, float] | None:
    wanted = _parsed(body)
    if wanted is None:
        return None
    known = {"running", "waiting", "usage"}
    if (
        not isinstance(wanted, dict)
        or set(wanted) - known
        or not all(isinstance(v, (int, float)) for v in wanted.values())
    ):
        raise ScriptError(f"a load is an object with numbers for some of {sorted(known)}, got {wanted!r}")
    return {key: float(value) for key, value in wanted.items()}


def _not_yet(marker: str, until: str, entries: list[Entry]) -> str:
    seen = ", ".join(f"{entry.method} {entry.target} {entry.outcome or 'going on'}" for entry in entries) or "none"
    return f"no request with {marker} is {until.replace('_', ' ')} yet; seen so far: {seen}"


def _json(status: int, value: Any) -> Response:
    return Response(status, json.dumps(value, separators=(",", ":")).encode())


def _seconds(arguments: dict[str, str]) -> float:
    try:
        seconds = float(arguments.get("within_s", "0"))
    except ValueError:
        raise _Refused(400, f"within_s={arguments['within_s']!r} is no number of seconds") from None
    return min(max(seconds, 0.0), _LONGEST_WAIT_S)


def _whole(arguments: dict[str, str], name: str) -> int:
    try:
        return int(arguments.get(name, "0"))
    except ValueError:
        raise _Refused(400, f"{name}={arguments[name]!r} is no whole number") from None
