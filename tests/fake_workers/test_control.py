"""The control port and its client: scripts, journal, waits, workers, errors."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from fake_workers import Chunk, Control, Fleet, Head, Reply, Script, Wire, WorkerSpec, new_marker, wire
from fake_workers.errors import ControlGone, ControlRefused, ControlTimeout, SpecError

RawFactory = Any


async def test_journal_over_the_port_equals_the_one_in_process(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """An entry fetched over the control port is equal, byte for byte, to the one in process."""
    marker = new_marker()
    async with raw(fleet.urls[0]) as client:
        await client.post(
            "/v1/completions", json.dumps({"model": "m", "prompt": f"{marker} é"}).encode(), "X-A: 1", "x-a: 2"
        )
        await client.message()
    (entry,) = await control.entries(marker, at_least=1)
    assert entry == fleet.journal.entries(marker)[0]
    assert entry.header_all("X-a") == ["1", "2"]
    assert entry.header("nope") is None
    assert entry.json["prompt"].startswith(marker)
    assert entry.path == "/v1/completions"
    assert entry.started_at <= entry.received_at <= (entry.answered_at or 0) <= (entry.completed_at or 0)
    assert [one.seq for one in await control.all_entries()] == [1]
    assert await control.all_entries(since_seq=1) == []


async def test_waiting_for_entries(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A wait for entries ends with the entry, or with what there is when time is up."""
    marker = new_marker()
    began = time.monotonic()
    assert await control.entries(marker, at_least=1, within_s=0.05) == []
    assert time.monotonic() - began < 2
    waiting = asyncio.create_task(control.entries(marker, at_least=1, within_s=10))
    await asyncio.sleep(0.02)
    async with raw(fleet.urls[0]) as client:
        await client.post("/x", marker.encode())
    assert len(await waiting) == 1


