"""Chat Completions and Completions: comments that keep a silent stream alive. The configuration sets one second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.checks.keepalive_support import (
    DEFAULT_INTERVAL_S,
    EARLY_S,
    INTERVAL_S,
    LAST,
    LATE_S,
    ONE,
    PING,
    TEXT_ONE,
    TWO,
    cut_in_two,
    expect_between_events,
    expect_none_too_soon,
    expect_only_pings_added,
    patience,
    pinged,
    quiet,
    together,
)
from conformance.checks.stream_support import (
    DISCONNECT_BOUND_S,
    broken_stream,
    chunk,
    content_of,
    felt_after_s,
    stream_of,
    tells_of_the_break,
)
from conformance.harness import COMPLETIONS, clause
from fake_workers import wire
from fake_workers.script import Hold, Pause, Reply, Reset

if TYPE_CHECKING:
    from conformance.harness import Gateway, Noise, Worker


@clause("chat.stream.keepalive.ping")
async def test_a_silent_stream_is_pinged(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A stream that has fallen silent gets a comment that says ping."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise)
        assert [comment.text.strip() for comment in live.exchange.comments][:1] == ["ping"], live.exchange.brief()


@clause("completions.stream.keepalive")
async def test_a_silent_completion_is_pinged(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A streamed completion that has fallen silent gets a comment that says ping."""
    script = quiet(worker, TEXT_ONE)
    async with gateway.open_completion(script, stream=True) as live:
        await pinged(live, noise, TEXT_ONE)
        await script.release("quiet")
        chat = await live.rest()
    assert chat.ended_with_done


