"""Watches, while a run goes on, how late this machine wakes whoever sleeps: it adds as much to whatever is measured."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

SLEEP_S = 0.01
MOST_KEPT = 10_000


class Watch:
    """`with Watch() as watch: ...`; `watch.delays_s` are the delays of short sleeps meanwhile, in seconds.

    The latest of them, if there are very many; `watch.worst_s` is the worst of all.
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
        self.delays_s: deque[float] = deque(maxlen=MOST_KEPT)
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
            delay_s = time.monotonic() - before - SLEEP_S
            self.worst_s = max(self.worst_s, delay_s)
            self.delays_s.append(delay_s)
