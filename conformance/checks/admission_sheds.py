"""What a shed says: status, code, Retry-After, envelope, headers, and that no worker heard of the request.

Each way of being sent away is a scene (`admission_scenes.py`); each thing it says is a check of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import SHEDS, Crowd
from conformance.checks.admission_scenes import SCENES, Scene
from conformance.checks.routes_support import (
    ERROR_CODE,
    REQUEST_ID,
    ROUTED_WORKER,
    check_plain_json,
    error_of,
    expect_code,
    expect_equal,
    expect_members,
    expect_status,
    x_ratelimit_names,
)
from conformance.harness.errors import Disproved
from conformance.harness.marks import case

if TYPE_CHECKING:
    from collections.abc import Callable

    from _pytest.mark.structures import MarkDecorator

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

    Look = Callable[[Exchange, "Scene"], None]

PREEMPTED = "scheduler_preempted"


def says_status(answer: Exchange, scene: Scene) -> None:
    """The status of the table."""
    expect_status(answer, scene.status)


def says_code(answer: Exchange, scene: Scene) -> None:
    """The code of the table, under the status of the table."""
    expect_status(answer, scene.status)
    expect_code(answer, scene.code)


def says_retry_after(answer: Exchange, scene: Scene) -> None:
    """The Retry-After of the table, once and as whole seconds."""
    expect_status(answer, scene.status)
    expect_equal("another Retry-After", answer.headers.get_all("retry-after"), [scene.retry_after])


def says_seconds(answer: Exchange, scene: Scene) -> None:
    """A Retry-After of digits only."""
    expect_status(answer, scene.status)
    said = answer.headers.get("retry-after") or ""
    assert said.isascii()
    assert said.isdigit()


def has_envelope(answer: Exchange, scene: Scene) -> None:
    """The four members of the envelope, a message in words, and no parameter."""
    expect_status(answer, scene.status)
    expect_members(answer, "type", "code", "message", "param")
    error = error_of(answer)
    assert isinstance(error["message"], str)
    assert error["message"]
    assert error["param"] is None


def has_code_header(answer: Exchange, scene: Scene) -> None:
    """The code once more in X-SMG-Error-Code."""
    expect_status(answer, scene.status)
    expect_equal("another X-SMG-Error-Code", answer.headers.get_all(ERROR_CODE), [scene.code])


def has_no_x_ratelimit(answer: Exchange, scene: Scene) -> None:
    """No X-RateLimit header of any name."""
    expect_status(answer, scene.status)
    expect_equal("X-RateLimit headers", x_ratelimit_names(answer), [])


def has_reason_phrase(answer: Exchange, scene: Scene) -> None:
    """The error's type is the reason phrase of 429."""
    expect_status(answer, scene.status)
    expect_equal("another type", error_of(answer).get("type"), "Too Many Requests")


def is_marked_preempted(answer: Exchange, scene: Scene) -> None:
    """X-SMG-Preempted: true, once."""
    expect_status(answer, scene.status)
    expect_equal("another X-SMG-Preempted", answer.headers.get_all("x-smg-preempted"), ["true"])


def is_not_marked_preempted(answer: Exchange, scene: Scene) -> None:
    """No X-SMG-Preempted."""
    expect_status(answer, scene.status)
    expect_equal("X-SMG-Preempted sent", answer.headers.get_all("x-smg-preempted"), [])


def names_no_worker(answer: Exchange, scene: Scene) -> None:
    """No worker is named, for none was asked."""
    expect_status(answer, scene.status)
    expect_equal("a worker named", answer.headers.get_all(ROUTED_WORKER), [])


def has_request_id(answer: Exchange, scene: Scene) -> None:
    """A request id, once."""
    expect_status(answer, scene.status)
    said = answer.headers.get_all(REQUEST_ID)
    if len(said) != 1 or not said[0]:
        raise Disproved("no request id", f"{REQUEST_ID} is {said}: {answer.brief()}")


def is_refused(answer: Exchange, _scene: Scene) -> None:
    """No success; how it is refused is for others to judge."""
    expect_status(answer, *SHEDS)


