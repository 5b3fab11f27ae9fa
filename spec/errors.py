"""The table of error codes: which status, which `Retry-After`, which body shape, which header (`errors.yaml`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from spec.features import features
from spec.loading import HERE, SpecError, label, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

Shape = Literal["envelope", "parse", "validation", "empty", "plain"]
SHAPES: tuple[Shape, ...] = ("envelope", "parse", "validation", "empty", "plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One row of the table.

    `statuses` are the HTTP statuses the code may come with (an engine-mapped code has several).
    `retry_after` is the number of seconds the header carries, `"computed"` where it depends on the moment,
    `"configured"` where it is a setting's value, or None where the contract promises no such header.
    `shape` names the body: the gateway envelope, one of the two request-failure shapes, nothing at all, or plain text.
    `header` says whether `X-SMG-Error-Code` repeats the code.
    """

    code: str
    statuses: tuple[int, ...]
    shape: Shape
    feature: str
    when: str
    workers: tuple[str, ...] = ("http", "grpc")
    retry_after: int | Literal["computed", "configured"] | None = None
    extra_headers: tuple[tuple[str, str], ...] = ()

    @property
    def header(self) -> bool:
        """Whether the answer carries `X-SMG-Error-Code`: only what uses the envelope does."""
        return self.shape == "envelope"

    @property
    def status(self) -> int:
        """The one status of the code.

        Raises:
            ValueError: the code may come with several.
        """
        if len(self.statuses) != 1:
            raise ValueError(f"{self.code} comes with one of {self.statuses}; choose by the cause")
        return self.statuses[0]


@cache
def table() -> Mapping[str, ErrorCode]:
    """Every error code of the contract by its name; read once.

    Raises:
        SpecError: a row of `errors.yaml` is malformed, names an unknown feature or shape, or repeats a code.
    """
    path = HERE / "errors.yaml"
    rows: dict[str, ErrorCode] = {}
    for number, row in enumerate(read_yaml(path) or [], start=1):
        code = _row(f"{label(path)}, row {number}", row)
        if code.code in rows:
            raise SpecError(f"{label(path)}, row {number}", f"the code {code.code!r} is there twice", "Merge the rows")
        rows[code.code] = code
    return MappingProxyType(rows)


def _row(where: str, row: Any) -> ErrorCode:
    """One row of the file, checked."""
    try:
        statuses = row["status"]
        made = ErrorCode(
            **{key: value for key, value in row.items() if key not in {"status", "workers", "extra_headers"}},
            statuses=tuple(statuses) if isinstance(statuses, list) else (statuses,),
            workers=tuple(row.get("workers", ("http", "grpc"))),
            extra_headers=tuple(sorted(row.get("extra_headers", {}).items())),
        )
    except (TypeError, KeyError, AttributeError) as problem:
        raise SpecError(where, f"is malformed ({problem})", "Compare with its neighbours and ErrorCode") from problem
    if made.shape not in SHAPES:
        raise SpecError(where, f"unknown shape {made.shape!r}", f"Use one of {', '.join(SHAPES)}")
    if made.feature not in features():
        raise SpecError(where, f"unknown feature {made.feature!r}", "Use one from spec/features.yaml")
    if not all(isinstance(status, int) and 400 <= status <= 599 for status in made.statuses):  # noqa: PLR2004  # HTTP's
        raise SpecError(where, f"status {made.statuses} is no HTTP error status", "Use numbers from 400 to 599")
    return made
