"""The chat request as a whole: its route, its JSON, its model, its messages, and fields whose value must arrive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from conformance.checks.chat_kit import Fields, answer, case, deliver, deliver_bytes, says, tool
from conformance.harness.bodies import PROMPT, encode, literal
from conformance.harness.gateway import CHAT
from conformance.harness.marks import clause, engines
from fake_workers.script import Reply

if TYPE_CHECKING:
    from conformance.harness.gateway import Gateway
    from conformance.harness.worker import Worker

pytestmark = pytest.mark.asyncio


@clause("chat.endpoint.post_path")
async def test_chat_is_created_by_post(gateway: Gateway, worker: Worker) -> None:
    """POST on the route creates a chat completion; GET on it creates none."""
    delivery = await deliver(gateway, worker)
    assert delivery.exchange.json["object"] == "chat.completion"
    exchange = await gateway.get(CHAT)
    assert exchange.status in {404, 405}


@clause("chat.endpoint.worker_path")
@engines("sglang", "vllm", "tokenspeed")
async def test_worker_is_asked_under_the_same_path(gateway: Gateway, worker: Worker) -> None:
    """The worker receives POST /v1/chat/completions, whatever its engine."""
    delivery = await deliver(gateway, worker)
    assert (delivery.entry.method, delivery.entry.target) == ("POST", CHAT)


@clause("chat.endpoint.example_accepted")
async def test_the_contract_s_example_is_accepted(gateway: Gateway, worker: Worker) -> None:
    """The page's own request is accepted, and its two messages and its temperature arrive."""
    messages = [says("You are a helpful assistant.", "system"), says(f"What is the capital of France? {PROMPT}")]
    delivery = await deliver(gateway, worker, messages=messages, max_tokens=100, temperature=literal("0.7"))
    delivery.unchanged("messages")
    delivery.unchanged("temperature", digits=False)


BODIES = [
    case("chat.body.pretty_printed_accepted", lambda body: json.dumps(body, indent=4).replace("\n", "\r\n\t").encode()),
    case(
        "chat.body.member_order_free", lambda body: encode(dict(sorted(body.items(), reverse=True))), name="backwards"
    ),
    case("chat.body.member_order_free", lambda body: encode(dict(sorted(body.items()))), name="alphabetical"),
]


@pytest.mark.parametrize("write", BODIES)
async def test_spelling_of_the_body_does_not_matter(gateway: Gateway, worker: Worker, write: object) -> None:
    """White space between tokens and the order of members change nothing of what arrives."""
    assert callable(write)
    members: Fields = {"model": gateway.model, "messages": [says()], "user": "u", "top_logprobs": 2, "logprobs": True}
    delivery = await deliver_bytes(gateway, worker, write(members))
    for name in members:
        delivery.unchanged(name)


@clause("chat.body.escapes_accepted")
async def test_unicode_escapes_mean_their_characters(gateway: Gateway, worker: Worker) -> None:
    """Escaped characters arrive as the characters they name, a surrogate pair as one, an escaped member name too."""
    content = PROMPT + r" \u00e9 \ud83d\ude00 \/"
    message = '{"role":"user","content":"' + content + '"}'
    text = r'{"m\u006fdel":"' + gateway.model + '","messages":[' + message + "]}"
    delivery = await deliver_bytes(gateway, worker, text.encode())
    assert delivery.at("messages", 0, "content").endswith(" é 😀 /")


@pytest.mark.parametrize("stream", [False, True])
@clause("chat.model.canonical_sent")
async def test_canonical_model_name_reaches_the_worker(gateway: Gateway, worker: Worker, *, stream: bool) -> None:
    """A canonical model name is sent on as it is."""
    delivery = await deliver(gateway, worker, stream=stream)
    delivery.arrived_as(worker.model, "model")


@clause("chat.model.selects_worker")
@engines("sglang", "vllm", "tokenspeed")
async def test_model_selects_the_worker(gateway: Gateway, worker: Worker) -> None:
    """The request goes to the worker that serves the named model, time after time."""
    for _ in range(4):
        assert (await deliver(gateway, worker)).entry.worker == worker.name


ALIAS_CASES = [
    case("chat.model.alias_accepted", {}),
    case("chat.model.alias_resolved", {}),
    case("chat.model.alias_resolved_in_stream", {"stream": True}),
]


@pytest.mark.parametrize("fields", ALIAS_CASES)
async def test_alias_is_resolved(gateway: Gateway, worker: Worker, fields: Fields) -> None:
    """A request under an alias is accepted, and its worker reads the canonical name."""
    assert gateway.alias
    delivery = await deliver(gateway, worker, model=gateway.alias, **fields)
    delivery.arrived_as(gateway.alias_of, "model")


@clause("chat.model.alias_rest_untouched")
async def test_alias_changes_nothing_else(gateway: Gateway, worker: Worker) -> None:
    """Beside the model's name, a request under an alias arrives as one under the canonical name does."""
    fields: Fields = {"temperature": literal("0.7"), "user": gateway.alias, "stop": [gateway.alias]}
    messages = [says(f"{gateway.alias} {PROMPT}", name="alias")]
    delivery = await deliver(gateway, worker, model=gateway.alias, messages=messages, **fields)
    delivery.all_unchanged([*fields, "messages"], digits=False)


