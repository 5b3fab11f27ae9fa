"""Admission in the server: who is served, who waits, who gives way, and what the client gets."""

from __future__ import annotations

import asyncio

import pytest

from reference_server.admission.configuration import AdmissionSettings, ClassSettings
from reference_server.admission.desk import LimiterDesk
from reference_server.admission.priority import PriorityClass
from reference_server.admission.priority_desk import SchedulerDesk
from tests.reference_server.admission.stage import EVENT, Client, Plan, Stage, rest, scheduler

ONE = AdmissionSettings(max_concurrent_requests=1, queue_size=2)


def _refusal(client: Client) -> tuple[int, str | None, str | None, str]:
    reply = client.reply
    return reply.status, reply.header("x-smg-error-code"), reply.header("retry-after"), reply.error["code"]


def _nothing_is_remembered(stage: Stage) -> None:
    desk = stage.state.admission
    assert isinstance(desk, LimiterDesk | SchedulerDesk)
    assert not desk._answers
    assert desk._timer is None
    if isinstance(desk, SchedulerDesk):
        assert not desk._calls
        assert not desk._queued


async def test_the_queue_is_served_in_order() -> None:
    """One is served, two wait in the order of arrival, the fourth gets 429 admission_queue_full at once."""
    stage = Stage(ONE)
    first, second, third, fourth = [stage.send(name) for name in "abcd"]
    await fourth.done()
    assert _refusal(fourth) == (429, "admission_queue_full", "2", "admission_queue_full")
    assert (stage.metric("smg_admission_queue_depth"), stage.metric("smg_admission_inflight")) == (2.0, 1.0)
    for name, client in zip("abc", (first, second, third), strict=True):
        await rest()
        assert stage.workers.began[-1] == name
        stage.workers.plans[name].answers.set()
        assert (await client.done()).body == EVENT
    assert stage.workers.began == ["a", "b", "c"]
    assert (stage.metric("smg_admission_queue_depth"), stage.metric("smg_admission_inflight")) == (0.0, 0.0)
    assert stage.metric("smg_http_rate_limit_total", result="allowed") == 3.0
    assert stage.metric("smg_http_rate_limit_total", result="rejected") == 1.0
    assert stage.metric("smg_admission_queue_rejected_total", reason="full") == 1.0


async def test_without_a_queue_nobody_waits() -> None:
    """A queue of no places is switched off: 429 admission_queue_full, and no entry in the queue's own metric."""
    stage = Stage(AdmissionSettings(max_concurrent_requests=1, queue_size=0))
    stage.send("a")
    second = stage.send("b")
    await second.done()
    assert _refusal(second) == (429, "admission_queue_full", "2", "admission_queue_full")
    assert stage.metric("smg_admission_queue_rejected_total", reason="full") == 0.0
    assert "none may wait" in second.reply.error["message"]


async def test_a_wait_is_bounded() -> None:
    """Who waits longer than the timeout gets 503 admission_queue_timeout and never reaches a worker."""
    stage = Stage(AdmissionSettings(max_concurrent_requests=1, queue_size=1, queue_timeout_s=0.1))
    stage.send("a")
    second = stage.send("b")
    began = asyncio.get_running_loop().time()
    await second.done()
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.1, abs=0.09)
    assert _refusal(second) == (503, "admission_queue_timeout", "2", "admission_queue_timeout")
    assert stage.workers.began == ["a"]
    assert stage.metric("smg_admission_queue_rejected_total", reason="timeout") == 1.0


async def test_who_leaves_the_queue_never_reaches_a_worker() -> None:
    """A client that goes away while it waits gives its place in the queue to others."""
    stage = Stage(AdmissionSettings(max_concurrent_requests=1, queue_size=1))
    first, second = stage.send("a"), stage.send("b")
    await rest()
    second.leave()
    await second.done()
    third = stage.send("c")
    await rest()
    stage.workers.plans["a"].answers.set()
    await first.done()
    stage.workers.plans["c"].answers.set()
    await third.done()
    assert stage.workers.began == ["a", "c"]
    assert second.reply.status == 0


async def test_a_slot_is_held_until_the_body_is_delivered() -> None:
    """A client that does not read keeps its slot; the worker's end alone does not free it."""
    stage = Stage(ONE)
    first, second = stage.send("a"), stage.send("b")
    await rest()
    first.reading.clear()
    stage.workers.plans["a"].answers.set()
    await rest()
    assert stage.workers.began == ["a"]
    first.reading.set()
    await first.done()
    await rest()
    assert stage.workers.began == ["a", "b"]
    second.leave()
    await second.done()


