"""What a mutant is: a few functions of the reference server replaced while one gateway is answering, and only there.

Every replaceable function is wrapped once a process. The wrapper looks up which mutant the current request belongs to
(a context variable, inherited by every task of the request) and calls the mutant's function instead. So hundreds of
mutants live in one process, each behind a port of its own, beside gateways without any vice.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.mutants.fronts import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reference_server.settings import Settings

Replacement = Any
"""A function that takes the original first, then the original's arguments."""

_ITEM = re.compile(r"(?P<name>\w+)\[(?P<key>\w+)\]\[(?P<index>\d+)\]")


@dataclass(frozen=True)
class Vice:
    """What is wrong with a gateway.

    Attributes:
        swaps: `module:function`, `module:Class.method` or `module:TABLE[key][index]` → what is called instead.
        settings: a change of the gateway's settings.
        front: bytes of either direction changed before the gateway, or its client, gets them.
    """

    swaps: Mapping[str, Replacement] = field(default_factory=dict)
    settings: Callable[[Settings], Settings] | None = None
    front: Front | None = None


@dataclass(frozen=True)
class Front:
    """A byte-level proxy before the gateway: what each direction does to the bytes that arrive.

    With `held` the client's connection stays open when the gateway closes its own. A `reading` is made for each
    connection and decides about the client's bytes with what it remembers, in place of `to_gateway`.
    """

    to_gateway: Callable[[bytes], bytes] = bytes
    to_client: Callable[[bytes], bytes] = bytes
    held: bool = False
    reading: Callable[[], Reading] | None = None

    def open(self) -> Reading:
        """What reads one connection's bytes."""
        return self.reading() if self.reading else Reading(self.to_gateway)


@dataclass(frozen=True)
class Mutant:
    """A wrong gateway: its name, what is wrong in a sentence, and the clauses (ids or globs) it is made to break.

    One that is tried `alone` sees one check at a time, because what it does depends on everyone's connections or on
    how the bytes of one happen to arrive.
    """

    name: str
    about: str
    breaks: tuple[str, ...]
    vice: Vice
    alone: bool = False


CURRENT: ContextVar[Vice | None] = ContextVar("vice", default=None)
REGISTRY: dict[str, Mutant] = {}
_INSTALLED: set[str] = set()


def mutant(*, breaks: Sequence[str]) -> Callable[[Callable[[], Vice]], Callable[[], Vice]]:
    """Register the vice that a function makes, under the function's name; its docstring says what is wrong."""

    def register(make: Callable[[], Vice]) -> Callable[[], Vice]:
        about = (make.__doc__ or "").strip().splitlines()[0]
        add(make.__name__, about, breaks, make())
        return make

    return register


def add(name: str, about: str, breaks: Sequence[str], vice: Vice, *, alone: bool = False) -> None:
    """Register one mutant (families call this for each of their members).

    Raises:
        ValueError: the name is taken, or nothing is said about it.
    """
    if name in REGISTRY or not about or not breaks:
        raise ValueError(f"mutant {name}: needs a name of its own, a sentence, and clauses it breaks")
    REGISTRY[name] = Mutant(name, about, tuple(breaks), vice, alone)


def swap(target: str, replacement: Replacement) -> Vice:
    """A vice that is one replaced function."""
    return Vice({target: replacement})


def both(*vices: Vice) -> Vice:
    """Several vices at once."""
    swaps = {target: each for vice in vices for target, each in vice.swaps.items()}
    if len(swaps) < sum(len(vice.swaps) for vice in vices):
        raise ValueError("two vices replace the same function")
    settings = next((vice.settings for vice in vices if vice.settings), None)
    return Vice(swaps, settings, next((vice.front for vice in vices if vice.front), None))


def install(vice: Vice) -> None:
    """Make the functions that a vice replaces replaceable; once a function and process."""
    for target in vice.swaps:
        if target not in _INSTALLED:
            _INSTALLED.add(target)
            _wrap(target)


def _wrap(target: str) -> None:
    module_name, _, path = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    if entry := _ITEM.fullmatch(path):
        table: dict[str, tuple[Any, ...]] = getattr(owner, entry["name"])
        row = list(table[entry["key"]])
        row[int(entry["index"])] = _switch(target, row[int(entry["index"])])
        table[entry["key"]] = tuple(row)
        return
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    original = owner.__dict__[name]
    if isinstance(original, property):
        setattr(owner, name, property(_switch(target, original.fget)))
    else:
        setattr(owner, name, _switch(target, original))


def _switch(target: str, original: Any) -> Any:
    """The original, or what the current mutant has in its place."""

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        vice = CURRENT.get()
        replacement = vice.swaps.get(target) if vice is not None else None
        if replacement is None:
            return original(*arguments, **named)
        return replacement(original, *arguments, **named)

    if not inspect.iscoroutinefunction(original):
        return call

    @functools.wraps(original)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        """The same for a coroutine function: a framework that is given it looks what it is."""
        return await call(*arguments, **named)

    return call_async
