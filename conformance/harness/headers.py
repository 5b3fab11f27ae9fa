"""Header fields as they came over the wire: order and repeats kept, names compared without regard to case."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Headers:
    """An ordered, case-insensitive multi-map of header fields (values decoded as latin-1)."""

    def __init__(self, items: Iterable[tuple[str, str]] = ()) -> None:
        self.items: list[tuple[str, str]] = list(items)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of `name`, or `default`."""
        return next((value for key, value in self.items if key.lower() == name.lower()), default)

    def get_all(self, name: str) -> list[str]:
        """Every value of `name`, in the order received."""
        return [value for key, value in self.items if key.lower() == name.lower()]

    @property
    def names(self) -> list[str]:
        """Lower-case names in the order received, repeats included."""
        return [key.lower() for key, _ in self.items]

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise AssertionError(f"no header {name!r} among {self.names}")
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Headers({self.items!r})"
