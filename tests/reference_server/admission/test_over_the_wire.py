"""Admission as clients and workers see it: the programs as processes, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fake_workers import wire
from fake_workers.control import Control
from fake_workers.markers import new_marker
from fake_workers.script import Answer, Chunk, End, Head, Hold, Reply, Reset, Script, Wire
from tests.reference_server.test_process import Gateway, gateway, run
from tests.support import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
SOON_S = 10.0
BARE = "{reserved_floor: 0, queue_size: 9, queue_timeout_secs: 60, starvation_threshold_secs: 60, can_preempt: %s}"
CLASSES = "classes:\n" + "".join(
    f"  {name}: {BARE % may}\n"
    for name, may in (("system", "true"), ("interactive", "true"), ("default", "false"), ("bulk", "false"))
)
ENGINES = [sys.executable, "-m", "fake_workers.cli", "--exit-with-parent"]


class Stand:
    """A gateway before one worker of one slot."""

    def __init__(self, url: str, control_url: str, workers: list[str]) -> None:
        self.url = url
        self.control_url = control_url
        self.workers = workers


class Scene:
    """One test's clients; each request has a script of its own and is told apart by its marker."""

    def __init__(self, stand: Stand, control: Control, client: httpx.AsyncClient) -> None:
        self.stand = stand
        self.control = control
        self._client = client

    async def send(
        self, answer: Answer, level: str = "default", path: str = CHAT, **fields: Any
    ) -> tuple[str, asyncio.Task[httpx.Response]]:
        """Send a request; its marker, and the task that gets the whole response."""
        marker = new_marker()
        await self.control.put_script(marker, Script(answers=[answer]))
        prompts: dict[str, dict[str, Any]] = {
            CHAT: {"messages": [{"role": "user", "content": marker}]},
            COMPLETIONS: {"prompt": marker},
            EMBEDDINGS: {"input": marker},
        }
        body = {"model": "m", **prompts[path], **fields}
        sending = self._client.post(path, json=body, headers={"x-smg-priority": level})
        return marker, asyncio.ensure_future(sending)

    async def seen(self, marker: str) -> bool:
        """Whether the worker has the request, or gets it within a moment."""
        return bool(await self.control.entries(marker, at_least=1, within_s=0.3))


