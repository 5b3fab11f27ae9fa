"""Completions: what an HTTP worker receives of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import COMPLETIONS, Disproved, clause, literal
from fake_workers import wire
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness import Entry, Gateway, Worker


async def received(gateway: Gateway, worker: Worker, **fields: Any) -> Entry:
    """Send a completion with these members and return what the worker received, after it was answered with success."""
    script = worker.script()
    answer = await gateway.completion(script, **fields)
    entry = await script.only()
    assert answer.succeeded, answer.brief()
    return entry


@clause("completions.route")
async def test_same_route_at_the_worker(gateway: Gateway, worker: Worker) -> None:
    """A completion is posted to the worker's own /v1/completions."""
    entry = await received(gateway, worker)
    assert (entry.method, entry.target) == ("POST", COMPLETIONS)
    assert entry.worker == worker.name


@clause("completions.minimal")
async def test_model_and_prompt_are_enough(gateway: Gateway, worker: Worker) -> None:
    """A request of model and prompt alone is served."""
    script = worker.script(Reply(pieces=["served"]))
    answer = await gateway.post(COMPLETIONS, {"model": gateway.model, "prompt": script.prompt})
    await script.only()
    assert answer.json["choices"][0]["text"] == "served"


@clause("completions.model.alias")
async def test_alias_is_resolved(gateway: Gateway, worker: Worker) -> None:
    """A request by alias reaches a worker of the model the alias stands for, under that model's name."""
    entry = await received(gateway, worker, model=gateway.alias)
    assert entry.json["model"] == gateway.alias_of


@clause("completions.model.unknown")
async def test_unknown_model(gateway: Gateway, worker: Worker) -> None:
    """A model that no worker serves is answered with 404, and no worker hears of it."""
    await gateway.refuses(worker, COMPLETIONS, {}, {"model": "conformance-nobody-serves-this"}, status=404)


@clause("completions.prompt.text", "completions.unicode.prompt")
@pytest.mark.parametrize("text", ["plain", "café 名 😀", 'line\nbreak\ttab "quoted" \\', " \u2028 ", "{{braces}}"])
async def test_prompt_text(gateway: Gateway, worker: Worker, text: str) -> None:
    """A text prompt reaches the worker as the same text."""
    script = worker.script()
    await gateway.completion(script, prompt=f"{text} {script.marker}")
    assert (await script.only()).json["prompt"] == f"{text} {script.marker}"


@clause("completions.prompt.array_order")
async def test_prompts_keep_their_order(gateway: Gateway, worker: Worker) -> None:
    """The prompts of an array reach the worker in their order, doubles included."""
    script = worker.script()
    prompts = ["zebra", "apple", script.prompt, "apple", "é"]
    await gateway.completion(script, prompt=prompts)
    assert (await script.received())[0].json["prompt"] == prompts


@clause("completions.prompt.array_one_request")
async def test_prompts_stay_one_request(gateway: Gateway, worker: Worker) -> None:
    """Three prompts, each with the marker, make one request to the worker and not three."""
    script = worker.script()
    prompts = [f"{number} {script.prompt}" for number in range(3)]
    await gateway.completion(script, prompt=prompts)
    assert (await script.only()).json["prompt"] == prompts


@clause("completions.prompt.array_of_one")
async def test_one_prompt_in_an_array(gateway: Gateway, worker: Worker) -> None:
    """An array of one prompt is still an array at the worker."""
    script = worker.script()
    await gateway.completion(script, prompt=[script.prompt])
    assert (await script.only()).json["prompt"] == [script.prompt]


@clause("completions.prompt.empty_text")
async def test_empty_prompt(gateway: Gateway, worker: Worker) -> None:
    """An empty text prompt is accepted and reaches the worker; the marker travels in user."""
    script = worker.script()
    answer = await gateway.completion(script, prompt="", user=script.marker)
    assert (await script.only()).json["prompt"] == ""
    assert answer.succeeded


@clause("completions.prompt.token_ids")
@pytest.mark.parametrize("prompt", [[1, 2, 3], [[1, 2], [3]]], ids=["ids", "lists"])
async def test_token_ids_are_refused(gateway: Gateway, worker: Worker, prompt: list[Any]) -> None:
    """Token ids, in one list or several, are refused and reach no worker."""
    await gateway.refuses(worker, COMPLETIONS, {}, {"prompt": prompt, "user": "{{prompt}}"})


@clause("completions.max_tokens.own_name")
async def test_max_tokens_keeps_its_name(gateway: Gateway, worker: Worker) -> None:
    """max_tokens reaches the worker as max_tokens, and not as max_completion_tokens."""
    body = (await received(gateway, worker, max_tokens=9)).json
    assert body["max_tokens"] == 9
    assert "max_completion_tokens" not in body


