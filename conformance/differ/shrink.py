"""Making a disagreement small: whatever can go without changing it, goes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.differ.requests import JSON_TYPE, Request, ordinary_body

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MOST_TRIES = 150
Path = tuple[str | int, ...]


async def shrink(request: Request, still: Callable[[Request], Awaitable[bool]]) -> Request:
    """The smallest request found that still shows the same disagreement.

    Args:
        request: shows it.
        still: sends a candidate and says whether it shows it, too.
    """
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(request):
            tries += 1
            if tries > MOST_TRIES:
                return request
            if await still(candidate):
                request, smaller = candidate, True
                break
    return request


def _candidates(request: Request) -> Iterator[Request]:
    """Simpler requests, those that leave out most first."""
    if request.twist:
        yield replace(request, twist="")
    if request.headers != (JSON_TYPE,):
        yield replace(request, headers=(JSON_TYPE,))
        for index in range(len(request.headers)):
            yield replace(request, headers=request.headers[:index] + request.headers[index + 1 :])
    if request.answer != "plain":
        yield replace(request, answer="plain")
    ordinary = ordinary_body(request.kind)
    for key, value in ordinary.items():
        if request.body.get(key) != value:
            yield replace(request, body={**request.body, key: value})
    for path in sorted(_paths(request.body), key=len):
        if path[0] not in ordinary or request.body[path[0]] != ordinary[path[0]]:
            yield replace(request, body=_without(request.body, path))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every member and item inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in inside:
        yield (*path, step)
        yield from _paths(below, (*path, step))


def _without(body: Any, path: Path) -> Any:
    changed = copy.deepcopy(body)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed
