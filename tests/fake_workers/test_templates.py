"""Templates: one script for every marker of a kind, and the pace of scripted replies."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from fake_workers import Chunk, Control, Fleet, Reply, Script, Wire, new_marker, wire
from fake_workers.errors import ControlRefused

RawFactory = Any


async def _ask(fleet: Fleet, raw: RawFactory, marker: str, *, stream: bool = True) -> str:
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": marker}]}
    async with raw(fleet.urls[1]) as client:
        await client.post("/v1/chat/completions", json.dumps(body).encode(), "connection: close")
        await client.all()
        return b"".join(client.reads).decode()


async def test_a_template_answers_each_marker_with_its_own_text(
    fleet: Fleet, control: Control, raw: RawFactory
) -> None:
    """Two markers of a kind get the same reply, each with its own marker in it; other kinds are not touched."""
    await control.put_template("00a1", Script.of(Reply(pieces=["Hello ", "{marker}"])))
    first, second, other = new_marker("00a1"), new_marker("00a1"), new_marker("00a2")
    assert first != second
    for marker in (first, second):
        assert f'"content":"{marker}"' in await _ask(fleet, raw, marker)
    assert "igc-" not in (await _ask(fleet, raw, other)).replace(other, "", 0).partition("data:")[2]


async def test_a_script_of_the_marker_itself_comes_before_the_template(
    fleet: Fleet, control: Control, raw: RawFactory
) -> None:
    """A marker with a script of its own gets that one, although a template of its kind exists."""
    marker = new_marker("00a3")
    await control.put_template("00a3", Script.of(Reply(pieces=["template"])))
    await control.put_script(marker, Script.of(Reply(pieces=["own"])))
    answer = await _ask(fleet, raw, marker)
    assert '"own"' in answer
    assert "template" not in answer


async def test_wire_templates_carry_the_marker_in_their_bytes(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """The place of the marker is filled in chunks too."""
    await control.put_template("00a4", Script.of(Wire(steps=[wire.sse_head(), Chunk(data=b"data: {marker}\n\n")])))
    marker = new_marker("00a4")
    assert f"data: {marker}\n\n" in await _ask(fleet, raw, marker)


async def test_a_reply_keeps_its_pace(fleet: Fleet, control: Control, raw: RawFactory) -> None:
    """Pauses come before the pieces they are asked for, as the journal's times show; a whole answer takes as long."""
    marker = new_marker()
    script = Script.of(Reply(pieces=["a", "b", "c"], pause_before={-1: 0.06, 0: 0.05}, every_s=0.04))
    await control.put_script(marker, script)
    began = time.monotonic()
    await _ask(fleet, raw, marker)
    (entry,) = await control.entries(marker, at_least=1)
    times = [at for at, _ in entry.sent]
    silences = [gap for gap in (later - earlier for earlier, later in itertools.pairwise(times)) if gap > 0.03]
    assert times[0] - began >= 0.06
    assert len(silences) >= 3  # a busy machine may add some
    assert sum(gap >= 0.04 for gap in silences) >= 3
    assert max(silences) >= 0.05
    began = time.monotonic()
    await _ask(fleet, raw, marker, stream=False)
    assert time.monotonic() - began >= 0.06 + 0.05 + 0.04 + 0.04


@pytest.mark.parametrize(
    ("kind", "script", "said"),
    [
        ("zz", Script.of(Reply()), "four lower-case hex digits"),
        ("00A1", Script.of(Reply()), "four lower-case hex digits"),
        ("00a1", Script.of(Reply(), Reply()), "exactly one answer"),
    ],
)
async def test_bad_templates_are_refused(control: Control, kind: str, script: Script, said: str) -> None:
    """A kind that is none, or a template with several answers, is refused with what it takes instead."""
    with pytest.raises(ControlRefused, match=said):
        await control.put_template(kind, script)
