"""Which id a request goes by, and what of it a worker hears.

The first of the configured headers that is present decides, whatever comes after it. A usable id is 1 to 128 visible
ASCII characters. Anything else is replaced by a generated one, and the worker is told the replacement, so that both
sides' logs meet; an id generated because the client sent none stays between client and gateway.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER = "x-request-id"
_USABLE = re.compile(r"[\x21-\x7e]{1,128}")
_ALPHABET = string.ascii_letters + string.digits
_GENERATED_LENGTH = 24
_PREFIXES = {"/v1/chat/completions": "chatcmpl-", "/v1/completions": "cmpl-"}


@dataclass(frozen=True, slots=True)
class RequestId:
    """The id in use.

    `replaces` is the header whose unusable value it stands in for; `None` where it is the client's own, or the client
    sent none.
    """

    value: str
    replaces: str | None = None


def choose(headers: Sequence[tuple[str, str]], names: Sequence[str], path: str) -> RequestId:
    """The id of a request with these (lower-case) headers, `names` in order of preference."""
    for name in names:
        for key, value in headers:
            if key == name:
                return RequestId(value) if _USABLE.fullmatch(value) else RequestId(generate(path), replaces=name)
    return RequestId(generate(path))


def generate(path: str) -> str:
    """A new id; its prefix tells the route, as in the ids that engines give their answers."""
    prefix = _PREFIXES.get(path, "req-")
    return prefix + "".join(random.choices(_ALPHABET, k=_GENERATED_LENGTH))  # noqa: S311 - unique, not secret