@pytest.mark.parametrize("turns", range(60))
@pytest.mark.parametrize("kind", ["limit", "scheduler"])
@pytest.mark.parametrize("busy", [False, True], ids=["admitted", "queued"])
async def test_a_client_may_leave_at_any_moment(turns: int, kind: str, *, busy: bool) -> None:
    """Wherever a request is when its client goes (queued, asked, streaming), its slot or place is free afterwards."""
    stage = Stage(ONE if kind == "limit" else scheduler())
    holder = stage.send("holder") if busy else None
    await rest()
    plan = Plan(pieces=(EVENT, EVENT), holds={1: asyncio.Event()})
    plan.answers.set()
    client = stage.send("x", plan=plan)
    for turn in range(turns):
        await asyncio.sleep(0)
        if holder is not None and turn == 20:
            holder.leave()
    client.leave()
    await client.done()
    if holder is not None:
        holder.leave()
        await holder.done()
    last = stage.send("last")
    stage.workers.plans["last"].answers.set()
    assert (await last.done()).status == 200
    assert all(response.closed for response in stage.workers.responses.values())
    _nothing_is_remembered(stage)
    if kind == "limit":
        assert (stage.metric("smg_admission_queue_depth"), stage.metric("smg_admission_inflight")) == (0.0, 0.0)
    else:
        assert stage.metric("smg_scheduler_utilization") == 0.0
        assert stage.metric("smg_scheduler_queue_depth", **{"class": "default"}) == 0.0


@pytest.mark.parametrize("turns", range(0, 60, 2))
@pytest.mark.parametrize("kind", ["limit", "scheduler"])
async def test_a_task_may_be_cancelled_at_any_moment(turns: int, kind: str) -> None:
    """The server's own cancellation (shutdown, a broken connection) gives everything back too."""
    stage = Stage(ONE if kind == "limit" else scheduler())
    plan = Plan(pieces=(EVENT, EVENT), holds={1: asyncio.Event()})
    plan.answers.set()
    clients = [stage.send("x", plan=plan), stage.send("y")]
    await rest(turns)
    for client in clients:
        client.task.cancel()
    await asyncio.gather(*(client.task for client in clients), return_exceptions=True)
    await rest()
    last = stage.send("last")
    stage.workers.plans["last"].answers.set()
    assert (await last.done()).status == 200
    assert all(response.closed for response in stage.workers.responses.values())
    _nothing_is_remembered(stage)


# The priority scheduler


async def test_higher_classes_are_served_first() -> None:
    """Whoever waits is served by class, and by arrival within a class; unknown values are default."""
    stage = Stage(scheduler())
    order = ["bulk", "default", " INTERACTIVE ", "bulk", "king", "system"]
    holder_plan = Plan(holds={1: asyncio.Event()})
    holder_plan.answers.set()
    holder = stage.send("holder", "system", holder_plan)
    await rest()
    clients = [stage.send(str(number), level) for number, level in enumerate(order)]
    await rest()
    holder_plan.holds[1].set()
    await holder.done()
    for name in ("5", "2", "1", "4", "0", "3"):
        await rest()
        assert stage.workers.began[-1] == name
        stage.workers.plans[name].answers.set()
        await clients[int(name)].done()
    assert stage.metric("smg_scheduler_unknown_priority_value_total", tenant="ip:127.0.0.1") == 1.0
    assert stage.metric("smg_scheduler_admit_total", **{"class": "default", "outcome": "admitted"}) == 2.0
    assert stage.metric("smg_scheduler_queue_wait_seconds_count", **{"class": "default"}) == 2.0
    assert (
        stage.metric("smg_scheduler_queue_wait_seconds_count", **{"class": "system"}) == 1.0
    )  # the holder did not wait


@pytest.mark.parametrize("moment", ["body not read yet", "before the head", "before the first byte", "no stream"])
async def test_a_preempted_client_gets_its_503(moment: str) -> None:
    """A request that gives way is answered 503 scheduler_preempted, wherever it was before its first body byte."""
    stage = Stage(scheduler())
    plan = Plan(holds={0: asyncio.Event()}, stream=moment != "no stream")
    if moment in {"before the first byte", "no stream"}:
        plan.answers.set()
    victim = stage.send("victim", "bulk", plan, stream=moment != "no stream")
    await rest(2 if moment == "body not read yet" else 40)
    higher = stage.send("higher", "interactive")
    stage.workers.plans["higher"].answers.set()
    assert (await higher.done()).status == 200
    reply = await victim.done()
    assert _refusal(victim) == (503, "scheduler_preempted", "1", "scheduler_preempted")
    assert (reply.header("x-smg-preempted"), reply.ended) == ("true", True)
    assert reply.header("content-type") == "application/json"
    if moment == "before the head":
        assert stage.workers.cancelled == ["victim"]
    elif moment != "body not read yet":
        assert stage.workers.responses["victim"].closed == 1
    labels = {"victim_class": "bulk", "by_class": "interactive"}
    assert stage.metric("smg_scheduler_preemption_total", **labels) == 1.0
    assert stage.metric("smg_scheduler_admit_total", **{"class": "bulk", "outcome": "preempted"}) == 1.0
    assert stage.metric("smg_scheduler_admit_total", **{"class": "bulk", "outcome": "admitted"}) == 0.0
    assert stage.metric("smg_http_responses_total", path="/v1/chat/completions", status_code="503",
                        error_code="scheduler_preempted") == 1.0  # fmt: skip


