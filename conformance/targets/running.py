"""Gateways that already run (`--target`): is it a gateway at all, and how fake workers get behind it and away again."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from conformance.harness.environment import Environment, Running, WorkerAt, once, start_fleet, until_routed
from conformance.harness.errors import HarnessError, TargetError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from conformance.harness.configurations import Configuration
    from conformance.harness.exchange import Exchange
    from conformance.options import Options

REMOVED_BOUND_S = 8.0
REFUSALS = range(400, 500)


def preflight(options: Options) -> None:
    """Before anything starts: every `--target` answers like a gateway, and the addresses of `--workers-at` are free.

    UserError says what was tried, what came back and what to do.
    """
    if options.workers_at and len(options.running) > 1:
        raise UserError("--workers-at serves one gateway: give a single --target with it")
    if len({host for host, _ in options.workers_at}) > 1:
        raise UserError(
            "--workers-at: all fake workers of a run listen on one host; give the same HOST in every HOST:PORT"
        )
    for host, port in options.workers_at:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as problem:
                raise UserError(f"--workers-at {host}:{port}: cannot listen there: {problem.strerror}") from problem
    for name, url in options.running.items():
        asyncio.run(_is_gateway(f"--target {name}={url}", url, options.api_key))


async def _is_gateway(said: str, url: str, key: str | None) -> None:
    models = await once(url, "GET", "/v1/models", key=key)
    if models is None:
        raise UserError(
            f"{said}: nothing listens there (connection refused); start the gateway, or correct host and port"
        )
    if models.status in {401, 403}:
        raise UserError(f"{said}: GET /v1/models answers {models.status}; give the key with --api-key")
    if models.status is None:
        raise UserError(f"{said}: GET /v1/models got no HTTP answer ({models.outcome}: {models.problem or 'nothing'})")
    if models.status == 503 or (models.status == 200 and _lists(models)):
        return
    # Some gateways have no list of models: what counts is a chat endpoint that refuses an empty body in JSON.
    chat = await once(url, "POST", "/v1/chat/completions", {}, key=key)
    if chat is not None and chat.status in REFUSALS and chat.status not in {404, 405} and _is_json(chat):
        return
    tried = "; ".join(_what(each) for each in (models, chat) if each is not None)
    remedy = "give the base URL of an OpenAI-compatible gateway, without /v1"
    raise UserError(f"{said}: that is no gateway. Tried: {tried}. What to do: {remedy}")


def _lists(models: Exchange) -> bool:
    try:
        return isinstance(json.loads(models.body)["data"], list)
    except (ValueError, LookupError, TypeError):
        return False


def _is_json(exchange: Exchange) -> bool:
    return "json" in (exchange.headers.get("content-type") or "")


def _what(exchange: Exchange) -> str:
    kind = exchange.headers.get("content-type") or "no content type"
    return f"{exchange.method} {exchange.target} answered {exchange.status} ({kind}) {exchange.body[:60]!r}"


def attach(options: Options, configuration: Configuration, url: str, log_dir: Path) -> Running:
    """Put fake workers behind a running gateway: registered through its admin API, or at the addresses it routes to."""
    host = _listen_host(options)
    ports = [port for _, port in options.workers_at]
    if ports and len(ports) != len(configuration.workers):
        names = ", ".join(worker.model for worker in configuration.workers)
        raise TargetError(f"--workers-at needs {len(configuration.workers)} addresses, in this order: {names}")
    fleet, control_url, workers = start_fleet(configuration, log_dir, host=host, ports=ports)
    if options.advertise:
        workers = [_advertised(worker, options.advertise) for worker in workers]
    keys = {**configuration.keys, **({"shared": options.api_key} if options.api_key else {})}
    running = Running(
        Environment(
            configuration=configuration.name,
            gateway_url=url,
            control_url=control_url,
            workers=workers,
            aliases=configuration.aliases if "model-alias" in options.target.claims.features else {},
            keys=keys,
            default_key=options.api_key or keys.get(configuration.default_key or ""),
            admin_key=options.admin_key,
            features=options.target.claims.features,
        ),
        [fleet],
    )
    try:
        if configuration.registered and not options.unproven:
            if not ports:
                ids = asyncio.run(register(url, workers, options.admin_key))
                running.undo.append(lambda: asyncio.run(remove(url, ids, options.admin_key)))
            asyncio.run(until_routed(running.environment))
    except HarnessError as problem:
        running.stop()
        raise TargetError(
            f"{url} (configuration {configuration.name!r}): {problem}. Set it like this: {configuration.by_hand}"
        ) from None
    except BaseException:
        running.stop()
        raise
    return running


def _listen_host(options: Options) -> str:
    """Loopback, unless the user names another address of this machine."""
    if options.workers_at:
        return options.workers_at[0][0]
    if options.advertise:
        try:
            address = socket.gethostbyname(options.advertise)
            with socket.socket() as probe:
                probe.bind((address, 0))
        except OSError:
            return "127.0.0.1"
        return address
    return "127.0.0.1"


def _advertised(worker: WorkerAt, host: str) -> WorkerAt:
    return WorkerAt(worker.name, worker.engine, worker.model, f"http://{host}:{urlsplit(worker.url).port}")


async def register(url: str, workers: Sequence[WorkerAt], key: str | None) -> list[str]:
    """Add the workers through POST /workers; returns their ids. What was added before a failure is taken away again."""
    ids: list[str] = []
    for worker in workers:
        answer = await once(url, "POST", "/workers", {"url": worker.url}, key=key)
        if answer is None or answer.status not in {200, 201, 202}:
            await remove(url, ids, key)
            raise TargetError(f"POST /workers does not add a worker: {_refusal(answer)}")
        ids.append(_id_of(answer, worker))
    return ids


def _refusal(answer: Exchange | None) -> str:
    if answer is None:
        return "connection refused"
    if answer.status in {401, 403}:
        return f"it answers {answer.status}; give the key of the admin API with --admin-key"
    if answer.status in {404, 405}:
        return (
            f"it answers {answer.status}, so there is no admin API; let the gateway route to fixed addresses and name "
            "them with --workers-at HOST:PORT,..."
        )
    return answer.brief()


def _id_of(answer: Exchange, worker: WorkerAt) -> str:
    try:
        found: dict[str, Any] = json.loads(answer.body)
        return str(found.get("worker_id") or found["id"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return worker.url


async def remove(url: str, ids: Sequence[str], key: str | None) -> None:
    """Take the workers away again, and wait (bounded) until they are gone."""
    for each in ids:
        await once(url, "DELETE", f"/workers/{quote(each, safe='')}", key=key)
    deadline = time.monotonic() + REMOVED_BOUND_S
    for each in ids:
        while time.monotonic() < deadline:
            left = await once(url, "GET", f"/workers/{quote(each, safe='')}", key=key)
            if left is None or left.status != 200:
                break
            await asyncio.sleep(0.2)
