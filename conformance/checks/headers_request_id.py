"""Request ids: where they are looked for, what becomes of bad ones, and what the client and the worker see of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.routes_support import REQUEST_ID, expect_success
from conformance.harness.errors import Disproved
from conformance.harness.marks import case, clause

if TYPE_CHECKING:
    from conformance.harness.exchange import Exchange
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

ORDER = ["X-Request-ID", "X-Correlation-ID", "X-Trace-ID", "Request-ID"]


def used(answer: Exchange) -> str:
    """The request id the gateway says it used; Disproved when it names none."""
    value = expect_success(answer).headers.get(REQUEST_ID)
    if not value:
        raise Disproved("no x-request-id", f"the answer carries no x-request-id: {answer.headers}")
    return value


@pytest.mark.parametrize(
    "name",
    [
        case("request_id.x_request_id", "X-Request-ID"),
        case("request_id.x_correlation_id", "X-Correlation-ID"),
        case("request_id.x_trace_id", "X-Trace-ID"),
        case("request_id.request_id", "Request-ID"),
    ],
)
async def test_header_gives_the_id(gateway: Gateway, worker: Worker, name: str) -> None:
    """The only id header of a request gives the request id."""
    assert used(await gateway.chat(worker.script(), headers=[(name, "id-of-the-client")])) == "id-of-the-client"


@pytest.mark.parametrize(
    "first",
    [
        case("request_id.order.request_before_correlation", 0, name="request"),
        case("request_id.order.correlation_before_trace", 1, name="correlation"),
        case("request_id.order.trace_before_request_id", 2, name="trace"),
    ],
)
async def test_order_of_the_list(gateway: Gateway, worker: Worker, first: int) -> None:
    """Of two neighbours in the list, the earlier one gives the id."""
    winner, loser = ORDER[first], ORDER[first + 1]
    assert used(await gateway.chat(worker.script(), headers=[(winner, "winner"), (loser, "loser")])) == "winner"


@clause("request_id.order.not_line_order")
async def test_order_of_lines_does_not_matter(gateway: Gateway, worker: Worker) -> None:
    """All four, written last to first: the first of the list still wins."""
    headers = [(name, f"id-of-{name.lower()}") for name in reversed(ORDER)]
    assert used(await gateway.chat(worker.script(), headers=headers)) == "id-of-x-request-id"


@pytest.mark.parametrize("name", ["x-request-id", "X-REQUEST-ID", "x-CORRELATION-id", "rEQUEST-iD"])
@clause("request_id.any_case")
async def test_names_in_any_case(gateway: Gateway, worker: Worker, name: str) -> None:
    """The names of the list are matched whatever their case."""
    assert used(await gateway.chat(worker.script(), headers=[(name, "id-17")])) == "id-17"


@clause("request_id.generated")
async def test_id_is_generated(gateway: Gateway, worker: Worker) -> None:
    """A request without an id gets one."""
    used(await gateway.chat(worker.script()))


@clause("request_id.generated_unique")
async def test_generated_ids_differ(gateway: Gateway, worker: Worker) -> None:
    """Eight requests without an id get eight ids."""
    ids = [used(await gateway.chat(worker.script())) for _ in range(8)]
    assert len(set(ids)) == len(ids)


@clause("request_id.generated_printable")
async def test_generated_ids_are_printable(gateway: Gateway, worker: Worker) -> None:
    """A generated id keeps to the characters and the length that received ones are held to."""
    value = used(await gateway.chat(worker.script()))
    assert 1 <= len(value) <= 128
    assert all("!" <= letter <= "~" for letter in value)


@pytest.mark.parametrize("name", ["X-Session-ID", "X-Amzn-Trace-Id", "traceparent", "X-Request-ID-Parent", "id"])
@clause("request_id.other_headers_ignored")
async def test_other_headers_give_no_id(gateway: Gateway, worker: Worker, name: str) -> None:
    """A header outside the list gives no id, so one is generated."""
    assert used(await gateway.chat(worker.script(), headers=[(name, "not-the-id")])) != "not-the-id"


MALFORMED = {
    "blank_replaced": ["a b", "two  blanks"],
    "too_long_replaced": ["x" * 129, "x" * 300],
    "empty_replaced": [""],
    "control_replaced": ["a\tb"],
    "not_ascii_replaced": ["café-17", "\udce9\udcff"],
}
EVERY_MALFORMED = [
    (f"{name}-{number}", value) for name, values in MALFORMED.items() for number, value in enumerate(values)
]


@pytest.mark.parametrize(
    "value",
    [case(f"request_id.malformed.{name.partition('-')[0]}", value, name=name) for name, value in EVERY_MALFORMED],
)
async def test_malformed_id_is_replaced(gateway: Gateway, worker: Worker, value: str) -> None:
    """A malformed id does not come back: the answer names a generated, printable one."""
    named = used(await gateway.chat(worker.script(), headers=[("X-Request-ID", value)]))
    if named.encode("latin-1") == value.encode("utf-8", "surrogateescape"):
        raise Disproved("malformed id kept", f"the malformed id {value!r} came back as it was")
    assert len(named) <= 128
    assert all("!" <= letter <= "~" for letter in named)


@clause("request_id.malformed.longest_kept")
async def test_longest_id_is_kept(gateway: Gateway, worker: Worker) -> None:
    """128 characters are not too many."""
    assert used(await gateway.chat(worker.script(), headers=[("X-Request-ID", "x" * 128)])) == "x" * 128


@pytest.mark.parametrize("value", ["a b", "x" * 129], ids=["blank", "long"])
@clause("request_id.malformed.worker_gets_replacement")
async def test_worker_gets_the_replacement(gateway: Gateway, worker: Worker, value: str) -> None:
    """The worker reads the id the client will read, not the malformed one."""
    script = worker.script()
    named = used(await gateway.chat(script, headers=[("X-Request-ID", value)]))
    entry = await script.only()
    if named == value:
        raise Disproved("malformed id kept", f"the malformed id {value!r} came back as it was")
    assert entry.header_all("x-request-id") == [named]


@pytest.mark.parametrize("value", [pytest.param(value, id=case) for case, value in EVERY_MALFORMED])
@clause("request_id.malformed.never_refused")
async def test_malformed_id_is_no_reason_to_refuse(gateway: Gateway, worker: Worker, value: str) -> None:
    """The request is served as if it had brought no id."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[("X-Request-ID", value)]))
    await script.only()