async def test_a_slow_victim_does_not_keep_the_slot() -> None:
    """The slot is free when the worker is let go, not when the victim has read its 503."""
    stage = Stage(scheduler())
    victim = stage.send("victim", "bulk")
    await rest()
    victim.reading.clear()
    higher = stage.send("higher", "system")
    stage.workers.plans["higher"].answers.set()
    assert (await higher.done()).status == 200
    victim.reading.set()
    await victim.done()
    assert _refusal(victim)[1] == "scheduler_preempted"


@pytest.mark.parametrize("piece", [EVENT, b": ping\n\n"], ids=["event", "ping"])
async def test_after_the_first_byte_nobody_gives_way(piece: bytes) -> None:
    """Once a body byte went out, be it a ping, the request is served to its end, and the higher class waits."""
    stage = Stage(scheduler())
    plan = Plan(pieces=(piece, EVENT), holds={1: asyncio.Event()})
    plan.answers.set()
    first = stage.send("first", "bulk", plan)
    await rest()
    assert first.reply.body == piece
    higher = stage.send("higher", "system")
    await rest()
    assert stage.workers.began == ["first"]
    plan.holds[1].set()
    assert (await first.done()).body == piece + EVENT
    stage.workers.plans["higher"].answers.set()
    assert (await higher.done()).status == 200
    assert "smg_scheduler_preemption_total{" not in stage.metrics_text()


async def test_the_head_is_held_back_only_while_it_must_be() -> None:
    """The head of a preemptible answer waits for the first byte; that of the highest class goes out at once."""
    stage = Stage(scheduler(slots=2))
    clients = []
    for level in ("bulk", "system"):
        plan = Plan(holds={0: asyncio.Event()})
        plan.answers.set()
        clients.append(stage.send(level, level, plan))
    await rest()
    bulk, system = clients
    assert (bulk.reply.status, system.reply.status) == (0, 200)
    for client in clients:
        stage.workers.plans[client.name].holds[0].set()
        assert ((await client.done()).status, client.reply.body) == (200, EVENT)


async def test_a_stream_that_breaks_before_its_first_byte_is_an_error_of_its_own() -> None:
    """While the head is held back, a worker's failure still becomes an ordinary error response."""
    stage = Stage(scheduler())
    plan = Plan(pieces=(), breaks=True)
    plan.answers.set()
    client = stage.send("x", plan=plan)
    reply = await client.done()
    assert (reply.status, reply.error["code"]) == (500, "read_response_body_failed")


async def test_an_empty_body_goes_out_whole() -> None:
    """A stream without a single byte has its head and its end."""
    stage = Stage(scheduler())
    plan = Plan(pieces=())
    plan.answers.set()
    reply = await stage.send("x", plan=plan).done()
    assert (reply.status, reply.body, reply.ended) == (200, b"", True)


async def test_tenants_are_clamped() -> None:
    """Nobody gets a higher class than the file or the default allows; asking for less is granted."""
    policies = {"ip:127.0.0.1": PriorityClass.DEFAULT}
    stage = Stage(scheduler(tenant_max_class=policies))
    holder = stage.send("holder", "default")
    await rest()
    asking = stage.send("asking", "system")
    await rest()
    assert stage.workers.began == ["holder"]
    labels = {"tenant": "ip:127.0.0.1", "requested_class": "system", "effective_class": "default"}
    assert stage.metric("smg_scheduler_clamp_total", **labels) == 1.0
    for client in (asking, holder):
        client.leave()
        await client.done()
    outcome = {"class": "default", "outcome": "client_cancelled"}
    assert stage.metric("smg_scheduler_admit_total", **outcome) == 1.0


@pytest.mark.parametrize(("level", "shed"), [("bulk", True), ("default", False)])
async def test_each_class_has_its_own_queue(level: str, *, shed: bool) -> None:
    """A full queue sheds its own class with 429 scheduler_queue_full and no other."""
    stage = Stage(scheduler({PriorityClass.BULK: ClassSettings(0, 0, 300.0, 120.0, can_preempt=False)}))
    holder = stage.send("holder", "system")
    await rest()
    client = stage.send("x", level)
    await rest()
    assert client.task.done() is shed
    if shed:
        assert _refusal(client) == (429, "scheduler_queue_full", "2", "scheduler_queue_full")
    for each in (client, holder):
        each.leave()
        await each.done()


