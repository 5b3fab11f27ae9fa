"""Each judge on records made by hand: what is right passes, what is wrong fails, and what was not shown is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loadtests.findings import Findings
from loadtests.scenarios import admission, disconnect_storm, keepalive, preemption, slow_readers, steady
from tests.loadtests.kit import data_of, journaled, judged, observed

if TYPE_CHECKING:
    from fake_workers.journal import Entry
    from loadtests.observation import Observation

    Pairs = list[tuple[Observation, Entry | None]]

SHED = {
    "status": 429,
    "error_body": "admission_queue_full",
    "error_code": "admission_queue_full",
    "retry_after": "2",
}
PREEMPTED = {
    "status": 503,
    "error_body": "scheduler_preempted",
    "error_code": "scheduler_preempted",
    "retry_after": "1",
    "preempted": "true",
}
CLASSES = {"classes": {"bulk": {"starvation_threshold_secs": 1}}}


def full_house(order: tuple[int, int] = (0, 1)) -> Pairs:
    """One slot, two places: one runs, two wait and come in this order, a fourth is shed."""
    runs = observed(0, "crowd", 0.0, 1.0)
    waiting = [observed(number, "crowd", 0.2 * number, 2.0 + number) for number in (1, 2)]
    starts = [(1.0, 2.0), (2.1, 3.0)]
    came = [(waiting[n], journaled(waiting[n], *starts[place])) for place, n in enumerate(order)]
    shed = observed(9, "crowd", 0.6, 0.61, **SHED)
    return [(runs, journaled(runs, 0.01, 0.99)), *sorted(came, key=lambda pair: pair[0].sent_at), (shed, None)]


def states(pairs: Pairs, limit: int = 1, places: int = 2) -> dict[str, str]:
    """The verdicts of the admission judge."""
    return judged(admission.SCENARIO, data_of(pairs, max_concurrent=limit, queue_size=places))


def test_admission_in_order() -> None:
    """A house that is full, served in order and with a proper refusal, passes in every respect."""
    found = states(full_house())
    ids = [admission.LIMIT, admission.FIFO, *(f"{admission.FULL}.{x}" for x in ("status", "retry_after", "when_full"))]
    assert {clause: found[clause] for clause in ids} == dict.fromkeys(ids, "passed")


def test_a_queue_out_of_order_is_noticed() -> None:
    """Who came later and runs earlier breaks the order, and nothing else."""
    found = states(full_house(order=(1, 0)))
    assert [clause for clause, state in found.items() if state == "failed"] == [admission.FIFO]


def test_too_many_at_once_are_noticed() -> None:
    """Requests that overlap at the worker beyond the limit break it."""
    pairs = full_house()
    pairs[0][1].completed_at = 1.5  # type: ignore[union-attr]  # it has an entry
    assert states(pairs)[admission.LIMIT] == "failed"


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"retry_after": None}, f"{admission.FULL}.retry_after"),
        ({"retry_after": "1"}, f"{admission.FULL}.retry_after"),
        ({"status": 503}, f"{admission.FULL}.status"),
        ({"error_code": None}, f"{admission.SHED}.code_header"),
        ({"error_body": None}, f"{admission.SHED}.envelope"),
        ({"ratelimit_headers": ["x-ratelimit-limit"]}, f"{admission.SHED}.no_x_ratelimit"),
        ({"retry_after": "soon"}, f"{admission.SHED}.retry_after_seconds"),
    ],
)
def test_wrong_refusals_are_noticed(change: dict[str, object], clause: str) -> None:
    """A refusal that lacks something breaks the clause about it."""
    pairs = full_house()
    pairs[-1] = (observed(9, "crowd", 0.6, 0.61, **{**SHED, **change}), None)
    assert states(pairs)[clause] == "failed"


def test_a_refusal_with_room_left_is_noticed() -> None:
    """Nobody is sent away while there is a place."""
    assert states(full_house(), places=5)[f"{admission.FULL}.when_full"] == "failed"


def test_a_house_that_is_never_full_shows_no_limit() -> None:
    """That the limit holds is only shown when as many requests as it allows were at the worker."""
    for limit, state in ((3, "unshown"), (1, "passed")):
        assert states(full_house(), limit=limit)[admission.LIMIT] == state


def test_a_shed_request_at_the_worker_is_noticed() -> None:
    """Who is sent away must not have been at a worker."""
    pairs = full_house()
    pairs[-1] = (pairs[-1][0], journaled(pairs[-1][0], 0.605, None))
    assert states(pairs)[f"{admission.FULL}.not_dispatched"] == "failed"


def test_nothing_shed_is_not_shown() -> None:
    """A run in which nobody was shed proves nothing about refusals."""
    assert states(full_house()[:-1])[f"{admission.FULL}.retry_after"] == "unshown"


def bulk(number: int, sent_at: float, received_at: float | None, ended_at: float, **fields: object) -> Pairs:
    """A bulk request."""
    made = observed(number, "bulk", sent_at, ended_at, **fields)
    return [(made, None if received_at is None else journaled(made, received_at, ended_at))]


def cut_at_worker(number: int, sent_at: float, ended_at: float, gone_at: float | None) -> Pairs:
    """A bulk request that was preempted, and when its worker felt it."""
    made = observed(number, "bulk", sent_at, ended_at, **PREEMPTED)
    return [(made, journaled(made, sent_at + 0.1, None, peer_closed_at=gone_at))]


def urgent(sent_at: float) -> Pairs:
    """An urgent request."""
    made = observed(900, "urgent", sent_at, sent_at + 0.1)
    return [(made, journaled(made, sent_at + 0.01, sent_at + 0.09))]


def preemption_states(*pairs: Pairs) -> dict[str, str]:
    """The verdicts of the preemption judge."""
    flat = [pair for each in pairs for pair in each]
    return judged(preemption.SCENARIO, data_of(flat, priority_classes=CLASSES))


def test_preemption_that_is_told_passes() -> None:
    """A preempted request with its 503, and one that was served, are as they should be."""
    found = preemption_states(cut_at_worker(1, 0.0, 0.3, 0.31), bulk(2, 0.0, 0.8, 2.0, first_byte_at=0.9), urgent(1.0))
    for clause in (
        f"{preemption.PREEMPTED}.status",
        preemption.ON,
        preemption.CANCELLED,
        preemption.BEFORE,
        preemption.STARVED,
    ):
        assert found[clause] == "passed", clause


def test_a_silent_hang_up_is_a_preemption_untold() -> None:
    """A bulk request that is hung up on without a byte fails the clauses about the 503."""
    found = preemption_states(bulk(1, 0.0, 0.1, 0.3, status=None, outcome="cut"))
    assert found[f"{preemption.PREEMPTED}.status"] == "failed"
    assert found[preemption.BEFORE] == "unshown"


def test_preemption_after_the_first_byte_is_noticed() -> None:
    """An answer that had begun and is cut fails, whatever was sent before."""
    found = preemption_states(bulk(1, 0.0, 0.1, 0.3, outcome="cut", first_byte_at=0.2, body_bytes=9), urgent(0.25))
    assert found[preemption.BEFORE] == "failed"


@pytest.mark.parametrize(("gone_at", "state"), [(0.9, "passed"), (3.0, "failed"), (None, "failed")])
def test_a_preempted_request_that_the_worker_goes_on_with_is_noticed(gone_at: float | None, state: str) -> None:
    """The worker must be done with a preempted request within a second."""
    assert preemption_states(cut_at_worker(1, 0.0, 0.3, gone_at))[preemption.CANCELLED] == state


def test_a_bulk_answer_that_nobody_disturbed_shows_nothing() -> None:
    """That answers are not cut after their first byte is only shown where somebody wanted the slot meanwhile."""
    served = bulk(2, 0.0, 0.8, 2.0, first_byte_at=0.9)
    for disturbed_at, state in ((0.5, "unshown"), (1.0, "passed"), (2.5, "unshown")):
        assert preemption_states(served, urgent(disturbed_at))[preemption.BEFORE] == state


def test_starved_bulk_is_noticed() -> None:
    """A bulk request let in long after its bound, or never, fails."""
    assert preemption_states(bulk(1, 0.0, 5.0, 6.0))[preemption.STARVED] == "failed"
    assert preemption_states(bulk(1, 0.0, None, 9.0, status=None, outcome="timeout"))[preemption.STARVED] == "failed"


def silent_stream(pings: list[float]) -> Pairs:
    """A stream that is silent from 0.1 to 2.9."""
    made = observed(1, "quiet", 0.0, 3.0, pings=pings, tokens=[2.9], events=[0.1, 2.9, 3.0])
    return [(made, journaled(made, 0.05, 3.0, sent=[(0.1, 9), (2.9, 9), (3.0, 9)]))]


@pytest.mark.parametrize(
    ("pings", "failed"),
    [
        ([1.1, 2.1], []),
        ([], [keepalive.FIRST, keepalive.INTERVAL, keepalive.PING, keepalive.REPEATS]),
        ([1.1], [keepalive.REPEATS]),
        ([0.5, 1.5], [keepalive.INTERVAL]),
        ([2.2, 2.8], [keepalive.INTERVAL]),
    ],
)
def test_pings_of_a_silence(pings: list[float], failed: list[str]) -> None:
    """Pings must come an interval after the last byte, and again after each further one."""
    found = judged(keepalive.SCENARIO, data_of(silent_stream(pings), keepalive_s=1))
    assert sorted(clause for clause, state in found.items() if state == "failed") == failed


def test_a_ping_in_a_busy_stream_is_noticed_unless_it_was_not_busy() -> None:
    """Pings of a stream that was never silent are wrong; where the machine made a silence they are not."""
    for events, state in (([0.1, 0.6, 1.1], "failed"), ([0.1, 1.4, 1.5], "unshown")):
        made = observed(1, "busy", 0.0, 2.0, pings=[1.0], events=events)
        data = data_of([(made, journaled(made, 0.05, 2.0))], keepalive_s=1)
        assert judged(keepalive.SCENARIO, data)[keepalive.BUSY] == state


def test_a_leave_that_the_worker_never_feels_is_noticed() -> None:
    """The worker must notice within a second that a client has left."""
    cases = [(0.5, None, "passed"), (2.0, None, "failed"), (None, None, "failed"), (None, 3.0, "failed")]
    for closed_at, completed_at, state in [*cases, (None, 0.8, "unshown")]:
        made = observed(1, "leaving", 0.0, 0.4, status=None, outcome="left")
        entry = journaled(made, 0.1, completed_at, peer_closed_at=closed_at)
        found = judged(disconnect_storm.SCENARIO, data_of([(made, entry)]))
        assert found[disconnect_storm.FELT] == state
        assert found[disconnect_storm.OTHERS] == "unshown"


@pytest.mark.parametrize(
    ("received_at", "state"), [(None, "passed"), (0.41, "passed"), (3.0, "failed"), (0.1, "unshown")]
)
def test_a_request_that_outlives_its_client_in_the_queue_is_noticed(received_at: float | None, state: str) -> None:
    """Who leaves while it waits must not come to a worker later; who was there already shows nothing about that."""
    made = observed(1, "leaving", 0.0, 0.4, status=None, outcome="left")
    entry = None if received_at is None else journaled(made, received_at, None, peer_closed_at=received_at + 0.3)
    found = judged(disconnect_storm.SCENARIO, data_of([(made, entry)]))
    assert found[disconnect_storm.NOT_DISPATCHED] == state


def test_a_hoarding_gateway_is_noticed() -> None:
    """More than sockets hold, taken for a client that does not read, is hoarded."""
    for megabytes, state in ((8, "passed"), (100, "failed")):
        made = observed(1, "stopped", 0.0, 2.0, outcome="left", body_bytes=200_000)
        entry = journaled(made, 0.1, None, sent=[(0.5, megabytes * slow_readers.MIB), (3.0, 500 * slow_readers.MIB)])
        found = judged(slow_readers.SCENARIO, data_of([(made, entry)]))
        assert found[slow_readers.BACKPRESSURE] == state


def test_a_request_dispatched_twice_is_noticed() -> None:
    """A request of steady load goes to a worker once."""
    made = observed(1, "steady", 0.0, 1.0)
    data = data_of([(made, journaled(made, 0.1, 0.9))])
    assert judged(steady.SCENARIO, data)["chat.response.one_dispatch"] == "passed"
    data.entries[made.marker] *= 2
    assert judged(steady.SCENARIO, data)["chat.response.one_dispatch"] == "failed"
    shed = observed(2, "crowd", 0.0, 1.0, **SHED)
    data = data_of([(shed, journaled(shed, 0.1, 0.9))], max_concurrent=1, queue_size=1)
    data.entries[shed.marker] *= 2
    assert judged(admission.SCENARIO, data)["chat.response.one_dispatch"] == "failed"


def test_what_an_exchange_cannot_decide_is_not_counted_for_it() -> None:
    """Exchanges whose usage is not known are no observations of usage."""
    for open_ones, state in (([], "passed"), (["chat.usage.stream.whole_request"], "unshown")):
        made = observed(1, "steady", 0.0, 1.0, undecided=open_ones)
        found = judged(steady.SCENARIO, data_of([(made, journaled(made, 0.1, 0.9))]))
        assert found["chat.usage.stream.whole_request"] == state


def test_steady_load_tolerates_no_refusal() -> None:
    """A refused or cut request of steady load is a stream that did not end."""
    for change in ({"status": 429}, {"outcome": "cut"}, {"status": None, "outcome": "timeout"}):
        made = observed(1, "steady", 0.0, 1.0, **change)
        assert judged(steady.SCENARIO, data_of([(made, None)]))["chat.stream.end.clean"] == "failed"


def test_what_was_owed_and_never_seen_is_no_pass() -> None:
    """A clause without an observation is not shown, and makes a run fail."""
    findings = Findings()
    findings.owe(admission.FIFO, occasion="nobody waited")
    assert [each.state for each in findings.bad] == ["unshown"]
    findings.hold(admission.FIFO, truth=True)
    assert findings.bad == []
