"""Vices of what a request is told that is sent away, and of sending it to a worker all the same."""

# ruff: noqa: E501 - a mutant is a row of a table, and a row is best on a line
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import simplejson

from reference_server.errors import GatewayError
from tests.mutants.hooks import refusing
from tests.mutants.vice import Vice, add, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from reference_server.answers import Answer
    from reference_server.call import Call

SHEDS = {
    "admission_queue_full": ("2", "rate_limiting.shed"),
    "admission_queue_timeout": ("2", "rate_limiting.shed"),
    "scheduler_queue_full": ("2", "rate_limiting.scheduler_queue_full"),
    "scheduler_queue_timeout": ("2", "rate_limiting.scheduler_queue_timeout"),
    "scheduler_preempted": ("1", "rate_limiting.scheduler_preempted"),
    "tenant_rate_limit_exceeded": (None, "rate_limiting.tenant_rate_limit_exceeded"),
    "worker_overload_protection_shed": ("1", "rate_limiting.worker_overload_protection_shed"),
}
"""Code → the Retry-After it has in the suite's configurations (None: computed), and how the clauses of its shape begin."""


def told(code: str, edit: Callable[[Answer], Any]) -> Vice:
    """The answer of a request that was sent away with a code, changed."""

    def change(refused: Any, answer: Answer) -> None:
        if getattr(refused, "code", None) == code:
            edit(answer)

    return refusing(change)


def _set(name: str, value: str | None) -> Callable[[Answer], None]:
    """Set a header, or take it away."""

    def edit(answer: Answer) -> None:
        answer.headers = [pair for pair in answer.headers if pair[0].lower() != name]
        if value is not None:
            answer.headers.append((name, value))

    return edit


def _error(edit: Callable[[dict[str, Any]], Any]) -> Callable[[Answer], None]:
    """Change the error object."""

    def change(answer: Answer) -> None:
        assert isinstance(answer.body, bytes)
        body = simplejson.loads(answer.body)
        edit(body["error"])
        answer.body = simplejson.dumps(body).encode()

    return change


def _status(answer: Answer) -> None:
    answer.status = 429 if answer.status == 503 else 503


def _events(answer: Answer) -> None:
    assert isinstance(answer.body, bytes)
    answer.body = b"data: " + answer.body + b"\n\n"
    _set("content-type", "text/event-stream")(answer)


for _code, (_wait, _shape) in SHEDS.items():
    _of = f"rate_limiting.{_code}"
    add(
        f"{_code}_swaps_429_and_503",
        f"{_code} has the other status of sheds.",
        (f"{_of}.status", f"codes.{_code}"),
        told(_code, _status),
    )
    add(
        f"{_code}_by_another_code",
        f"{_code} is called busy.",
        (f"codes.{_code}",),
        told(_code, _error(lambda error: error.update(code="busy"))),
    )
    add(
        f"{_code}_without_param",
        f"The envelope of {_code} has no param.",
        (f"{_shape}.envelope",),
        told(_code, _error(lambda error: error.pop("param"))),
    )
    add(
        f"{_code}_without_code_header",
        f"{_code} has no X-SMG-Error-Code.",
        (f"{_shape}.code_header",),
        told(_code, _set("x-smg-error-code", None)),
    )
    add(
        f"{_code}_announces_limits",
        f"{_code} announces a limit.",
        (f"{_shape}.no_x_ratelimit",),
        told(_code, _set("x-ratelimit-limit-requests", "2")),
    )
    add(f"{_code}_as_events", f"{_code} comes as an event stream.", (f"{_of}.stream_json",), told(_code, _events))
    if _wait is not None:
        add(
            f"{_code}_asks_for_more_time",
            f"{_code} says another Retry-After.",
            (f"{_of}.retry_after",),
            told(_code, _set("retry-after", "30")),
        )
        add(
            f"{_code}_asks_for_no_time",
            f"{_code} has no Retry-After.",
            (f"{_of}.retry_after",),
            told(_code, _set("retry-after", None)),
        )

for _code in ("admission_queue_full", "admission_queue_timeout"):
    add(
        f"{_code}_waits_in_fractions",
        f"{_code} says 2.0 seconds.",
        ("rate_limiting.shed.retry_after_seconds", f"rate_limiting.{_code}.retry_after"),
        told(_code, _set("retry-after", "2.0")),
    )
add(
    "types_too_many_requests",
    "A 429 has an OpenAI type.",
    ("errors.envelope.type_too_many_requests",),
    told("admission_queue_full", _error(lambda error: error.update(type="rate_limit_error"))),
)
add(
    "hides_preemption",
    "A preempted request is not told so in a header.",
    ("rate_limiting.scheduler_preempted.header", "response_headers.preempted.on_preemption"),
    told("scheduler_preempted", _set("x-smg-preempted", None)),
)
add(
    "preempts_by_number",
    "X-SMG-Preempted is 1.",
    ("rate_limiting.scheduler_preempted.header", "response_headers.preempted.on_preemption"),
    told("scheduler_preempted", _set("x-smg-preempted", "1")),
)


def _empty_stream(answer: Answer) -> None:
    answer.status, answer.body = 200, b""
    _set("content-type", "text/event-stream")(answer)


add("preempts_with_success", "A preempted request gets an empty stream with status 200.", ("rate_limiting.scheduler_preempted.never_empty_success", "rate_limiting.scheduler_preempted.status"),
    told("scheduler_preempted", _empty_stream))  # fmt: skip


async def ask_a_worker(this: Call, endpoint: Any, state: Any) -> None:
    """Send the request to a worker behind the back of whoever decides, and let the answer go."""
    from reference_server import pipeline  # noqa: PLC0415 - its functions are replaced by vices, so it comes late

    request = await pipeline.parse(this, endpoint)
    outgoing = pipeline.choose(this, request, pipeline.choose_profile(request.model), state.settings)
    worker = state.workers.registry.serving(outgoing.model)[0]
    response = await state.workers._client.send(
        worker.url, "POST", outgoing.path, headers=outgoing.headers, body=outgoing.body
    )
    await response.aclose()


def asks_all_the_same(*codes: str) -> Vice:
    """A request that is sent away with one of these codes is sent to a worker too."""

    async def serve(original: Any, this: Call, endpoint: Any, state: Any) -> Any:
        """Serve; when that is refused, ask a worker."""
        try:
            return await original(this, endpoint, state)
        except GatewayError as refused:
            if refused.code in codes:
                await ask_a_worker(this, endpoint, state)
            raise

    return swap("reference_server.pipeline:serve", serve)


for _code in SHEDS:
    if _code != "scheduler_preempted":
        add(
            f"{_code}_dispatches",
            f"A request answered {_code} reaches a worker.",
            (f"rate_limiting.{_code}.not_dispatched",),
            asks_all_the_same(_code),
        )