async def test_each_class_has_its_own_timeout() -> None:
    """A waiter is sent away by its class's timeout with 503 scheduler_queue_timeout."""
    stage = Stage(scheduler({PriorityClass.BULK: ClassSettings(0, 5, 0.1, 120.0, can_preempt=False)}))
    holder = stage.send("holder", "system")
    await rest()
    slow, quick = stage.send("default", "default"), stage.send("bulk", "bulk")
    await quick.done()
    assert _refusal(quick) == (503, "scheduler_queue_timeout", "2", "scheduler_queue_timeout")
    assert not slow.task.done()
    for each in (slow, holder):
        each.leave()
        await each.done()


async def test_a_rate_with_the_scheduler_on_has_the_schedulers_code() -> None:
    """Over the rate a request is sent away with scheduler_queue_full, slots or not."""
    stage = Stage(scheduler(slots=2, per_second=1))
    clients = [stage.send(name) for name in "abc"]
    await clients[2].done()
    assert _refusal(clients[2]) == (429, "scheduler_queue_full", "2", "scheduler_queue_full")
    assert stage.metric("smg_http_rate_limit_total", result="rejected") == 1
    assert stage.metric("smg_scheduler_admit_total", outcome="rejected_queue_full", **{"class": "default"}) == 0
    for each in clients[:2]:
        each.leave()
        await each.done()


async def test_more_slots_let_waiters_in() -> None:
    """When the workers bring more slots, those who wait are served; without any worker the stand-in counts."""
    stage = Stage(scheduler(slots=3))
    stage.state.admission.resize(1)
    clients = [stage.send(name) for name in "abc"]
    await rest()
    assert stage.workers.began == ["a"]
    stage.state.admission.resize(2)
    await rest()
    assert stage.workers.began == ["a", "b"]
    stage.state.admission.resize(0)
    await rest()
    assert stage.workers.began == ["a", "b", "c"]
    assert stage.metric("smg_scheduler_utilization") == 1.0
    for client in clients:
        client.leave()
        await client.done()


async def test_a_starving_waiter_is_promoted_by_time_alone() -> None:
    """A waiter before a reserved and unused slot gets it when its class's threshold has passed."""
    classes = {
        PriorityClass.SYSTEM: ClassSettings(1, 5, 30.0, 5.0, can_preempt=True),
        PriorityClass.DEFAULT: ClassSettings(0, 5, 30.0, 0.1, can_preempt=False),
    }
    stage = Stage(scheduler(classes, slots=1))
    client = stage.send("x", "default")
    await rest()
    assert stage.workers.began == []
    stage.workers.plans["x"].answers.set()
    assert (await client.done()).status == 200
    assert stage.metric("smg_scheduler_starvation_promotion_total", **{"class": "default"}) == 1.0


@pytest.mark.parametrize("value", ["", " ", "\xff", "a" * 5000, "system,bulk", "SYSTEM\t", "\u00e9", "0", "-1"])
async def test_odd_priorities_are_served(value: str) -> None:
    """Whatever stands in the header, the request is served."""
    stage = Stage(scheduler())
    client = stage.send("x", value)
    stage.workers.plans["x"].answers.set()
    assert (await client.done()).status == 200


async def test_the_tenants_in_the_metrics_are_bounded() -> None:
    """With no label to give away, every tenant is counted as other."""
    stage = Stage(scheduler(tenant_metric_top_n=0))
    client = stage.send("x", "king")
    stage.workers.plans["x"].answers.set()
    await client.done()
    assert stage.metric("smg_scheduler_unknown_priority_value_total", tenant="other") == 1.0


@pytest.mark.parametrize("preempted_at", range(0, 40, 6))
async def test_a_victim_may_leave_while_it_is_being_preempted(preempted_at: int) -> None:
    """Preemption and departure may cross at any turn: the slot is one, the outcome is one, and the next is served."""
    for leaves_after in range(12):
        stage = Stage(scheduler())
        plan = Plan(pieces=(EVENT, EVENT), holds={0: asyncio.Event()})
        plan.answers.set()
        victim = stage.send("victim", "bulk", plan)
        await rest(preempted_at)
        higher = stage.send("higher", "interactive")
        stage.workers.plans["higher"].answers.set()
        await rest(leaves_after)
        victim.leave()
        await asyncio.gather(victim.done(), higher.done())
        assert higher.reply.status == 200
        assert victim.reply.status in {0, 503}
        outcomes = sum(
            stage.metric("smg_scheduler_admit_total", **{"class": "bulk", "outcome": outcome})
            for outcome in ("admitted", "preempted", "client_cancelled")
        )
        assert outcomes <= 1.0, "two outcomes for one request"
        assert outcomes == 1.0 or preempted_at + leaves_after < 20, "no outcome for a request that came in"
        assert stage.metric("smg_scheduler_utilization") == 0.0
        _nothing_is_remembered(stage)