@clause("completions.stop.four")
async def test_four_stops(gateway: Gateway, worker: Worker) -> None:
    """Four stop sequences reach the worker in order."""
    stops = ["\n\n", "b", "END", "é"]
    assert (await received(gateway, worker, stop=stops)).json["stop"] == stops


@clause("completions.seed.negative")
async def test_negative_seed(gateway: Gateway, worker: Worker) -> None:
    """A seed of -7 reaches the worker as -7."""
    assert (await received(gateway, worker, seed=-7)).json["seed"] == -7


@clause("completions.seed.digits")
@pytest.mark.parametrize("seed", ["9007199254740993", "4611686018427387903", "-9007199254740993"])
async def test_large_seed(gateway: Gateway, worker: Worker, seed: str) -> None:
    """A seed that no double can hold keeps its last digit."""
    assert f'"seed":{seed}'.encode() in (await received(gateway, worker, seed=literal(seed))).body.replace(b" ", b"")


@clause("completions.suffix.verbatim")
async def test_suffix(gateway: Gateway, worker: Worker) -> None:
    """A suffix with line breaks, quotes and accents reaches the worker letter for letter."""
    suffix = '\n    return "é"\n\t# 名 \\n'
    assert (await received(gateway, worker, suffix=suffix)).json["suffix"] == suffix


@clause("completions.echo.reaches_worker")
async def test_echo(gateway: Gateway, worker: Worker) -> None:
    """Echo true reaches the worker as true."""
    assert (await received(gateway, worker, echo=True)).json["echo"] is True


@clause("completions.echo.relayed")
async def test_echoed_text(gateway: Gateway, worker: Worker) -> None:
    """The text that an engine puts before its completion reaches the client."""
    choices = [{"index": 0, "text": "The prompt. The end.", "logprobs": None, "finish_reason": "stop"}]
    script = worker.script(
        wire.json(200, {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": choices})
    )
    answer = await gateway.completion(script, echo=True)
    await script.only()
    assert answer.json["choices"] == choices


@clause("completions.logprobs.zero")
async def test_zero_logprobs(gateway: Gateway, worker: Worker) -> None:
    """Logprobs 0 is not the same as none, and reaches the worker as 0."""
    body = (await received(gateway, worker, logprobs=0)).json
    assert type(body["logprobs"]) is int
    assert body["logprobs"] == 0


NUMBERS = ["temperature", "top_p", "presence_penalty", "frequency_penalty"]


@clause("completions.numbers.not_widened")
@pytest.mark.parametrize("number", ["0.95", "0.1", "0.7"])
@pytest.mark.parametrize("field", NUMBERS)
async def test_sampling_numbers_keep_their_digits(gateway: Gateway, worker: Worker, field: str, number: str) -> None:
    """A sampling number that single precision cannot hold is not widened into its neighbour."""
    body = (await received(gateway, worker, **{field: literal(number)})).body
    assert f'"{field}":{number}'.encode() in body.replace(b" ", b"")


@clause("completions.absent.not_filled")
async def test_absent_fields_stay_absent(gateway: Gateway, worker: Worker) -> None:
    """The engine's own defaults apply: no sampling field appears that the client did not send, unless as null."""
    body = (await received(gateway, worker)).json
    sampling = {
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "best_of",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "top_k",
        "min_p",
    }
    assert {name: body[name] for name in sampling & set(body) if body[name] is not None} == {}


@clause("completions.unknown_fields.kept")
@pytest.mark.parametrize("value", [7, "text", False, None, 0.5, [], {}], ids=repr)
async def test_unknown_field(gateway: Gateway, worker: Worker, value: Any) -> None:
    """A field of tomorrow reaches the worker with its value, whatever its type."""
    body = (await received(gateway, worker, something_of_tomorrow=value)).json
    assert body["something_of_tomorrow"] == value
    assert type(body["something_of_tomorrow"]) is type(value)


@clause("completions.unknown_fields.nested")
async def test_nested_unknown_field(gateway: Gateway, worker: Worker) -> None:
    """Objects and arrays in an unknown field reach the worker whole."""
    value = {"a": [1, {"b": None, "": "é"}], "prompt": "not the prompt", "model": "not the model"}
    assert (await received(gateway, worker, something_of_tomorrow=value)).json["something_of_tomorrow"] == value


@clause("completions.unknown_fields.number_text")
@pytest.mark.parametrize("number", ["1.50", "1e3", "12345678901234567890123", "0.30000000000000004441"])
async def test_numbers_of_unknown_fields(gateway: Gateway, worker: Worker, number: str) -> None:
    """A number in an unknown field is spelt for the worker as the client spelt it."""
    body = (await received(gateway, worker, something_of_tomorrow=literal(number))).body
    if f'"something_of_tomorrow":{number}'.encode() not in body.replace(b" ", b""):
        raise Disproved("number spelt anew", f"{number} did not arrive as it was sent: {body[-200:]!r}")