FIRST, SECOND = "X-Conformance-ID", "X-Conformance-Other-ID"


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        case("request_id.custom.first_name", [(FIRST, "one")], "one", name="first"),
        case("request_id.custom.second_name", [(SECOND, "two")], "two", name="second"),
        case("request_id.custom.order", [(SECOND, "two"), (FIRST, "one")], "one", name="order"),
        case("request_id.custom.beats_default", [("X-Request-ID", "default"), (SECOND, "two")], "two", name="default"),
    ],
)
async def test_configured_names(
    gateway: Gateway, worker: Worker, headers: list[tuple[str, str | None]], wanted: str
) -> None:
    """The configured names give the id, in their order."""
    assert used(await gateway.chat(worker.script(), headers=headers)) == wanted


@pytest.mark.parametrize("name", ORDER)
@clause("request_id.custom.defaults_replaced")
async def test_default_names_are_replaced(gateway: Gateway, worker: Worker, name: str) -> None:
    """A default name that is not configured gives no id any more: one is generated."""
    assert used(await gateway.chat(worker.script(), headers=[(name, "by-default")])) != "by-default"


@clause("request_id.custom.allow_list_unchanged")
async def test_allow_list_is_another_list(gateway: Gateway, worker: Worker) -> None:
    """X-Request-ID is no id header here, and still a header the worker receives."""
    script = worker.script()
    await gateway.chat(script, headers=[("X-Request-ID", "for-the-worker"), (FIRST, "one")])
    entry = await script.only()
    assert entry.header_all("x-request-id") == ["for-the-worker"]
