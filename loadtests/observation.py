"""What the client saw of one request: a line of the record, from the generator to the judges.

Times are ``CLOCK_MONOTONIC`` seconds, as in the workers' journal, so that the two compare on one machine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from conformance.harness.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path

Outcome = Literal["complete", "cut", "left", "refused", "timeout", "malformed"]


@dataclass(slots=True)
class Observation:
    """One request and its answer.

    Attributes:
        marker: what ties it to the worker's journal entries.
        flow: name of the flow it belongs to; ``kind`` the kind of answer asked for.
        scheduled_at: when it was due; None in a closed loop.
        sent_at: when sending began, connecting included.
        head_at, first_byte_at: the read that brought the head, the first byte of the body.
        ended_at: when the answer was complete, or the exchange over in another way.
        outcome: complete; cut (the gateway ended it too early); left (the client did, on purpose); refused (no
            connection); timeout (silence, or not over when the run was); malformed (no HTTP).
        events: time of each data event; ``tokens`` of those that bring text; ``pings`` time of each comment; ``reads``
            number of reads.
        error_code, retry_after, preempted: of the headers; ``error_body`` the code in an error's body.
        ratelimit_headers: names of headers that start with x-ratelimit.
        broken: invariants that did not hold, as [clause, what was seen]; ``undecided`` those that the worker's answer
            cannot decide, because its text or its usage is not known.
    """

    marker: str
    flow: str
    kind: str
    sent_at: float
    scheduled_at: float | None = None
    status: int | None = None
    head_at: float | None = None
    first_byte_at: float | None = None
    ended_at: float = 0.0
    outcome: Outcome = "complete"
    problem: str = ""
    body_bytes: int = 0
    reads: int = 0
    events: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    pings: list[float] = field(default_factory=list)
    error_code: str | None = None
    error_body: str | None = None
    retry_after: str | None = None
    preempted: str | None = None
    ratelimit_headers: list[str] = field(default_factory=list)
    broken: list[list[str]] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """Whether it is a success that came to its end."""
        return self.status == 200 and self.outcome == "complete"  # noqa: PLR2004 - HTTP's word for success

    @property
    def first_token_at(self) -> float | None:
        """The first event with text."""
        return self.tokens[0] if self.tokens else None

    @property
    def shed(self) -> bool:
        """Whether the gateway sent it away for want of room."""
        return self.status in {429, 503}

    @property
    def dispatch_delay_s(self) -> float | None:
        """How late the generator was; None in a closed loop."""
        return None if self.scheduled_at is None else self.sent_at - self.scheduled_at

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Observation:
        """Read what `to_line` wrote."""
        plain: dict[str, Any] = json.loads(line)
        return cls(**plain)


def read_all(folder: Path) -> list[Observation]:
    """Everything generators recorded in a folder, in the order of sending; without a last line that is cut off.

    Raises:
        HarnessError: a line cannot be read.
    """
    found: list[Observation] = []
    for file in sorted(folder.glob("observations-*.jsonl")):
        for number, line in enumerate(file.read_text("utf-8").rpartition("\n")[0].splitlines(), 1):
            try:
                found.append(Observation.from_line(line))
            except (ValueError, TypeError) as problem:
                raise HarnessError(f"{file}, line {number}: no observation ({problem})") from problem
    return sorted(found, key=lambda each: each.sent_at)
