"""Markers: the thread that ties a request to its script through any gateway.

A marker is ``igc-`` followed by 16 lower-case hex digits. It is searched in raw bytes, not in parsed JSON, because the
requests that matter most are the ones nobody can parse.
"""

from __future__ import annotations

import re
import secrets

PREFIX = "igc-"
_MARKER = re.compile(rb"igc-[0-9a-f]{16}")
KIND_DIGITS = 4
_KIND = re.compile(r"[0-9a-f]{4}\Z")
_WHOLE = re.compile(r"igc-[0-9a-f]{16}\Z")


def new_marker(kind: str = "") -> str:
    """Return a marker that nobody has used before; with ``kind`` (four hex digits) one that a template answers."""
    return PREFIX + kind + secrets.token_hex(8)[len(kind) :]


def kind_of(marker: str) -> str:
    """Return the four digits that choose the template of a marker without a script of its own."""
    return marker[len(PREFIX) : len(PREFIX) + KIND_DIGITS]


def is_kind(text: str) -> bool:
    """Say whether the text may name a template."""
    return _KIND.match(text) is not None


def is_marker(text: str) -> bool:
    """Say whether the whole text is one marker."""
    return _WHOLE.match(text) is not None


def find_marker(*places: bytes) -> str | None:
    """Return the first marker in the first place that has one (callers pass body, then head)."""
    for place in places:
        found = _MARKER.search(place)
        if found is not None:
            return found.group().decode("ascii")
    return None