def is_plain_json(answer: Exchange, _scene: Scene) -> None:
    """JSON with an error in it, though a stream was asked for."""
    expect_status(answer, *SHEDS)
    check_plain_json(answer)
    error_of(answer)


OF_EVERY_CODE: dict[str, Look] = {
    "rate_limiting.{}.status": says_status,
    "rate_limiting.{}.retry_after": says_retry_after,
    "codes.{}": says_code,
}
OF_ADMISSION: dict[str, Look] = {
    "rate_limiting.shed.envelope": has_envelope,
    "rate_limiting.shed.code_header": has_code_header,
    "rate_limiting.shed.retry_after_seconds": says_seconds,
    "rate_limiting.shed.no_x_ratelimit": has_no_x_ratelimit,
}
OF_EVERY_SHED: dict[str, Look] = {"response_headers.request_id.shed": has_request_id}
OF_THE_OTHERS: dict[str, Look] = {
    "rate_limiting.{}.envelope": has_envelope,
    "rate_limiting.{}.code_header": has_code_header,
    "rate_limiting.{}.no_x_ratelimit": has_no_x_ratelimit,
}


def _looks(scene: Scene) -> dict[str, Look]:
    """What is looked at in the answers of a scene, by the clause that says it."""
    of_its_kind = OF_ADMISSION if scene.code.startswith("admission") else OF_THE_OTHERS
    looks = {**OF_EVERY_CODE, **of_its_kind, **OF_EVERY_SHED}
    if scene.retry_after is None:  # a computed one has checks of its own
        del looks["rate_limiting.{}.retry_after"]
    if scene.name == "disabled":
        looks["errors.envelope.type_too_many_requests"] = has_reason_phrase
    if scene.code == PREEMPTED:
        looks["rate_limiting.scheduler_preempted.header"] = is_marked_preempted
        looks["response_headers.preempted.on_preemption"] = is_marked_preempted
    else:
        looks["response_headers.preempted.not_on_other_sheds"] = is_not_marked_preempted
        looks["response_headers.routed_worker.not_on_shed"] = names_no_worker
    return looks


def scenes(looks: Callable[[Scene], dict[str, Look]]) -> MarkDecorator:
    """Run the check (parameters `scene` and `look`) for everything that is looked at in each scene, by clause.

    In the ids of clauses `{}` stands for the scene's code.
    """
    cases = [
        case(
            clause_id.format(scene.code),
            scene.engine,
            scene,
            look,
            name=f"{scene.name}-{clause_id.format(scene.code)}",
            configuration=scene.configuration,
        )
        for scene in SCENES
        for clause_id, look in looks(scene).items()
    ]
    return pytest.mark.parametrize(("engine", "scene", "look"), cases, indirect=["engine"])


@scenes(_looks)
@pytest.mark.asyncio
async def test_a_shed_says(gateway: Gateway, worker: Worker, scene: Scene, look: Look) -> None:
    """The answer of a request that is sent away says what the contract's table says of it."""
    async with Crowd(gateway, worker) as crowd:
        look(await crowd.judged(await scene.play(crowd)), scene)


@scenes(lambda _scene: {"rate_limiting.{}.stream_json": is_plain_json})
@pytest.mark.asyncio
async def test_a_stream_is_shed_in_json(gateway: Gateway, worker: Worker, scene: Scene, look: Look) -> None:
    """A request for a stream that is sent away gets the same JSON, not an event stream."""
    async with Crowd(gateway, worker) as crowd:
        look(await crowd.judged(await scene.play(crowd, stream=True)), scene)


@scenes(lambda scene: {} if scene.code == PREEMPTED else {"rate_limiting.{}.not_dispatched": is_refused})
@pytest.mark.asyncio
async def test_a_shed_request_is_not_dispatched(gateway: Gateway, worker: Worker, scene: Scene, look: Look) -> None:
    """No worker ever hears of a request that is sent away."""
    async with Crowd(gateway, worker) as crowd:
        proof = await crowd.proof()
        guest = await scene.play(crowd)
        look(await crowd.judged(guest), scene)
        await guest.script.never_seen(because=proof)
