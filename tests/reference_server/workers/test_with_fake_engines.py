"""The fleet in front of the project's own fake engines: detection of each dialect, and each scripted fault."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fake_workers import wire
from fake_workers.fleet import Fleet as FakeFleet
from fake_workers.markers import new_marker
from fake_workers.script import Chunk, Close, Head, Raw, Reply, Reset, Script, Stall, Wire
from fake_workers.spec import WorkerSpec as FakeSpec
from reference_server.errors import GatewayError
from reference_server.settings import HealthSettings, RetrySettings, Settings, WorkerStartupSettings
from reference_server.workers import admin
from reference_server.workers.exchange import UpstreamBodyError, UpstreamRequest
from reference_server.workers.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fake_workers.journal import Entry
    from reference_server.workers.response import UpstreamResponse

WAIT_S = 5.0
GOOD = wire.json(200, {"said": "good"})
STREAM = wire.sse({"n": 1}, {"n": 2})


@pytest.fixture
async def engines() -> AsyncIterator[FakeFleet]:
    """One engine of each dialect, models a, b and c."""
    specs = [FakeSpec(engine="sglang", model="a"), FakeSpec(engine="vllm", model="b", aliases=("b2",))]
    specs.append(FakeSpec(engine="tokenspeed", model="c"))
    async with FakeFleet(specs) as fleet:
        yield fleet


@pytest.fixture
async def fleet(engines: FakeFleet, until: Callable[..., Any]) -> AsyncIterator[Fleet]:
    """A fleet that has registered the three engines."""
    fleet = Fleet(
        Settings(
            worker_urls=tuple(engines.urls),
            request_timeout_s=1.0,
            retry=RetrySettings(max_attempts=3, initial_backoff_ms=1),
            health=HealthSettings(interval_s=3600),
            worker_startup=WorkerStartupSettings(check_interval_s=0.1),
        )
    )
    await fleet.start()
    await until(lambda: fleet.readiness().healthy == 3)
    yield fleet
    await fleet.stop()


def _scripted(engines: FakeFleet, *answers: Reply | Wire) -> str:
    marker = new_marker()
    engines.book.put(marker, Script.of(*answers))
    return marker


def _request(marker: str, limit: int | None = 10_000, model: str = "b", **extra: Any) -> UpstreamRequest:
    body = {"model": model, "messages": [{"role": "user", "content": marker}], **extra}
    headers = [("content-type", "application/json")]
    return UpstreamRequest(
        "POST", "/v1/chat/completions", headers, json.dumps(body).encode(), model, read_limit_bytes=limit
    )


async def _take(response: UpstreamResponse, pieces: list[bytes]) -> None:
    async for piece in response.body():
        pieces.append(piece)  # noqa: PERF401 - what came before a failure is wanted too


async def _left(engines: FakeFleet, marker: str) -> Entry:
    entry = await engines.journal.wait_for_entry(marker, lambda entry: entry.peer_closed_at is not None, WAIT_S)
    assert entry is not None
    return entry


async def test_each_engine_is_told_from_the_others(fleet: Fleet, engines: FakeFleet) -> None:
    """The three dialects are detected as what they are, with their models, and all are listed."""
    workers = admin.list_workers(fleet).body["workers"]
    found = {entry["url"]: (entry["runtime_type"], [model["id"] for model in entry["models"]]) for entry in workers}
    assert [found[url] for url in engines.urls] == [("sglang", ["a"]), ("vllm", ["b", "b2"]), ("generic", ["c"])]
    assert sorted(card.id for card in fleet.models()) == ["a", "b", "b2", "c"]


@pytest.mark.parametrize("model", ["a", "b", "c"])
async def test_each_engine_answers_through_the_fleet(fleet: Fleet, engines: FakeFleet, model: str) -> None:
    """A chat reaches the engine that serves the model and its words come back, whole and as a stream."""
    marker = _scripted(engines, Reply(pieces=["one", " two"]))
    answer = json.loads(await (await fleet.dispatch(_request(marker, model=model))).read(100_000))
    assert answer["choices"][0]["message"]["content"] == "one two"
    response = await fleet.dispatch(_request(marker, model=model, stream=True))
    assert response.is_event_stream
    assert (await response.read(100_000)).endswith(b"data: [DONE]\n\n")


FAULTS: dict[str, tuple[Wire, str]] = {
    "closed before the head": (Wire(steps=[Close()]), "call_upstream_request_error"),
    "reset before the head": (Wire(steps=[Reset()]), "call_upstream_request_error"),
    "closed in the head": (
        Wire(steps=[Raw(data=b"HTTP/1.1 200 OK\r\ncontent-"), Close()]),
        "call_upstream_request_error",
    ),
    "cut": (wire.cut(GOOD, 3), "read_response_body_failed"),
    "cut by a reset": (wire.cut(GOOD, 3, reset=True), "read_response_body_failed"),
    "stalled in the body": (wire.stall(GOOD, 3), "read_response_body_failed"),
    "stalled before the head": (Wire(steps=[Stall()]), "call_upstream_timeout"),
    "oversized": (wire.oversized(10_001), "upstream_response_too_large"),
    "oversized, undeclared": (wire.oversized(10_001, declared=False), "upstream_response_too_large"),
    "dripping for ever": (wire.slow(b"x" * 5000, every_s=0.01), "read_response_body_failed"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_passed_over_once_and_told_when_it_stays(fleet: Fleet, engines: FakeFleet, name: str) -> None:
    """A fault followed by a good answer is invisible; one that stays is a clean error after the attempts allowed."""
    fault, code = FAULTS[name]
    once = _scripted(engines, fault, GOOD)
    assert await (await fleet.dispatch(_request(once))).read(10_000) == b'{"said":"good"}'
    assert len(engines.journal.entries(once)) == 2
    always = _scripted(engines, fault)
    with pytest.raises(GatewayError) as caught:
        await fleet.dispatch(_request(always))
    assert caught.value.code == code
    assert len(engines.journal.entries(always)) == 3


RELAYED: dict[str, tuple[Wire, int, bytes]] = {
    "a redirect": (wire.redirect("http://127.0.0.1:1/elsewhere"), 307, b""),
    "an error in html": (wire.body(418, b"<h1>no</h1>", "text/html"), 418, b"<h1>no</h1>"),
    "a drip": (wire.slow(b"0123456789", size=2), 200, b"0123456789"),
    "garbage behind": (wire.trailing_garbage(GOOD), 200, b'{"said":"good"}'),
    "exactly the limit": (wire.oversized(10_000), 200, b'"' + b"x" * 9_998 + b'"'),
}


@pytest.mark.parametrize("name", RELAYED)
async def test_odd_answers_are_relayed_as_they_are(fleet: Fleet, engines: FakeFleet, name: str) -> None:
    """Redirects, strange errors, slow bodies and bytes behind the end do not disturb the answer or the next one."""
    answer, status, body = RELAYED[name]
    marker = _scripted(engines, answer)
    response = await fleet.dispatch(_request(marker))
    assert (response.status, await response.read(10_000)) == (status, body)
    after = _scripted(engines, GOOD)
    assert await (await fleet.dispatch(_request(after))).read(10_000) == b'{"said":"good"}'
    assert [len(engines.journal.entries(one)) for one in (marker, after)] == [1, 1]


async def test_both_framings_never_hang_or_mislead(fleet: Fleet, engines: FakeFleet) -> None:
    """An answer with a length and chunks is its chunks or an error, and the next answer is its own."""
    marker = _scripted(engines, wire.both_framings(b'{"a":1}', length=3))
    try:
        assert await (await fleet.dispatch(_request(marker))).read(10_000) == b'{"a":1}'
    except GatewayError as error:
        assert error.status == 500  # noqa: PT017 - either way is clean
    after = _scripted(engines, GOOD)
    assert await (await fleet.dispatch(_request(after))).read(10_000) == b'{"said":"good"}'


@pytest.mark.parametrize("reset", [False, True])
async def test_a_stream_that_is_cut_gives_what_it_had(fleet: Fleet, engines: FakeFleet, *, reset: bool) -> None:
    """Events before a cut arrive; then the failure is told, and nothing is sent twice."""
    marker = _scripted(engines, wire.cut(STREAM, 20, reset=reset))
    response = await fleet.dispatch(_request(marker, None))
    pieces: list[bytes] = []
    with pytest.raises(UpstreamBodyError):
        await _take(response, pieces)
    received, sent = b"".join(pieces), b'data: {"n":1}\n\ndata:'
    assert received == sent or (reset and sent.startswith(received))  # a system may drop what a reset overtakes
    assert len(engines.journal.entries(marker)) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_feels_a_client_leave_within_a_tenth_of_a_second(
    fleet: Fleet, engines: FakeFleet, *, stream: bool
) -> None:
    """While an engine thinks, or in the middle of its stream, a leaving client ends the engine's connection at once."""
    head = [Head(headers=[("content-type", "text/event-stream")]), Chunk(data=b"data: 1\n\n")] if stream else []
    marker = _scripted(engines, Wire(steps=[*head, Stall()]))

    async def relay() -> None:
        response = await fleet.dispatch(_request(marker, None))
        try:
            async for _ in response.body():
                pass
        finally:
            await response.aclose()

    task = asyncio.create_task(relay())
    await engines.journal.wait_for_count(marker, 1, WAIT_S)
    await asyncio.sleep(0.1)
    left_at = asyncio.get_running_loop().time()  # the same clock as the journal's
    task.cancel()
    entry = await _left(engines, marker)
    assert entry.peer_closed_at is not None
    assert -0.05 < entry.peer_closed_at - left_at < 0.1