async def test_peer_left_is_known_at_once(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A client that leaves in the middle of a stream is noticed at once, also while the worker is held."""
    marker = new_marker()
    await control.put_script(marker, Script.of(Reply(hold_before={1: "gate"})))
    async with raw(fleet.urls[1]) as client:
        await client.post("/v1/chat/completions", json.dumps({"model": "m", "stream": True, "x": marker}).encode())
        assert await control.reached(marker, "gate")
    left = time.monotonic()
    entry = await control.until_peer_closed(marker)
    assert entry.peer_closed_at is not None
    assert entry.peer_closed_at - left < 0.5
    assert entry.completed_at is None
    with pytest.raises(ControlTimeout, match="peer_left"):
        await control.until_completed(marker, within_s=0.05)


async def test_an_answered_request_has_no_peer_that_left(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Closing an idle connection after the answer is not noted as leaving."""
    marker = new_marker()
    async with raw(fleet.urls[0]) as client:
        await client.post("/x", marker.encode())
        await client.message()
    assert (await control.until_completed(marker)).peer_closed_at is None
    with pytest.raises(ControlTimeout):
        await control.until_peer_closed(marker, within_s=0.05)


async def test_forget(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Forgetting a marker drops its script, its entries, and releases its holds."""
    marker = new_marker()
    await control.put_script(marker, Script.of(wire.sse("a", hold_before={0: "gate"})))
    async with raw(fleet.urls[0]) as client:
        await client.post("/x", marker.encode())
        assert await control.reached(marker, "gate")
        await control.forget(marker)
        assert (await client.message())[1].startswith(b"data: a")
        await client.post("/x", marker.encode())
        assert (await client.message())[0].startswith(b"HTTP/1.1 404 ")
    assert len(await control.entries(marker)) == 1


async def test_refusing_connections(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """A worker can refuse connections, closing idle ones, and come back on the same port."""
    async with raw(fleet.urls[0]) as idle:
        await idle.send(b"GET /health HTTP/1.1\r\nhost: w\r\n\r\n")
        await idle.message()
        await control.set_worker("w0", listening=False)
        assert await idle.gone()
    with pytest.raises(ConnectionRefusedError):
        async with raw(fleet.urls[0]):
            pass
    await control.set_worker("w0", listening=True)
    async with raw(fleet.urls[0]) as client:
        await client.send(b"GET /health HTTP/1.1\r\nhost: w\r\n\r\n")
        assert (await client.message())[0].startswith(b"HTTP/1.1 200 ")


async def test_refusing_lets_answers_finish(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """An answer under way is finished when the worker stops accepting, then its connection is closed."""
    marker = new_marker()
    await control.put_script(marker, Script.of(wire.sse("a", hold_before={0: "gate"})))
    async with raw(fleet.urls[0]) as client:
        await client.post("/x", marker.encode())
        assert await control.reached(marker, "gate")
        await control.set_worker("w0", listening=False)
        await control.release(marker, "gate")
        assert (await client.message())[1].startswith(b"data: a")
        assert await client.gone()


@pytest.mark.parametrize(("worker", "path"), [("w0", "/health"), ("w1", "/health"), ("w2", "/readiness")])
async def test_failing_health(fleet: Fleet, control: Control, worker: str, path: str) -> None:
    """Health checks can fail with a status, hang, and go back to the engine's own."""
    url = fleet.workers[worker].url + path
    async with httpx.AsyncClient(timeout=0.2) as http:
        await control.set_worker(worker, health=500)
        assert (await http.get(url)).status_code == 500
        await control.set_worker(worker, health="hang")
        with pytest.raises(httpx.ReadTimeout):
            await http.get(url)
        await control.set_worker(worker)
        assert (await http.get(url)).status_code == 200


async def test_reported_load(fleet: Fleet, control: Control) -> None:
    """A test says what load a worker reports, on SGLang's load endpoint and in vLLM's metrics."""
    async with httpx.AsyncClient() as http:
        await control.set_load("w1", running=3, waiting=8, usage=0.85)
        (load,) = (await http.get(f"{fleet.urls[1]}/v1/loads?include=core,disagg,queues,memory")).json()["loads"]
        assert (load["num_running_reqs"], load["num_waiting_reqs"], load["token_usage"]) == (3, 8, 0.85)
        assert load["queues"]["waiting"] == 8
        await control.set_load("w0", waiting=9)
        assert (
            'vllm:num_requests_waiting{engine="0",model_name="m"} 9.0'
            in (await http.get(f"{fleet.urls[0]}/metrics")).text
        )
        await control.set_load("w0")
        assert (
            'vllm:num_requests_waiting{engine="0",model_name="m"} 0.0'
            in (await http.get(f"{fleet.urls[0]}/metrics")).text
        )


async def test_answers_for_a_path(fleet: Fleet, control: Control) -> None:
    """Unscripted requests to a path (a gateway's probes) can be given any answer."""
    async with httpx.AsyncClient() as http:
        await control.set_path("w0", "/v1/models", wire.json(200, {"data": []}))
        assert (await http.get(f"{fleet.urls[0]}/v1/models")).json() == {"data": []}
        await control.set_path("w0", "/v1/models", None)
        assert (await http.get(f"{fleet.urls[0]}/v1/models")).json()["data"][0]["id"] == "m"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("PUT", "/scripts/nonsense", b'{"answers":[{"kind":"reply"}]}', 400, "is no marker"),
        ("PUT", "/scripts/igc-0123456789abcdef", b'{"answers":[]}', 400, "script: answers"),
        ("PUT", "/scripts/igc-0123456789abcdef", b'{"answers":[{"kind":"reply","x":1}]}', 400, "Extra inputs"),
        ("PUT", "/scripts/igc-0123456789abcdef", b"{", 400, "Invalid JSON"),
        ("PUT", "/workers/w9", b"{}", 404, "there is no worker 'w9'; there are w0, w1, w2"),
        ("PUT", "/workers/w0", b"{", 400, "no JSON"),
        ("PUT", "/workers/w0", b'{"health":"ill"}', 400, "must be a status"),
        ("PUT", "/workers/w0/load", b'{"speed":1}', 400, "a load is"),
        ("PUT", "/workers/w0/mood", b"{}", 404, "there are load and paths"),
        ("PUT", "/workers/w0/paths?path=x", b"null", 400, "does not start with"),
        ("GET", "/entries?marker=a&until=x", b"", 400, "is neither"),
        ("GET", "/entries?marker=a&within_s=soon", b"", 400, "is no number of seconds"),
        ("GET", "/entries?since_seq=x", b"", 400, "is no whole number"),
        ("GET", "/nope", b"", 404, "the control port has no GET /nope"),
    ],
)
async def test_bad_input(fleet: Fleet, method: str, path: str, body: bytes, status: int, says: str) -> None:  # noqa: PLR0917 - a table
    """The control port says what is wrong, where, and what there is instead."""
    async with httpx.AsyncClient() as http:
        answer = await http.request(method, fleet.control_url + path, content=body)
    assert answer.status_code == status
    assert says in answer.json()["error"]