@pytest.fixture(scope="module")
def priority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A gateway with the scheduler, whose capacity is the one slot that its worker reports.

    Its breaker opens at the first failure: if it heard of a preemption, the next request would get a 503.
    """
    file = tmp_path_factory.mktemp("priority") / "classes.yaml"
    file.write_text(CLASSES, encoding="utf-8")
    with running([*ENGINES, "--worker", "engine=sglang,model=m,slots=1"]) as fleet:
        workers = [each["url"] for each in fleet["workers"]]
        flags = ["--priority-scheduler-enabled", "--priority-scheduler-default-max-class", "system",
                 "--priority-scheduler-config", str(file), "--cb-failure-threshold", "1"]  # fmt: skip
        with gateway("--worker-urls", *workers, *flags, "--exit-with-parent") as server:
            yield Stand(server.url, fleet["control"], workers)


@asynccontextmanager
async def scene(stand: Stand, *, http2: bool = False) -> AsyncIterator[Scene]:
    """Clients of one version of HTTP."""
    options = {"base_url": stand.url, "timeout": SOON_S, "http1": not http2, "http2": http2, "trust_env": False}
    async with Control(stand.control_url) as control, httpx.AsyncClient(**options) as client:  # type: ignore[arg-type]  # by name
        yield Scene(stand, control, client)


ROUTES: dict[str, tuple[str, dict[str, Any], Answer]] = {
    "chat": (CHAT, {}, Reply(pieces=["hi"], hold_before={-1: "h"})),
    "chat stream": (CHAT, {"stream": True}, Reply(pieces=["hi"], hold_before={-1: "h"})),
    "chat stream, head sent": (
        CHAT, {"stream": True},
        Wire(steps=[Head(headers=[("content-type", "text/event-stream")]), Hold(name="h"), Chunk(data=b"x"), End()]),
    ),
    "chat, half the body sent": (
        CHAT, {},
        Wire(steps=[Head(headers=[("content-type", "application/json")]), Chunk(data=b"{"), Hold(name="h"), End()]),
    ),
    "completions": (COMPLETIONS, {}, Reply(pieces=["hi"], hold_before={-1: "h"})),
    "completions stream": (COMPLETIONS, {"stream": True}, Reply(pieces=["hi"], hold_before={-1: "h"})),
    "embeddings": (EMBEDDINGS, {}, Wire(steps=[Hold(name="h"), *wire.json(200, {}).steps])),
}  # fmt: skip


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
@pytest.mark.parametrize("route", ROUTES)
async def test_the_503_of_a_preempted_request_arrives(priority: Stand, route: str, *, http2: bool) -> None:
    """On every serving route: the whole 503 with its headers; the worker's request ends; the other one is served."""
    path, fields, answer = ROUTES[route]
    async with scene(priority, http2=http2) as this:
        marker, victim = await this.send(answer, "bulk", path, **fields)
        assert await this.control.reached(marker, "h", within_s=SOON_S)
        _, higher = await this.send(Reply(pieces=["first"]), "system")
        served, preempted = await higher, await victim
        left = await this.control.until_peer_closed(marker, within_s=SOON_S)
    assert preempted.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    assert (preempted.status_code, preempted.json()["error"]["code"]) == (503, "scheduler_preempted")
    assert preempted.json()["error"]["type"] == "Service Unavailable"
    names = ("x-smg-error-code", "x-smg-preempted", "retry-after", "content-type")
    assert [preempted.headers.get_list(name) for name in names] == [
        ["scheduler_preempted"], ["true"], ["1"], ["application/json"],
    ]  # fmt: skip
    assert "x-request-id" in preempted.headers
    assert "x-smg-routed-worker-id" not in preempted.headers
    assert served.json()["choices"][0]["message"]["content"] == "first"
    assert "x-smg-preempted" not in served.headers
    assert left.peer_closed_at is not None


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
async def test_a_request_with_a_byte_out_is_served_to_its_end(priority: Stand, *, http2: bool) -> None:
    """The higher class reaches the worker only behind a lower one that has begun, which gets all of its stream."""
    async with scene(priority, http2=http2) as this:
        marker, first = await this.send(Reply(pieces=["a", "b"], hold_before={1: "h"}), "bulk", stream=True)
        assert await this.control.reached(marker, "h", within_s=SOON_S)
        await asyncio.sleep(0.1)  # what was sent before the hold is on its way through the gateway
        other, higher = await this.send(Reply(pieces=["x"]), "system")
        assert not await this.seen(other)
        await this.control.release(marker, "h")
        assert (await first).text.endswith("data: [DONE]\n\n")
        assert (await higher).status_code == 200
        (entry,) = await this.control.entries(other, at_least=1)
        completed = await this.control.until_completed(marker)
    assert completed.completed_at is not None
    assert entry.received_at >= completed.completed_at


async def test_more_workers_are_more_slots(priority: Stand) -> None:
    """A worker that comes lets a waiter in; when it leaves again there is one slot as before."""
    with running([*ENGINES, "--worker", "engine=sglang,model=m,slots=1"]) as fleet:
        async with scene(priority) as this, httpx.AsyncClient(base_url=priority.url, trust_env=False) as admin:
            hold = Reply(pieces=["x"], hold_before={-1: "h"})
            held, first = await this.send(hold)
            assert await this.control.reached(held, "h", within_s=SOON_S)
            waiting, second = await this.send(hold)
            assert not await this.seen(waiting)
            added = (await admin.post("/workers", json={"url": fleet["workers"][0]["url"]})).json()
            async with Control(fleet["control"]) as other:
                await _until_either_has(waiting, this.control, other)
            for control_url in (priority.control_url, fleet["control"]):
                async with Control(control_url) as control:
                    for marker in (held, waiting):
                        await control.release(marker, "h")
            await asyncio.gather(first, second, return_exceptions=True)
            await admin.delete(f"/workers/{added['worker_id']}")
            held, first = await this.send(hold)
            assert await this.control.reached(held, "h", within_s=SOON_S)
            waiting, second = await this.send(Reply(pieces=["x"]))
            assert not await this.seen(waiting)
            await this.control.release(held, "h")
            assert [(await each).status_code for each in (first, second)] == [200, 200]


