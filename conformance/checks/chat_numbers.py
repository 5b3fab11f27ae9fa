"""Typed sampling numbers: what the client wrote is what the engine reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_kit import Fields, case, deliver
from conformance.harness.bodies import literal
from conformance.harness.marks import clause, engines

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio

DECIMALS = {
    "temperature": ("0.95", "0.7", "0.1", "1.1", "1.99"),
    "top_p": ("0.95", "0.1", "0.9", "0.333"),
    "presence_penalty": ("0.3", "-1.7", "1.9"),
    "frequency_penalty": ("-0.1", "0.7", "1.3"),
    "min_p": ("0.05", "0.1"),
    "repetition_penalty": ("1.05", "0.9", "1.1"),
}
"""Decimals that no binary fraction hits: widened from single precision they read 0.949999988079071 and the like."""

FIELDS = [
    case(f"chat.numbers.{field}_not_widened", field, text, name=text)
    for field, texts in DECIMALS.items()
    for text in texts
]


@pytest.mark.parametrize(("field", "text"), FIELDS)
async def test_decimal_is_not_widened(gateway: Gateway, worker: Worker, field: str, text: str) -> None:
    """A short decimal arrives with exactly the value that was written."""
    delivery = await deliver(gateway, worker, **{field: literal(text)})
    delivery.unchanged(field, digits=False)


@clause("chat.numbers.logit_bias_not_widened")
async def test_bias_is_not_widened(gateway: Gateway, worker: Worker) -> None:
    """Decimal biases arrive with exactly the values that were written."""
    delivery = await deliver(
        gateway, worker, logit_bias={"1": literal("0.1"), "2": literal("-99.9"), "3": literal("0.7")}
    )
    delivery.unchanged("logit_bias", digits=False)


SAMPLING: Fields = {"temperature": literal("0.7"), "top_p": literal("0.95"), "presence_penalty": literal("-0.1")}


@clause("chat.numbers.not_widened_in_stream")
async def test_decimals_are_not_widened_in_a_stream(gateway: Gateway, worker: Worker) -> None:
    """A streaming request's decimals arrive as they were written."""
    delivery = await deliver(gateway, worker, stream=True, **SAMPLING)
    delivery.all_unchanged(SAMPLING, digits=False)


@clause("chat.numbers.on_every_engine")
@engines("sglang", "vllm", "tokenspeed")
async def test_decimals_are_kept_for_every_engine(gateway: Gateway, worker: Worker) -> None:
    """Decimals arrive as they were written, whatever the engine."""
    delivery = await deliver(gateway, worker, **SAMPLING)
    delivery.all_unchanged(SAMPLING, digits=False)


@clause("chat.numbers.small_kept")
@pytest.mark.parametrize("text", ["0.000001", "1e-5", "0.00390625"])
async def test_small_number_keeps_its_value(gateway: Gateway, worker: Worker, text: str) -> None:
    """A number far below one is neither rounded to zero nor to a neighbour."""
    delivery = await deliver(gateway, worker, top_p=literal(text))
    delivery.unchanged("top_p", digits=False)


@clause("chat.numbers.negative_zero_accepted")
async def test_negative_zero_is_zero(gateway: Gateway, worker: Worker) -> None:
    """A penalty of -0.0 is within range and arrives as zero."""
    delivery = await deliver(gateway, worker, presence_penalty=literal("-0.0"))
    delivery.unchanged("presence_penalty", digits=False)


@clause("chat.numbers.long_decimal_kept")
@pytest.mark.parametrize("text", ["0.30000000000000004", "0.12345678901234568"])
async def test_long_decimal_keeps_its_digits(gateway: Gateway, worker: Worker, text: str) -> None:
    """A number with all the digits of a double arrives with all of them."""
    delivery = await deliver(gateway, worker, temperature=literal(text))
    delivery.unchanged("temperature", digits=False)
