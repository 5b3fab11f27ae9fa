"""Routing hints: whatever they are, the request is served unchanged, and the token hint stays with the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.checks.routes_support import COMPLETION, expect_success, send
from conformance.checks.workers_support import Registry, inference, own_fleet, own_model
from conformance.harness.gateway import CHAT, COMPLETIONS, EMBEDDINGS
from conformance.harness.marks import case, clause
from fake_workers import wire

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

TOKENS, KEY = "X-SMG-Routing-Tokens", "X-SMG-Routing-Key"
BYTES_4096 = ",".join(["1234567"] * 512)
"""512 ids of seven digits and their commas: 4095 bytes. One digit more makes 4096."""

TOKEN_HINTS: dict[str, list[str]] = {
    "valid_served": ["128000,791,4062,14198,39935", "7"],
    "smallest_id": ["0", "0,1,0"],
    "largest_id": ["4294967295"],
    "most_ids": [",".join(map(str, range(512)))],
    "most_bytes": [BYTES_4096 + "0"],
    "over_largest_id": ["4294967296", "1,99999999999999999999,2"],
    "too_many_ids": [",".join(["1"] * 513), ",".join(["1"] * 2000)],
    "too_many_bytes": [BYTES_4096 + "00", "0" * 4097],
    "spaces": ["1, 2", "1 ,2", "1 2", "1,2 3"],
    "signs": ["+1,2", "-1", "1,-2"],
    "empty_items": [",", "1,,2", "1,", ",1"],
    "not_decimal": ["0x10", "1.5", "1e3", "abc", "[1,2]", "1;2", "1_000", "\N{ARABIC-INDIC DIGIT ONE}"],
    "empty": [""],
    "not_text": ["1,\udcff\udcfe,2", "1,é"],
}
WELL_FORMED = ["valid_served", "smallest_id", "largest_id", "most_ids", "most_bytes"]
KEY_HINTS: dict[str, list[str]] = {
    "valid_served": ["session-17"],
    "longest": ["k" * 128, "é" * 64],
    "too_long": ["k" * 129, "é" * 65, "k" * 4000],
    "empty": [""],
    "utf8": ["Schlüssel-鍵"],
    "not_utf8": ["k\udcff\udcfe", "\udc80"],
    "opaque": ["a b c", "1,2;3=4", "http://key/?a=b#c", '"quoted"', "%00%0a", "{}"],
}


def _cases(prefix: str, hints: dict[str, list[str]], names: list[str] | None = None) -> list[Any]:
    """Each hint as a case of its clause."""
    return [
        case(f"hints.{prefix}.{name}", value, name=f"{name}-{number}")
        for name in names or hints
        for number, value in enumerate(hints[name])
    ]


@pytest.mark.parametrize("value", _cases("tokens", TOKEN_HINTS))
async def test_token_hint_is_no_error(gateway: Gateway, worker: Worker, value: str) -> None:
    """Well-formed or not, the hint is never a reason not to serve."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[(TOKENS, value)]))
    await script.only()


@pytest.mark.parametrize("value", _cases("key", KEY_HINTS))
async def test_routing_key_is_no_error(gateway: Gateway, worker: Worker, value: str) -> None:
    """Whatever the key is, it is never a reason not to serve."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[(KEY, value)]))
    await script.only()


@pytest.mark.parametrize(
    "value",
    [
        *[
            case(
                f"hints.tokens.{'never' if name in WELL_FORMED else 'malformed_never'}_forwarded",
                value,
                name=f"{name}-{number}",
            )
            for name, values in TOKEN_HINTS.items()
            for number, value in enumerate(values)
        ]
    ],
)
async def test_token_hint_stays_with_the_gateway(gateway: Gateway, worker: Worker, value: str) -> None:
    """The worker receives the routing key of the request, which is forwarded, and not its tokens."""
    script = worker.script()
    await gateway.chat(script, headers=[(TOKENS, value), ("X-Correlation-ID", "proof-17")])
    entry = await script.only()
    assert entry.header("x-correlation-id") == "proof-17"
    assert entry.header_all(TOKENS) == []


@pytest.mark.parametrize(
    ("hint", "path", "fields"),
    [
        case("hints.tokens.completions", (TOKENS, "1,2,3"), COMPLETIONS, {}, name="tokens-completions"),
        case("hints.tokens.embeddings", (TOKENS, "1,2,3"), EMBEDDINGS, {}, name="tokens-embeddings"),
        case("hints.tokens.streaming", (TOKENS, "1,2,3"), CHAT, {"stream": True}, name="tokens-stream"),
        case("hints.key.completions", (KEY, "key-17"), COMPLETIONS, {}, name="key-completions"),
        case("hints.key.embeddings", (KEY, "key-17"), EMBEDDINGS, {}, name="key-embeddings"),
        case("hints.key.streaming", (KEY, "key-17"), CHAT, {"stream": True}, name="key-stream"),
    ],
)
async def test_hints_on_other_requests(
    gateway: Gateway, worker: Worker, hint: tuple[str, str], path: str, fields: dict[str, Any]
) -> None:
    """Hints are read on every inference route and with streams, and disturb none of them."""
    script = worker.script()
    expect_success(await send(gateway, path, script, [hint], **fields))
    await script.only()


@clause("hints.both_together")
async def test_both_hints(gateway: Gateway, worker: Worker) -> None:
    """A request with both hints is served."""
    script = worker.script()
    expect_success(await gateway.chat(script, headers=[(TOKENS, "1,2,3"), (KEY, "key-17")]))
    await script.only()


@pytest.mark.parametrize(
    "headers",
    [[(TOKENS, "1,2,3")], [(KEY, "key-17")], [(TOKENS, "1, 2"), (KEY, "k" * 129)]],
    ids=["tokens", "key", "malformed"],
)
@clause("hints.only_placement")
async def test_hints_leave_the_body_alone(
    gateway: Gateway, worker: Worker, headers: list[tuple[str, str | None]]
) -> None:
    """The same request, sent with the hint and without, arrives with the same body."""
    script = worker.script()
    await gateway.chat(script, temperature=0.5, unmodelled={"a": 1})
    await gateway.chat(script, headers=headers, temperature=0.5, unmodelled={"a": 1})
    without, hinted = await script.received(2)
    assert hinted.body == without.body


@pytest.mark.parametrize("headers", [[(TOKENS, "1,2,3")], [(KEY, "key-17")]], ids=["tokens", "key"])
@clause("hints.only_placement_answer")
async def test_hints_leave_the_answer_alone(
    gateway: Gateway, worker: Worker, headers: list[tuple[str, str | None]]
) -> None:
    """The answer to a hinted request is the worker's, byte for byte."""
    script = worker.script(wire.json(200, COMPLETION))
    answer = expect_success(await gateway.chat(script, headers=headers))
    await script.only()
    assert answer.body == wire.compact(COMPLETION)


@clause("hints.key.round_robin_ignores")
async def test_round_robin_does_not_stick(gateway: Gateway) -> None:
    """Two workers of one model: requests of one key still go to both in turn."""
    model = own_model()
    async with own_fleet(model, model) as fleet, Registry(gateway) as registry:
        for url in fleet.urls:
            await registry.add(url)
        for _ in range(6):
            expect_success(await registry.chat(model, headers=[(KEY, "key-17")]))
        counts = [len(inference(fleet, name)) for name in fleet.workers]
        assert counts == [3, 3]