@clause("chat.stream.keepalive.bytes")
async def test_the_bytes_of_a_keepalive(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A keepalive is a colon, a blank, the word and an empty line, and nothing else comes with it."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise)
        await script.release("quiet")
        chat = await live.rest()
    number = chat.body.count(PING)
    assert chat.body == ONE + PING * number + LAST + wire.DONE


@clause("chat.stream.keepalive.interval")
async def test_the_configured_interval(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The first keepalive comes when the configured second has passed, and not after the default's fifteen."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        silent_since = (await live.event()).at
        await live.until(PING, within_s=patience(noise))
        sent = [at for at, _ in (await script.only()).sent]
    first = live.exchange.comments[0].at
    expect_none_too_soon(live.exchange, sent)
    assert first - silent_since <= noise.allow(INTERVAL_S + LATE_S), f"first keepalive after {first - silent_since} s"


@clause("chat.stream.keepalive.repeats")
async def test_a_long_silence_is_pinged_again(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Three keepalives come in a silence of three intervals and more."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await live.until(ONE + PING * 3, within_s=patience(noise, 3))


@clause("chat.stream.keepalive.a_ping_ends_the_silence")
async def test_pings_are_an_interval_apart(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Between two keepalives there is an interval as well: they do not come in a flood."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await live.until(ONE + PING * 2, within_s=patience(noise, 2))
    first, second = (comment.at for comment in live.exchange.comments[:2])
    # The client may read the first one late, and then the second seems early.
    assert second - first >= INTERVAL_S - EARLY_S - noise.margin_s, f"{second - first:.3f} s apart"


@clause("chat.stream.keepalive.before_first_token")
async def test_pings_before_the_first_token(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A stream whose head has come and whose first event has not is pinged as well."""
    script = worker.script(stream_of(Hold(name="quiet"), ONE, LAST, wire.DONE))
    async with gateway.open_chat(script, stream=True) as live:
        await live.until(PING, within_s=patience(noise))
        await script.release("quiet")
        chat = await live.rest()
    expect_only_pings_added(chat, ONE + LAST + wire.DONE)


@clause("chat.stream.keepalive.between_events")
async def test_no_ping_inside_an_event(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """An event that stops half way is not cut by a keepalive, wherever it stops; behind its end one comes."""
    crlf = wire.event(chunk("two"), newline="\r\n")
    two_lines = wire.event('{"object":"chat.completion.chunk",\n"choices":[]}')
    await together(
        cut_in_two(gateway, worker, noise, TWO, 3),
        cut_in_two(gateway, worker, noise, TWO, len(TWO) // 2),
        cut_in_two(gateway, worker, noise, TWO, len(TWO) - 1),
        cut_in_two(gateway, worker, noise, crlf, len(crlf) - 2),
        cut_in_two(gateway, worker, noise, two_lines, two_lines.index(b"\n") + 1),
        cut_in_two(gateway, worker, noise, wire.event(chunk("two"), name="message"), len(b"event: message\n")),
    )


@clause("completions.stream.keepalive.between_events")
async def test_no_ping_inside_an_event_of_a_completion(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A streamed completion's half event is not cut by a keepalive either."""
    await cut_in_two(gateway, worker, noise, TWO, len(TWO) // 2, path=COMPLETIONS)


@clause("chat.stream.keepalive.crlf")
async def test_lines_that_end_otherwise(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """An event whose lines end in CRLF is followed by keepalives like any other, and stays as it is."""
    event = wire.event(chunk("one"), newline="\r\n")
    script = quiet(worker, event)
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise, event)
        await script.release("quiet")
        chat = await live.rest()
    expect_only_pings_added(chat, event + LAST + wire.DONE)


@clause("chat.stream.keepalive.busy_stream")
async def test_events_that_come_faster(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """While an event comes every 0.4 s there is no keepalive; when they cease there is."""
    steps = [step for number in range(6) for step in (wire.event(chunk(f"{number}")), Pause(seconds=0.4))]
    script = worker.script(stream_of(*steps, ONE, Hold(name="quiet"), LAST))
    async with gateway.open_chat(script, stream=True) as live:
        await live.until(ONE, within_s=10.0)
        await pinged(live, noise)
        expect_none_too_soon(live.exchange, [at for at, _ in (await script.only()).sent])


@clause("chat.stream.keepalive.events_unchanged")
async def test_usage_and_content_between_pings(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """With silences before its second piece and before its usage, a stream has its content and its usage."""
    script = worker.script(Reply(pieces=["Hello", " world"], completion_tokens=2, hold_before={1: "piece", 2: "usage"}))
    usage = {"include_usage": True}
    async with gateway.open_chat(script, stream=True, stream_options=usage) as live:
        for hold in ("piece", "usage"):
            assert await script.reached(hold)
            await live.until(await live.listen(0.3) + PING, within_s=patience(noise, 2))
            await script.release(hold)
        chat = await live.rest()
    expect_between_events(chat)
    assert chat.ended_with_done
    assert content_of(chat.chunks) == "Hello world"
    assert chat.chunks[-1]["choices"] == []
    assert chat.chunks[-1]["usage"]["total_tokens"] == 5


@clause("chat.stream.keepalive.break_visible")
async def test_a_break_behind_pings(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """A stream that breaks off after a keepalive looks as broken as one without."""
    script = worker.script(broken_stream(ONE, Hold(name="quiet"), Reset()))
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise)
        await script.release("quiet")
        chat = await live.rest()
    assert tells_of_the_break(chat), chat.brief()


@clause("chat.stream.keepalive.disconnect")
async def test_a_client_that_leaves_between_pings(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """The worker feels within 100 ms that the client of a pinged stream has gone, not at the next keepalive."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        await pinged(live, noise)
        left_at = live.abort()
        entry = await script.peer_left()
    assert felt_after_s(entry, left_at) <= noise.allow(DISCONNECT_BOUND_S)


@clause("chat.stream.keepalive.default_interval")
async def test_the_default_interval(gateway: Gateway, worker: Worker, noise: Noise) -> None:
    """Without configuration the first keepalive comes after fifteen seconds of silence, and not before."""
    script = quiet(worker)
    async with gateway.open_chat(script, stream=True) as live:
        silent_since = (await live.event()).at
        await live.until(PING, within_s=noise.allow(DEFAULT_INTERVAL_S + LATE_S))
        sent = [at for at, _ in (await script.only()).sent]
    expect_none_too_soon(live.exchange, sent, DEFAULT_INTERVAL_S)
    waited_s = live.exchange.comments[0].at - silent_since
    assert waited_s <= noise.allow(DEFAULT_INTERVAL_S + LATE_S), f"first keepalive after {waited_s:.1f} s"
