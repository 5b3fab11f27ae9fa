"""Token limits: the migration of max_tokens, and min_tokens against the limit that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_json import Number
from conformance.checks.chat_kit import Fields, case, deliver, refused
from conformance.harness.bodies import literal
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio


@clause("chat.max_tokens.still_accepted")
async def test_max_tokens_is_still_accepted(gateway: Gateway, worker: Worker) -> None:
    """A request with max_tokens alone is served, and some limit of that value arrives."""
    delivery = await deliver(gateway, worker, max_tokens=77)
    limits = [delivery.got.get(name) for name in ("max_tokens", "max_completion_tokens")]
    assert "77" in [limit.text for limit in limits if limit is not None]


MIGRATED = [
    case("chat.max_tokens.migrated", {}),
    case("chat.max_tokens.migrated_when_null", {"max_completion_tokens": None}),
    case("chat.max_tokens.migrated_in_stream", {"stream": True}),
]


@pytest.mark.parametrize("fields", MIGRATED)
@engines("sglang", "vllm", "tokenspeed")
async def test_max_tokens_is_migrated(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """The value of max_tokens arrives as max_completion_tokens, whatever the engine."""
    delivery = await deliver(gateway, worker, max_tokens=literal("77"), **fields)
    delivery.arrived_as(Number("77"), "max_completion_tokens")


@clause("chat.max_tokens.migrated_away")
async def test_max_tokens_does_not_travel_on(gateway: Gateway, worker: Worker) -> None:
    """Once migrated, the deprecated name is gone from the worker's body."""
    delivery = await deliver(gateway, worker, max_tokens=77)
    delivery.unset("max_tokens")


@clause("chat.max_tokens.never_overrides")
@pytest.mark.parametrize(("old", "new"), [(5, 7), (7, 5)])
async def test_max_tokens_never_overrides(gateway: Gateway, worker: Worker, old: int, new: int) -> None:
    """With both limits sent, max_completion_tokens arrives as sent, whichever is smaller."""
    delivery = await deliver(gateway, worker, max_tokens=old, max_completion_tokens=new)
    delivery.arrived_as(Number(str(new)), "max_completion_tokens")


@clause("chat.max_completion_tokens.own_name")
@engines("sglang", "vllm", "tokenspeed")
async def test_max_completion_tokens_keeps_its_name(gateway: Gateway, worker: Worker) -> None:
    """The limit arrives under the name that the client used, not under the older one."""
    delivery = await deliver(gateway, worker, max_completion_tokens=78)
    delivery.arrived_as(Number("78"), "max_completion_tokens")
    delivery.unset("max_tokens")


@clause("chat.max_completion_tokens.not_invented")
@engines("sglang", "vllm", "tokenspeed")
async def test_no_limit_is_invented(gateway: Gateway, worker: Worker) -> None:
    """Without a limit from the client, the worker receives none."""
    delivery = await deliver(gateway, worker)
    for name in ("max_tokens", "max_completion_tokens"):
        delivery.unset(name)


ACCEPTED = [
    case("chat.min_tokens.equal_accepted", {"min_tokens": 5, "max_completion_tokens": 5}),
    case("chat.min_tokens.below_accepted", {"min_tokens": 4, "max_completion_tokens": 5}),
    case("chat.min_tokens.equal_to_migrated_accepted", {"min_tokens": 5, "max_tokens": 5}),
    case(
        "chat.min_tokens.compared_with_max_completion_tokens",
        {"min_tokens": 6, "max_tokens": 5, "max_completion_tokens": 7},
    ),
    case("chat.min_tokens.unlimited_accepted", {"min_tokens": 5000}),
    case("chat.min_tokens.zero_accepted", {"min_tokens": 0}),
    case("chat.min_tokens.zero_accepted", {"min_tokens": 0, "max_completion_tokens": 1}, name="beside a limit"),
]


@pytest.mark.parametrize("fields", ACCEPTED)
async def test_min_tokens_within_the_limit(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """A min_tokens that exceeds no limit is accepted and arrives."""
    delivery = await deliver(gateway, worker, **fields)
    delivery.unchanged("min_tokens")


REFUSED = [
    case("chat.min_tokens.above_max_completion_tokens_refused", {"max_completion_tokens": 5}, 5, 6),
    case("chat.min_tokens.above_max_completion_tokens_refused", {"max_completion_tokens": 1}, 1, 4096, name="far"),
    case(
        "chat.min_tokens.above_max_completion_tokens_refused",
        {"max_completion_tokens": 5, "stream": True},
        5,
        6,
        name="stream",
    ),
    case("chat.min_tokens.above_migrated_max_tokens_refused", {"max_tokens": 5}, 5, 6),
    case("chat.min_tokens.above_it_refused_despite_max_tokens", {"max_tokens": 9, "max_completion_tokens": 5}, 5, 6),
]


@pytest.mark.parametrize(("limits", "within", "beyond"), REFUSED)
async def test_min_tokens_beyond_the_limit(
    gateway: Gateway, worker: Worker, limits: Fields, within: int, beyond: int
) -> None:
    """A min_tokens above the limit that counts is refused; the same limits with a min_tokens within them are served."""
    await refused(gateway, worker, {**limits, "min_tokens": within}, {**limits, "min_tokens": beyond})
