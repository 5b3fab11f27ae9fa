"""Slow readers beside brisk ones: some clients sip, some stop reading; the others must not feel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_workers.script import Chunk, Wire
from fake_workers.wire import DONE, sse_head
from loadtests.scenario import Data, Scenario
from loadtests.scenarios.common import chunk, invariants
from loadtests.traffic import MARKER, Flow, Kind, Manners, reply

if TYPE_CHECKING:
    from loadtests.findings import Findings

BACKPRESSURE = "chat.stream.backpressure"
MIB = 1 << 20
PIECE = "so it is " * 7282  # about 64 KiB
SOCKET_BUFFERS_BYTES = 64 * MIB
"""More than the socket buffers of both connections hold on a generously tuned machine: what goes beyond is hoarded."""


def _long(digits: str, name: str, times: int, *, whole: bool) -> Kind:
    """An answer far longer than any buffer, as fast as it is taken; `whole`: its text is known to the last letter."""
    body = [Chunk(data=chunk(MARKER, role=True)), Chunk(data=chunk(PIECE), times=times)]
    end = [Chunk(data=chunk("", finish="stop")), Chunk(data=DONE)]
    return Kind(digits, name, Wire(steps=[sse_head(), *body, *end]), text=MARKER + times * PIECE if whole else None)


BRISK = Flow("brisk", (reply("3a01", "short", tokens=8, first_s=0.02, every_s=0.02),))
# More than the kernel keeps for a sender, so that the gateway feels how slowly it is taken.
SIPPING = Flow(
    "sipping",
    (_long("3a02", "5 MiB", 80, whole=True),),
    loop="closed",
    manners=Manners(read_bytes=32768, read_every_s=0.005),
)
STOPPED = Flow(
    "stopped",
    (_long("3a03", "128 MiB", 2048, whole=False),),
    loop="closed",
    think_s=0.5,
    manners=Manners(read_bytes=16384, stop_after_bytes=131072, stop_for_s=2.0, leaves_after_stop=True),
)


def judge(data: Data, findings: Findings) -> None:
    """A worker is held back by a client that does not read; brisk clients are served in full."""
    invariants(data, findings, served=[BRISK.name, SIPPING.name])
    findings.owe(BACKPRESSURE, occasion="no client stopped reading")
    for each in data.flow(STOPPED.name):
        entry = data.entry(each)
        if each.outcome != "left" or entry is None or each.body_bytes < STOPPED.manners.stop_after_bytes:
            continue
        taken = sum(size for at, size in entry.sent if at <= each.ended_at)
        seen = f"{each.marker}: the worker got rid of {taken // MIB} MiB for a client that read {each.body_bytes} bytes"
        findings.hold(BACKPRESSURE, taken <= SOCKET_BUFFERS_BYTES, seen)


SCENARIO = Scenario(
    name="slow-readers",
    about="some clients read in sips or stop reading; brisk ones beside them must not feel it",
    configuration="load",
    flows=(BRISK, SIPPING, STOPPED),
    judge=judge,
    rate=5.0,
)
