"""Where observations go: to locust's statistics, and as lines into a folder if one is named.

The folder gets two files a process: `observations-*.jsonl`, a line of JSON for each exchange that is over, and
`begun-*.txt`, the time of each sending. So it is known at any moment, and after any end, how many are under way.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from locust.env import Environment

    from loadtests.observation import Observation
    from loadtests.traffic import Flow

DISPATCH = "DISPATCH"
_FILES: dict[int, tuple[TextIO, TextIO]] = {}


class Failed(Exception):  # noqa: N818 - locust shows the name before the text
    """What locust counts as a failed request."""


def open_in(environment: Environment, folder: Path) -> None:
    """Keep a record in a folder from now on; OSError when it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    begun, over = (
        folder / f"{name}-{os.getpid()}.{end}" for name, end in (("begun", "txt"), ("observations", "jsonl"))
    )
    _FILES[id(environment)] = (begun.open("w", encoding="utf-8"), over.open("w", encoding="utf-8"))


def close(environment: Environment) -> None:
    """End the record; safe to call when there is none."""
    for file in _FILES.pop(id(environment), ()):
        file.close()


def begin(environment: Environment, flow: Flow, at: float, due: float | None) -> None:
    """Note that a request is about to be sent, and how late that is."""
    if files := _FILES.get(id(environment)):
        files[0].write(f"{at}\n")
        files[0].flush()
    if due is not None:
        # Now, and not when the answer is there: locust counts the time between the first of these and the last.
        _fire(environment, DISPATCH, flow, at - due)


def note(environment: Environment, flow: Flow, observation: Observation) -> None:
    """Keep an observation."""
    if files := _FILES.get(id(environment)):
        files[1].write(observation.to_line() + "\n")
        files[1].flush()
    due = observation.sent_at if observation.scheduled_at is None else observation.scheduled_at
    failed = failure(flow, observation)
    _fire(environment, "POST", flow, observation.ended_at - due, size=observation.body_bytes, failed=failed)
    if observation.first_token_at is not None:
        _fire(environment, "TTFT", flow, observation.first_token_at - observation.sent_at)


def _fire(environment: Environment, word: str, flow: Flow, took_s: float, *, size: int = 0, failed: str = "") -> None:
    named: dict[str, Any] = {"request_type": word, "name": flow.name, "response": None, "context": {}}
    error = Failed(failed) if failed else None
    environment.events.request.fire(response_time=1000.0 * took_s, response_length=size, exception=error, **named)


def failure(flow: Flow, observation: Observation) -> str:
    """Why an exchange failed by itself, clause first; empty when it did not."""
    if observation.broken:
        clause, what = observation.broken[0]
        return f"{clause}: {what}"
    if observation.outcome not in {"complete", "left"}:
        return f"{observation.outcome}: {observation.problem}"
    if observation.outcome == "left" or observation.status == 200:  # noqa: PLR2004 - HTTP's word for success
        return ""
    if observation.status in flow.tolerates and observation.retry_after is not None:
        return ""
    return f"status {observation.status}, code {observation.error_code}, Retry-After {observation.retry_after}"
