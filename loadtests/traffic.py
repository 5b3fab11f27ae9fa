"""What a scenario sends: kinds of answers asked of the worker, and flows of requests.

A kind is a template of the fake workers (`Control.put_template`), so the text, the usage and the pace of every answer
are known beforehand, and the marker of a request comes back in the text of its answer and in no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fake_workers.script import Reply, Script, Wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadtests.arrivals import Pattern

MARKER = "{marker}"
DRAIN_S = 30.0  # for requests under way when sending is over; what is left then is cut
WORDS = ("so", "it", "is", "up", "to", "us", "by", "no", "on", "we")


@dataclass(frozen=True)
class Kind:
    """One kind of answer.

    Attributes:
        digits: four hex digits that markers of the kind start with.
        name: for reports.
        answer: what the worker says; its text holds the marker.
        text: the text the client must get, ``{marker}`` in it; None where it is too long to keep.
        prompt_tokens, completion_tokens: usage the worker reports; None where it reports none.
    """

    digits: str
    name: str
    answer: Reply | Wire
    text: str | None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    @property
    def script(self) -> Script:
        """The template."""
        return Script(answers=[self.answer])


def reply(
    digits: str,
    name: str,
    *,
    tokens: int,
    every_s: float,
    first_s: float = 0.0,
    silent_s: float = 0.0,
    prompt_tokens: int = 0,
) -> Kind:
    """Describe a stream of so many tokens: silence before any byte, before the first token, a pace."""
    # The marker is in every token, so that none of them could be another stream's without being noticed.
    pieces = [MARKER, *(f" {WORDS[number % len(WORDS)]}-{MARKER}" for number in range(tokens - 1))]
    prompt = prompt_tokens or 10 + int(digits, 16) % 50  # kinds differ, so that swapped usage shows
    pauses = {place: seconds for place, seconds in ((-1, silent_s), (0, first_s)) if seconds}
    answer = Reply(pieces=pieces, prompt_tokens=prompt, completion_tokens=tokens, pause_before=pauses, every_s=every_s)
    return Kind(digits, name, answer, "".join(pieces), prompt, tokens)


@dataclass(frozen=True)
class Manners:
    """How the clients of a flow behave.

    Attributes:
        leave_within_s: they leave after a random time from 0 to this; None: they stay.
        read_bytes, read_every_s: they read at most so many bytes at a time, so many seconds apart; 0 reads at once.
        stop_after_bytes, stop_for_s: after so many bytes of body they stop reading for that long, and go on then,
            or with `leaves_after_stop` leave.
        patience_s: longest silence they bear.
    """

    leave_within_s: float | None = None
    read_bytes: int = 0
    read_every_s: float = 0.0
    stop_after_bytes: int = 0
    stop_for_s: float = 0.0
    leaves_after_stop: bool = False
    patience_s: float = 30.0


@dataclass(frozen=True)
class Flow:
    """Requests of one sort; a locust user class serves one flow.

    Attributes:
        name: of the flow and of its user class in lower case.
        kinds: kinds of answers, chosen at random with equal odds.
        loop: "open" sends when requests are due, "closed" when the one before is over.
        pattern: arrivals of an open loop, unless the command line says otherwise.
        share: arrivals per second as a multiple of the rate asked for.
        users: how many run in a run of `python -m loadtests`.
        headers: further request headers.
        think_s: pause between the requests of a closed loop.
        burst_s, lull_s: a closed loop rests for the lull, then works for the burst, again and again; 0: it never rests.
        tolerates: statuses beside 200 that are part of the game, when they come with a Retry-After.
        manners: how the clients behave.
    """

    name: str
    kinds: tuple[Kind, ...]
    loop: Literal["open", "closed"] = "open"
    pattern: Pattern = "poisson"
    share: float = 1.0
    users: int = 1
    headers: tuple[tuple[str, str], ...] = ()
    think_s: float = 0.0
    burst_s: float = 0.0
    lull_s: float = 0.0
    tolerates: tuple[int, ...] = ()
    manners: Manners = field(default_factory=Manners)


def kinds_of(flows: Iterable[Flow]) -> list[Kind]:
    """All kinds of some flows, each once."""
    return list({kind.digits: kind for flow in flows for kind in flow.kinds}.values())
