"""Servers that lose something when a client leaves: `python -m tests.storm.mutants NAME launch …flags`.

They are mutants as in `tests/mutants` (docs/mutation.md), but each is the whole program, metrics port included, and
what it loses is nothing that a clause speaks of: the storm has to notice.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from hypercorn.asyncio.tcp_server import TCPServer

from reference_server import cli
from tests.mutants.vice import CURRENT, Vice, install, swap

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT: list[Any] = []


async def _stays_in_the_queue(original: Any, desk: Any, ticket: Any) -> Any:
    """Wait for the verdict; who gives up stays in the queue, and nobody gives back the slot it comes to."""
    return await asyncio.shield(asyncio.ensure_future(original(desk, ticket)))


async def _waits_for_idleness(_original: Any, connection: Any) -> None:
    """Read as Hypercorn does: who has gone still has a connection, until it would have been idle for too long."""
    await TCPServer._read_data(connection)


async def _keeps_a_handle(original: Any, this: Any, receive: Any) -> None:
    """Wait until the client has left, and keep a file descriptor for good."""
    await original(this, receive)
    _KEPT.append(os.dup(0))


async def _remembers(original: Any, this: Any, receive: Any) -> None:
    """Wait until the client has left, and remember its request for good, with room for what it may have said."""
    await original(this, receive)
    _KEPT.append((this, bytearray(50_000)))


async def _dies(original: Any, this: Any, receive: Any) -> None:
    """Wait until the client has left; the hundredth is too much."""
    await original(this, receive)
    _KEPT.append(None)
    if len(_KEPT) == 100:
        os._exit(3)


LISTEN = "reference_server.connection:_listen"
MUTANTS: Mapping[str, Vice] = {
    "keeps_the_place_of_who_leaves_the_queue": swap(
        "reference_server.admission.desk:Desk.until_decided", _stays_in_the_queue
    ),
    "keeps_connections_until_they_would_be_idle": swap(
        "reference_server.tcp:ClosingTCPServer._read_data", _waits_for_idleness
    ),
    "keeps_a_handle_of_who_leaves": swap(LISTEN, _keeps_a_handle),
    "remembers_who_leaves": swap(LISTEN, _remembers),
    "dies_under_way": swap(LISTEN, _dies),
}


def main(words: list[str]) -> int:
    """Run the server with one of these mutants; exit status 2 for a name that is none."""
    if not words or words[0] not in MUTANTS:
        sys.stderr.write(f"usage: python -m tests.storm.mutants {{{','.join(MUTANTS)}}} launch [flags]\n")
        return 2
    vice = MUTANTS[words[0]]
    install(vice)
    CURRENT.set(vice)  # inherited by all that the server does
    return cli.main(words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