async def _until_either_has(marker: str, *controls: Control) -> None:
    for _ in range(50):
        if any([await control.entries(marker, at_least=1, within_s=SOON_S / 100) for control in controls]):
            return
    pytest.fail("no worker has the request")


# The plain limit


@asynccontextmanager
async def limited(*flags: str) -> AsyncIterator[tuple[Scene, Gateway]]:
    """A gateway of one slot: its clients and its process."""
    with running([*ENGINES, "--worker", "engine=vllm,model=m"]) as fleet:
        urls = [each["url"] for each in fleet["workers"]]
        always = ("--max-concurrent-requests", "1", "--disable-retries", "--exit-with-parent")
        with gateway("--worker-urls", *urls, *always, *flags) as server:
            async with scene(Stand(server.url, fleet["control"], urls)) as this:
                yield this, server


async def test_a_worker_that_dies_gives_its_slot_back() -> None:
    """Whether it hangs up before its answer or within it, the next one in the queue is served."""
    async with limited() as (this, _):
        for death in (Wire(steps=[Hold(name="h"), Reset()]),
                      Wire(steps=[Head(), Chunk(data=b"x"), Hold(name="h"), Reset()])):  # fmt: skip
            marker, first = await this.send(death, stream=True)
            assert await this.control.reached(marker, "h", within_s=SOON_S)
            other, second = await this.send(Reply(pieces=["x"]))
            assert not await this.seen(other)
            await this.control.release(marker, "h")
            broken = (await asyncio.gather(first, return_exceptions=True))[0]
            assert isinstance(broken, httpx.RemoteProtocolError) or broken.status_code == 500  # type: ignore[union-attr]  # what post gives
            assert (await second).status_code == 200


async def test_a_client_that_leaves_the_queue_never_reaches_the_worker() -> None:
    """Its place is another's; the worker never hears of it."""
    async with limited("--queue-size", "1") as (this, _):
        hold = Reply(pieces=["x"], hold_before={-1: "h"})
        held, first = await this.send(hold)
        assert await this.control.reached(held, "h", within_s=SOON_S)
        gone, leaving = await this.send(hold)
        assert not await this.seen(gone)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        for _ in range(50):  # the gateway hears of it by and by
            waiting, second = await this.send(Reply(pieces=["x"]))
            if not (await asyncio.wait({second}, timeout=0.2))[0]:
                break
            assert (await second).status_code == 429
        await this.control.release(held, "h")
        assert [(await each).status_code for each in (first, second)] == [200, 200]
        assert await this.seen(waiting)
        assert not await this.seen(gone)


@pytest.mark.parametrize("in_time", [True, False])
async def test_a_shutdown_serves_waiters_or_cuts_them(*, in_time: bool) -> None:
    """Within the grace period waiters are served as slots come free; at its end everybody is told."""
    async with limited("--shutdown-grace-period-secs", "20" if in_time else "0.5") as (this, server):
        held, first = await this.send(Reply(pieces=["x"], hold_before={-1: "h"}))
        assert await this.control.reached(held, "h", within_s=SOON_S)
        other, second = await this.send(Reply(pieces=["x"]))
        assert not await this.seen(other)
        os.kill(server.process.pid, signal.SIGTERM)
        if in_time:
            await asyncio.sleep(0.2)
            await this.control.release(held, "h")
            assert [(await each).status_code for each in (first, second)] == [200, 200]
        else:
            for each in await asyncio.wait_for(asyncio.gather(first, second), SOON_S):
                assert (each.status_code, each.headers["x-smg-error-code"]) == (503, "shutting_down")
            assert not await this.seen(other)
        status = await asyncio.get_running_loop().run_in_executor(None, server.process.wait, SOON_S)
        assert status == 0


def test_a_bad_file_ends_the_start(tmp_path: Path) -> None:
    """Exit status 2 and one line that says flag, file, line and remedy."""
    file = tmp_path / "p.yaml"
    file.write_text("classes:\n  bulk: {reserved_floor: x}\n", encoding="utf-8")
    ended = run("launch", "--port", "0", "--priority-scheduler-enabled", "--priority-scheduler-config", str(file))
    assert ended.returncode == 2
    assert f"--priority-scheduler-config: {file}, line 2: " in ended.stderr
    assert ended.stdout == ""
