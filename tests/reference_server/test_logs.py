"""The log shows where an exception came from and never what it says."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NoReturn

from reference_server.errors import StartupError
from reference_server.logs import DiscreetFormatter, loop_fault

if TYPE_CHECKING:
    import pytest

SECRET = "sk-xyzzy"


def _fails(words: str) -> NoReturn:
    raise ValueError(words)


def _logged(error: BaseException) -> str:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "it broke", (), (type(error), error, error.__traceback__))
    return DiscreetFormatter("%(message)s").format(record)


def _chained() -> BaseException:
    try:
        try:
            _fails(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error
    except KeyError as error:
        return ExceptionGroup(SECRET, [error, RuntimeError(SECRET)])


def test_an_exception_is_shown_without_its_words() -> None:
    """Types and places of an exception, of those in it and behind it; no word of any of them."""
    text = _logged(_chained())
    assert SECRET not in text
    for told in ("it broke", "Traceback", "ExceptionGroup", "KeyError", "RuntimeError", "ValueError", "in _fails"):
        assert told in text


def test_what_we_and_the_system_say_ourselves_is_shown() -> None:
    """Our own sentences and the system's reasons hold nothing of a client's."""
    assert "no port is free" in _logged(StartupError("no port is free"))
    assert "Broken pipe" in _logged(OSError(32, "Broken pipe"))


def test_a_circle_of_exceptions_has_an_end() -> None:
    """Two exceptions that are each behind the other are shown once each."""
    first, second = ValueError(), KeyError()
    first.__context__, second.__context__ = second, first
    assert _logged(first).count("ValueError") == 1


async def test_the_event_loop_complains_without_arguments(caplog: pytest.LogCaptureFixture) -> None:
    """A callback that fails is told by its exception's place; its arguments are not shown."""
    asyncio.get_running_loop().set_exception_handler(loop_fault)
    asyncio.get_running_loop().call_soon(_fails, SECRET)
    with caplog.at_level(logging.ERROR, "reference_server"):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    (record,) = caplog.records
    assert "the event loop complains" in record.message
    assert SECRET not in record.message
    record.exc_text = None  # what pytest's own handler has made of it
    assert SECRET not in DiscreetFormatter("%(message)s").format(record)
