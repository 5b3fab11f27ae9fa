"""`python -m tests.mutants.serve NAME launch …flags`: the reference server with one vice, as a program of its own.

It takes the reference server's flags and prints the same ready line, so the suite judges it like any target:
`CONFORMANCE_COMMAND_REFERENCE="python -m tests.mutants.serve NAME" pytest conformance --clauses …`.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import TYPE_CHECKING

from reference_server.errors import ConfigurationError, StartupError
from tests.mutants import hosting, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mutants.vice import Mutant, Vice


async def _run(vice: Vice, arguments: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    settings = hosting.settings_of(arguments)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    base = await hosting.base(settings, vice)
    listening = await hosting.listen(base, vice, settings.port)
    sys.stdout.write(json.dumps({"ready": True, "url": listening.url}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    await listening.stop()
    await base.stop()


def main(words: list[str], known: Mapping[str, Mutant]) -> int:
    """Run the command with one of these mutants; exit status 2 for a bad command line."""
    if not words or words[0] not in known:
        sys.stderr.write(
            f"no mutant {words[0] if words else ''!r}; `python -m tests.mutants list` names them. "
            "Usage: python -m tests.mutants.serve NAME launch [flags of the reference server]\n"
        )
        return 2
    try:
        asyncio.run(_run(known[words[0]].vice, words[1:]))
    except (ConfigurationError, StartupError) as problem:
        sys.stderr.write(f"{problem.message}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], named.mutants()))
