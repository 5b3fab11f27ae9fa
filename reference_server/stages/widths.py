"""Widths of integers: which of them fit the types that a gateway and an engine keep counts, ids and seeds in.

The contract names bounds and no widths. An integer outside its width does not fit the schema (a parse failure, as for
the real gateway), while one inside its width and outside its bounds is a value out of range (a validation failure).
Bounds stay the document's: an integer below the width is only looked at here after the model has found it too small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNSIGNED_32 = (0, 2**32 - 1)
_SIGNED_32 = (-(2**31), 2**31 - 1)
_UNSIGNED_64 = (0, 2**64 - 1)
_SIGNED_64 = (-(2**63), 2**63 - 1)

_WIDTHS = {
    "max_completion_tokens": _UNSIGNED_32,
    "max_tokens": _UNSIGNED_32,
    "min_tokens": _UNSIGNED_32,
    "n": _UNSIGNED_32,
    "best_of": _UNSIGNED_32,
    "logprobs": _UNSIGNED_32,
    "top_logprobs": _UNSIGNED_32,
    "stop_token_ids": _UNSIGNED_32,
    "top_k": _SIGNED_32,
    "sampling_seed": _UNSIGNED_64,
    "seed": _SIGNED_64,
    "dimensions": _UNSIGNED_32,
}
"""Least and largest value by field; of a list, of its items. A name means the same on every route."""

_WITHOUT_LOWER_BOUND = {"seed", "dimensions"}
"""Fields for which the document has no lower bound that the model could find broken."""


def beyond(field: str, value: Any) -> str | None:
    """What is wrong with the width of one value, or of one item of a list; `None` when nothing is."""
    width = _WIDTHS.get(field)
    if width is None or isinstance(value, bool) or not isinstance(value, int) or width[0] <= value <= width[1]:
        return None
    return f"must be an integer from {width[0]} to {width[1]}"


def too_large(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Place and problem of every integer above its width, or below it where no bound says so.

    Other integers below their width are out of bounds as well, so the model has found them already.
    """
    for field, (_, largest) in _WIDTHS.items():
        value = body.get(field)
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            problem = beyond(field, item)
            if problem and (item > largest or field in _WITHOUT_LOWER_BOUND):
                yield (f"{field}[{index}]" if isinstance(value, list) else field), problem
