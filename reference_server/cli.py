"""The command `reference-gateway [launch] [flags]`.

Exit status: 0 stopped as asked, 1 could not listen, 2 bad command line. Standard output carries the ready line and
nothing else; the log goes to standard error.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from reference_server import flags, logs
from reference_server.errors import ConfigurationError, StartupError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "reference-gateway"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["launch"]:
        given = given[1:]
    if "--help" in given or "-h" in given:
        sys.stdout.write(flags.usage())
        return 0
    if "--version" in given:
        sys.stdout.write(f"{PROGRAM} {metadata.version('inference-gateway-conformance')}\n")
        return 0
    try:
        settings = flags.parse(given)
        from reference_server import server  # noqa: PLC0415 - two seconds that a bad line or --help should not cost

        logs.begin(settings)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(server.run(settings, sys.stdout))
    except ConfigurationError as error:
        return _fail(error.message, 2)
    except StartupError as error:
        return _fail(error.message, 1)
    except KeyboardInterrupt:  # before the signal handlers were in place
        return 0
    return 0


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"{PROGRAM}: {message}\n")
    return status


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The fast event loop where the platform has it."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
