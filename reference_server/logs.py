"""The log on standard error, in which no key and no word of a prompt ever stands, whatever goes wrong.

Two things would put them there. Libraries log what they read (the HTTP/2 library every header, at `debug`), so the
level that is asked for is that of this program, and libraries write warnings only. And exceptions quote what they could
not digest (Hypercorn's holds the first bytes of a connection), so they are shown by type and place, without words.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

from reference_server.errors import ReferenceServerError

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from reference_server.settings import Settings

LOG = logging.getLogger("reference_server")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def begin(settings: Settings) -> None:
    """Write the log to standard error."""
    level = _LEVELS[settings.log_level]
    handler = logging.StreamHandler()
    handler.setFormatter(DiscreetFormatter(_FORMAT))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
    LOG.setLevel(level)
    logging.getLogger("reference_server.http").setLevel(max(level, logging.WARNING))
    logging.getLogger("reference_server.audit").setLevel(logging.INFO)  # asked for by a flag of its own


def loop_fault(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop has to complain about; its own way of saying it shows the arguments of callbacks."""
    complaint = str(context.get("message", "")).partition(" callback ")[0]
    LOG.error("the event loop complains: %s", complaint, exc_info=context.get("exception"))


class DiscreetFormatter(logging.Formatter):
    """Shows where an exception came from, and not what it says."""

    def formatException(  # noqa: N802 - the name in the standard library
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """An exception and those behind it."""
        return "" if ei[1] is None else "Traceback, without what was said:\n" + "".join(_shown(ei[1], set()))


def _shown(error: BaseException, seen: set[int]) -> list[str]:
    seen.add(id(error))
    said = f": {error.message}" if isinstance(error, ReferenceServerError) else ""
    said = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else said
    lines = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__)).format()
    lines.append(f"{type(error).__module__}.{type(error).__qualname__}{said}\n")
    inner = list(error.exceptions) if isinstance(error, BaseExceptionGroup) else []
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    for other in [*inner, *([behind] if behind is not None else [])]:
        if id(other) not in seen:
            lines += ["and there:\n", *_shown(other, seen)]
    return lines
