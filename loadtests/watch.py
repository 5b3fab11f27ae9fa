"""Watches, while a run goes on, how late this machine wakes whoever sleeps: it adds as much to whatever is measured."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

SLEEP_S = 0.01


class Watch:
    """`with Watch() as watch: ...; watch.worst_s` is the worst delay of a short sleep meanwhile, in seconds."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            before = time.monotonic()
            time.sleep(SLEEP_S)
            self.worst_s = max(self.worst_s, time.monotonic() - before - SLEEP_S)