async def test_the_client_raises_what_the_port_says(control: Control) -> None:
    """A refusal is raised with its status and text."""
    with pytest.raises(ControlRefused, match="there is no worker") as refused:
        await control.set_worker("w9")
    assert refused.value.status == 404


async def test_a_gone_control_port() -> None:
    """A control port nobody answers on is a clear exception, also over a connection that was kept."""
    fleet = Fleet([WorkerSpec(model="m")])
    await fleet.start()
    control = Control(fleet.control_url)
    await control.describe()
    await fleet.stop()
    with pytest.raises(ControlGone, match="still running"):
        await control.describe()
    await control.aclose()
    with pytest.raises(ValueError, match="looks like"):
        Control("ftp://x")


async def test_parallel_calls(control: Control) -> None:
    """Many tasks can use one client at once."""
    await asyncio.gather(*(control.put_script(new_marker(), Script.of(Reply())) for _ in range(50)))


def test_several_event_loops() -> None:
    """One client can be used from one event loop after another."""

    async def start() -> Fleet:
        """Start a fleet in the running loop."""
        fleet = Fleet([WorkerSpec(model="m")])
        await fleet.start()
        return fleet

    loop = asyncio.new_event_loop()
    fleet = loop.run_until_complete(start())
    control = Control(fleet.control_url)

    async def use() -> str:
        """Call the control port from the running loop."""
        return str((await control.describe())["control"])

    async def serve_while(work: Any) -> str:
        """Serve while another loop, in a thread, does the work."""
        return await asyncio.to_thread(asyncio.run, work)

    try:
        for _ in range(2):
            assert loop.run_until_complete(serve_while(use())) == fleet.control_url
    finally:
        loop.run_until_complete(fleet.stop())
        loop.close()


async def test_a_call_is_quick(control: Control) -> None:
    """A call takes about a tenth of a millisecond; checks make several each."""
    began = time.perf_counter()
    for _ in range(100):
        await control.entries("igc-0123456789abcdef")
    assert (time.perf_counter() - began) / 100 < 0.02  # far above what was measured, far below what would hurt


async def test_two_workers_with_one_name() -> None:
    """A fleet whose workers share a name is refused."""
    with pytest.raises(SpecError, match="give each its own name"):
        Fleet([WorkerSpec(name="a"), WorkerSpec(name="a")])


async def test_a_port_in_use() -> None:
    """A port in use is a clear error, and nothing is left listening."""
    async with Fleet([WorkerSpec()]) as running:
        port = int(running.urls[0].rpartition(":")[2])
        with pytest.raises(SpecError, match="choose another"):
            await Fleet([WorkerSpec(), WorkerSpec(port=port)]).start()


async def test_scripts_survive_json() -> None:
    """A script read back from JSON is equal, any bytes included."""
    script = Script.of(
        Reply(pieces=["a"], hold_before={0: "x"}, embedding=[0.5]),
        Wire(steps=[Head(headers=[("a", "b"), ("a", "c")]), Chunk(data=bytes(range(256)))]),
        wire.both_framings(b"{}"),
        wire.slow(b"abc"),
        wire.stall(wire.json(200, {}), 1),
    )
    assert Script.from_json(script.to_json()) == script