async def test_a_keepalive_shorter_than_the_pool_is_not_noticed(until: Callable[..., Any]) -> None:
    """An engine that closes idle connections sooner than the pool does never costs a client its answer."""
    async with FakeFleet([FakeSpec(engine="vllm", model="b", keep_alive_s=0.2)]) as engines:
        fleet = Fleet(Settings(worker_urls=tuple(engines.urls), retry=RetrySettings(max_attempts=1)))
        await fleet.start()
        await until(lambda: fleet.readiness().ready)
        for _ in range(6):
            marker = _scripted(engines, GOOD)
            assert (await fleet.dispatch(_request(marker))).status == 200
            await asyncio.sleep(0.2)  # just when the engine's time is up
        await fleet.stop()


@contextlib.asynccontextmanager
async def _engine_process() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fake_workers.cli", "--worker", "engine=vllm,model=b,port=0,latency=8b"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
        yield process, ready["workers"][0]["url"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_an_engine_killed_in_the_middle_of_a_stream(until: Callable[..., Any]) -> None:
    """After kill -9 of an engine its stream ends in a told failure, and the next request is a failed connection."""
    async with _engine_process() as (process, url):
        fleet = Fleet(Settings(worker_urls=(url,), retry=RetrySettings(max_attempts=1)))
        await fleet.start()
        await until(lambda: fleet.readiness().ready, 10)
        request = _request("no marker", None, stream=True, max_tokens=10_000)
        response = await fleet.dispatch(request)
        pieces = response.body()
        assert (await anext(pieces)).startswith(b"data: ")
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(UpstreamBodyError):
            async for _ in pieces:
                pass
        with pytest.raises(GatewayError) as caught:
            await fleet.dispatch(request)
        assert caught.value.status == 500
        await fleet.stop()