@clause("chat.model.alias_exact")
async def test_alias_in_another_case_is_unknown(gateway: Gateway, worker: Worker) -> None:
    """An alias in capitals is no alias: 404, and no worker sees the request."""
    await gateway.refuses(worker, CHAT, {"model": gateway.alias}, {"model": gateway.alias.upper()}, status=404)


CONVERSATION = [
    says("Be brief.", "system"),
    *(says(f"{'question' if i % 2 == 0 else 'answer'} {i}", "user" if i % 2 == 0 else "assistant") for i in range(40)),
    says(),
]


@clause("chat.messages.order_kept", "chat.messages.all_delivered", "chat.messages.none_added")
async def test_conversation_arrives_as_it_is(gateway: Gateway, worker: Worker) -> None:
    """A conversation of 42 messages arrives complete, in order, with nothing put in."""
    delivery = await deliver(gateway, worker, messages=CONVERSATION)
    delivery.unchanged("messages")


@clause("chat.n.all_choices_returned")
async def test_all_choices_come_back(gateway: Gateway, worker: Worker) -> None:
    """With n = 3 the client has the worker's three choices."""
    delivery = await deliver(gateway, worker, Reply(pieces=["one"]), n=3)
    assert sorted(choice["index"] for choice in delivery.exchange.json["choices"]) == [0, 1, 2]


@clause("chat.stop.string_stays_string")
async def test_stop_string_stays_a_string(gateway: Gateway, worker: Worker) -> None:
    """A single stop string arrives as a string."""
    (await deliver(gateway, worker, stop="END")).arrived_as("END", "stop")


@clause("chat.stop.sequences_kept")
@pytest.mark.parametrize("stop", [["b", "a", "d", "c"], ["\n\n", "é", '"', "\\"], ["same", "same"]])
async def test_stop_sequences_arrive(gateway: Gateway, worker: Worker, stop: list[str]) -> None:
    """Stop sequences arrive unchanged, in order, none left out as a double."""
    (await deliver(gateway, worker, stop=stop)).arrived_as(stop, "stop")


@clause("chat.logit_bias.pairs_kept")
async def test_logit_bias_arrives(gateway: Gateway, worker: Worker) -> None:
    """Each pair of a map with 300 entries arrives with its bias."""
    bias = {str(token): literal(f"{token % 201 - 100}") for token in range(0, 60000, 200)}
    delivery = await deliver(gateway, worker, logit_bias=bias)
    delivery.unchanged("logit_bias", digits=False)


@clause("chat.user.kept_verbatim")
@pytest.mark.parametrize("user", ["user-1", " padded ", "Ünï/…?&=%20", 'quote"back\\slash', "x" * 600])
async def test_user_arrives(gateway: Gateway, worker: Worker, user: str) -> None:
    """The end-user identifier arrives character by character."""
    (await deliver(gateway, worker, user=user)).arrived_as(user, "user")


EVERYTHING: Fields = {
    "max_completion_tokens": 64,
    "temperature": literal("0.7"),
    "top_p": literal("0.95"),
    "n": 2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "stop": ["END", "\n\n"],
    "presence_penalty": literal("-0.1"),
    "frequency_penalty": literal("0.3"),
    "logprobs": True,
    "top_logprobs": 4,
    "logit_bias": {"50256": literal("-1.5")},
    "tools": [tool("first"), tool("second")],
    "tool_choice": {"type": "function", "function": {"name": "second"}},
    "parallel_tool_calls": False,
    "response_format": {"type": "json_object"},
    "user": "user-1",
}
"""Every member of the request body that needs no other feature, each with a value that says something."""


@clause("chat.request.all_fields_at_once")
@engines("sglang", "vllm", "tokenspeed")
async def test_all_fields_arrive_together(gateway: Gateway, worker: Worker) -> None:
    """A request that uses everything at once arrives with everything, whatever the engine."""
    delivery = await deliver(gateway, worker, **EVERYTHING)
    delivery.all_unchanged(EVERYTHING, digits=False)


@clause("chat.request.integers_stay_integers")
async def test_integers_stay_integers(gateway: Gateway, worker: Worker) -> None:
    """Integer fields arrive as digits alone: an engine refuses 3.0 where it wants 3."""
    fields: Fields = {"n": 3, "max_completion_tokens": 64, "top_logprobs": 4, "seed": 7}
    delivery = await deliver(gateway, worker, logprobs=True, **fields)
    delivery.all_unchanged(fields)


@clause("chat.request.seed_digits_kept")
@pytest.mark.parametrize("seed", ["9007199254740993", "-9223372036854775808"])
async def test_seed_keeps_its_digits(gateway: Gateway, worker: Worker, seed: str) -> None:
    """A seed beyond the integers that doubles can hold arrives with all its digits."""
    delivery = await deliver(gateway, worker, seed=literal(seed))
    delivery.unchanged("seed")


@clause("chat.logprobs.returned")
async def test_log_probabilities_come_back(gateway: Gateway, worker: Worker) -> None:
    """Log probabilities of the worker's answer reach the client with their digits."""
    content = [{"token": "Hi", "logprob": -0.30000000000000004, "bytes": [72, 105], "top_logprobs": []}]
    reply = answer({"role": "assistant", "content": "Hi"}, logprobs={"content": content})
    delivery = await deliver(gateway, worker, reply, logprobs=True, top_logprobs=0)
    assert delivery.exchange.json["choices"][0]["logprobs"]["content"] == content
