"""Policies over candidates that come and go."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reference_server.settings import BreakerSettings, HealthSettings
from reference_server.workers.breaker import Breaker
from reference_server.workers.exchange import RoutingHints
from reference_server.workers.health import HealthState
from reference_server.workers.policies import POLICIES, RandomPolicy, RoundRobinPolicy
from reference_server.workers.worker import Worker, WorkerSpec

HINTS = RoutingHints()


def _workers(count: int) -> list[Worker]:
    return [
        Worker(
            id=str(order),
            order=order,
            spec=WorkerSpec(url=f"http://127.0.0.1:{order + 1}"),
            breaker=Breaker(BreakerSettings()),
            health=HealthState(HealthSettings(), 0.0),
        )
        for order in range(count)
    ]


def test_round_robin_takes_turns_for_each_model() -> None:
    """Each model's requests go to its workers in turn, whatever other models do in between."""
    a, b, c = _workers(3)
    policy = RoundRobinPolicy()
    order = []
    for _ in range(6):
        order.append(policy.choose("m", [a, b, c], HINTS))
        policy.choose("other", [a, c], HINTS)
    assert order == [a, b, c, a, b, c]


@given(st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=40))
def test_round_robin_chooses_the_next_candidate_after_the_last(sets: list[set[int]]) -> None:
    """While candidates come and go, the next one after the last chosen is always the one."""
    workers = _workers(5)
    policy = RoundRobinPolicy()
    last = -1
    for present in sets:
        chosen = policy.choose("m", [workers[index] for index in sorted(present)], HINTS)
        later = sorted(index for index in present if index > last)
        assert chosen.order == (later or sorted(present))[0]
        last = chosen.order


def test_random_reaches_everyone() -> None:
    """With the random policy every candidate gets a fair share."""
    workers = _workers(3)
    policy = RandomPolicy()
    shares = Counter(policy.choose("m", workers, HINTS).order for _ in range(3000))
    assert all(800 < shares[worker.order] < 1200 for worker in workers)


def test_the_policies_that_are_built_have_names() -> None:
    """Both policies of the settings can be made from their names."""
    assert {name: type(make()) for name, make in POLICIES.items()} == {
        "random": RandomPolicy,
        "round_robin": RoundRobinPolicy,
    }
