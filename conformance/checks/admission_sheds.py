"""What a shed says: status, code, Retry-After, envelope, headers, and that no worker heard of the request.

Each way of being sent away is a scene (`admission_scenes.py`); each thing it says is a check of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.admission_kit import Crowd
from conformance.checks.admission_scenes import SCENES, Scene
from conformance.checks.routes_support import (
    ERROR_CODE,
    check_plain_json,
    error_of,
    expect_code,
    expect_equal,
    expect_members,
    expect_status,
    x_ratelimit_names,
)
from conformance.harness.marks import clause_mark, configured

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker


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


def is_plain_json(answer: Exchange, scene: Scene) -> None:
    """JSON, though a stream was asked for."""
    expect_status(answer, scene.status)
    check_plain_json(answer)
    expect_code(answer, scene.code)


OF_EVERY_CODE: dict[str, Callable[[Exchange, Scene], None]] = {
    "rate_limiting.{}.status": says_status,
    "rate_limiting.{}.retry_after": says_retry_after,
    "codes.{}": says_code,
}
OF_ADMISSION: dict[str, Callable[[Exchange, Scene], None]] = {
    "rate_limiting.shed.envelope": has_envelope,
    "rate_limiting.shed.code_header": has_code_header,
    "rate_limiting.shed.retry_after_seconds": says_seconds,
    "rate_limiting.shed.no_x_ratelimit": has_no_x_ratelimit,
}
OF_THE_OTHERS: dict[str, Callable[[Exchange, Scene], None]] = {
    "rate_limiting.{}.envelope": has_envelope,
    "rate_limiting.{}.code_header": has_code_header,
    "rate_limiting.{}.no_x_ratelimit": has_no_x_ratelimit,
}


def _looks(scene: Scene) -> dict[str, Callable[[Exchange, Scene], None]]:
    """What is looked at in the answers of a scene, by the clause that says it."""
    of_its_kind = OF_ADMISSION if scene.code.startswith("admission") else OF_THE_OTHERS
    looks = {**OF_EVERY_CODE, **of_its_kind}
    if scene.retry_after is None:  # a computed one has checks of its own
        del looks["rate_limiting.{}.retry_after"]
    if scene.name == "disabled":
        looks["errors.envelope.type_too_many_requests"] = has_reason_phrase
    if scene.code == "scheduler_preempted":
        looks["rate_limiting.scheduler_preempted.header"] = is_marked_preempted
        looks["response_headers.preempted.on_preemption"] = is_marked_preempted
    return {clause_id.format(scene.code): look for clause_id, look in looks.items()}


def _case(scene: Scene, clause_id: str, look: Callable[[Exchange, Scene], None]) -> object:
    marks = (clause_mark(clause_id), configured(scene.configuration))
    return pytest.param(scene.engine, scene, look, id=f"{scene.name}-{clause_id}", marks=marks)


@pytest.mark.parametrize(
    ("engine", "scene", "look"),
    [_case(scene, clause_id, look) for scene in SCENES for clause_id, look in _looks(scene).items()],
    indirect=["engine"],
)
@pytest.mark.asyncio
async def test_a_shed_says(
    gateway: Gateway, worker: Worker, scene: Scene, look: Callable[[Exchange, Scene], None]
) -> None:
    """The answer of a request that is sent away says what the contract's table says of it."""
    async with Crowd(gateway, worker) as crowd:
        look(await crowd.judged(await scene.play(crowd)), scene)


@pytest.mark.parametrize(
    ("engine", "scene"),
    [
        pytest.param(
            scene.engine,
            scene,
            id=scene.name,
            marks=(clause_mark(f"rate_limiting.{scene.code}.stream_json"), configured(scene.configuration)),
        )
        for scene in SCENES
    ],
    indirect=["engine"],
)
@pytest.mark.asyncio
async def test_a_stream_is_shed_in_json(gateway: Gateway, worker: Worker, scene: Scene) -> None:
    """A request for a stream that is sent away gets the same JSON, not an event stream."""
    async with Crowd(gateway, worker) as crowd:
        is_plain_json(await crowd.judged(await scene.play(crowd, stream=True)), scene)


@pytest.mark.parametrize(
    ("engine", "scene"),
    [
        pytest.param(
            scene.engine,
            scene,
            id=scene.name,
            marks=(clause_mark(f"rate_limiting.{scene.code}.not_dispatched"), configured(scene.configuration)),
        )
        for scene in SCENES
        if scene.code != "scheduler_preempted"
    ],
    indirect=["engine"],
)
@pytest.mark.asyncio
async def test_a_shed_request_is_not_dispatched(gateway: Gateway, worker: Worker, scene: Scene) -> None:
    """No worker ever hears of a request that is sent away."""
    async with Crowd(gateway, worker) as crowd:
        proof = await crowd.proof()
        guest = await scene.play(crowd)
        expect_status(await crowd.judged(guest), scene.status)
        await guest.script.never_seen(because=proof)
