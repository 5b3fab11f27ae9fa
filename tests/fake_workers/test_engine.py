"""The engine without I/O: tokens, text, schemas, latency in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from jsonschema import Draft202012Validator

from fake_workers.engine import model, tokens
from fake_workers.engine.latency import PROFILES, EngineCore, PrefixCache, Profile
from fake_workers.engine.outcome import Call
from fake_workers.engine.schema import minimal_instance

PLAIN = Profile(first_token_s=0.02, prefill_tokens_per_s=1000, step_s=0.01, step_per_running_s=0.001)


def chat(**changes: object) -> Call:
    """A chat call with changes."""
    call = Call(kind="chat", body={}, model="m", prompts=["hello"], prompt_tokens=[2])
    for name, value in changes.items():
        setattr(call, name, value)
    return call


@given(st.text())
def test_tokens_are_exact(text: str) -> None:
    """Decoding the tokens of a text gives the text, and counting agrees with encoding."""
    safe = text.replace("\x00", "0")  # a leading NUL is the one byte a number cannot keep
    ids = tokens.encode(safe)
    assert tokens.decode(ids) == safe
    assert tokens.count(safe) == len(ids)
    assert "".join(tokens.split(safe)) == safe


def test_text_depends_on_prompt_and_seed_only() -> None:
    """The same prompt and seed give the same text, another seed another text; each sample differs."""
    one, again, other = model.generate(chat(), 1), model.generate(chat(), 1), model.generate(chat(), 2)
    assert one.choices[0].text == again.choices[0].text != other.choices[0].text
    first, second = model.generate(chat(n=2), 1).choices
    assert first.text != second.text
    assert model.generate(chat(seed=5), 1).choices[0].text != one.choices[0].text


@given(st.integers(1, 60), st.booleans())
def test_max_tokens(limit: int, ignore_eos: bool) -> None:
    """No more than max_tokens are generated; with ignore_eos exactly so many; finish says which limit it was."""
    (choice,) = model.generate(chat(max_tokens=limit, ignore_eos=ignore_eos), 0).choices
    assert choice.tokens <= limit
    assert tokens.count(choice.text) == choice.tokens
    if ignore_eos:
        assert (choice.tokens, choice.finish_reason) == (limit, "length")
    assert choice.finish_reason == "length" or choice.tokens < limit + 1


def test_min_tokens() -> None:
    """At least min_tokens are generated."""
    assert model.generate(chat(min_tokens=200), 0).choices[0].tokens >= 200


def test_stop_strings() -> None:
    """Text ends before the first stop string, or after it when it is to be kept."""
    full = model.generate(chat(), 0).choices[0].text
    stop = full[7:10]
    (choice,) = model.generate(chat(stop=[stop, "never"]), 0).choices
    assert choice.text == full[: full.index(stop)]
    assert (choice.finish_reason, choice.matched) == ("stop", stop)
    (kept,) = model.generate(chat(stop=[stop], keep_stop=True), 0).choices
    assert kept.text == full[: full.index(stop) + 3]


def test_tools_by_choice() -> None:
    """Choice auto calls the first tool unless a tool has just answered; a named one is called; none calls nothing."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]

    def called(**changes: object) -> list[str]:
        (choice,) = model.generate(chat(tools=tools, **changes), 0).choices
        return [call.name for call in choice.tool_calls]

    assert called(tool_mode="auto") == ["a"]
    assert called(tool_mode="auto", body={"messages": [{"role": "tool", "content": "x"}]}) == []
    assert called(tool_mode="required") == ["a"]
    assert called(tool_mode="named", tool_name="b") == ["b"]
    assert called(tool_mode="none") == []


SCHEMAS: list[dict[str, Any] | bool] = [
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 3}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5}}, "required": ["a"]},
    {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 2},
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
    {"type": ["string", "null"]},
    {"$defs": {"P": {"type": "object", "required": ["x"], "properties": {"x": {"const": 3}}}}, "$ref": "#/$defs/P"},
    {
        "allOf": [
            {"type": "object", "required": ["a"]},
            {"properties": {"a": {"type": "number", "exclusiveMinimum": 2}}},
        ]
    },
    {"type": "number", "maximum": -4},
    {"type": "integer", "exclusiveMaximum": 0},
    {"type": "boolean"},
    {},
    True,
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_instances_are_valid(schema: dict[str, Any] | bool) -> None:
    """A minimal instance satisfies its schema, and a constrained answer is that instance as JSON."""
    Draft202012Validator(schema).validate(minimal_instance(schema))
    (choice,) = model.generate(chat(schema=schema), 0).choices
    Draft202012Validator(schema).validate(json.loads(choice.text))


def test_an_endless_schema_ends() -> None:
    """A schema that refers to itself gives an instance all the same."""
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert isinstance(minimal_instance(schema), dict)


def test_embeddings_are_unit_vectors() -> None:
    """An embedding has the asked length, norm one, and depends on the text."""
    vector = model.embedding_of("a", 16, 0)
    assert len(vector) == 16
    assert abs(sum(value * value for value in vector) - 1) < 1e-5
    assert vector != model.embedding_of("b", 16, 0)


def test_first_token_waits_for_prefill() -> None:
    """The first token comes after the uncached prompt was prefilled; prompts are prefilled one after the other."""
    core = EngineCore(PLAIN)
    assert core.submit(1, 10.0, 100) == "running"
    assert core.submit(2, 10.0, 100, cached_tokens=50) == "running"
    assert core.first_token_at(1) == pytest.approx(10.0 + 0.1 + 0.02)
    assert core.first_token_at(2) == pytest.approx(10.0 + 0.1 + 0.05 + 0.02)


def test_steps_grow_with_the_batch() -> None:
    """A further token takes a step that grows with the number of running requests."""
    core = EngineCore(PLAIN)
    core.submit(1, 0.0, 0)
    assert core.next_token_at(1, 1.0) == pytest.approx(1.011)
    core.submit(2, 0.0, 0)
    assert core.next_token_at(1, 1.0, tokens=3) == pytest.approx(1.0 + 3 * 0.012)
    assert core.used_tokens == 4


def test_slots_and_queue() -> None:
    """Beyond its slots an engine queues, beyond its queue it refuses; who waits starts in order, and can leave."""
    core = EngineCore(PLAIN, slots=1, max_queued=2)
    assert [core.submit(key, 0.0, 0) for key in (1, 2, 3, 4)] == ["running", "waiting", "waiting", "refused"]
    assert core.leave(2, 1.0) == []
    assert core.leave(1, 5.0) == [3]
    assert core.first_token_at(3) == pytest.approx(5.02)
    assert core.leave(99, 6.0) == []


def test_profiles_are_ordered() -> None:
    """Profile none is instant, 70b is slower than 8b, and jitter is the same for the same seed."""
    assert PROFILES["none"].instant
    assert PROFILES["70b"].step_s > PROFILES["8b"].step_s
    times = []
    for _ in range(2):
        core = EngineCore(PROFILES["8b"], seed=3)
        core.submit(1, 0.0, 1000)
        times.append((core.first_token_at(1), core.next_token_at(1, 0.0)))
    assert times[0] == times[1]


def test_prefix_cache() -> None:
    """Whole blocks from the start of a prompt are cached, never the whole prompt, and old ones leave."""
    cache = PrefixCache(64)
    prompt = "x" * 48 + "y" * 48
    assert cache.use(prompt) == 0
    assert cache.use(prompt) == 31
    assert cache.use("x" * 48 + "z" * 48) == 16
    assert cache.use("z" * 48 + "x" * 48) == 0
    for number in range(8):
        cache.use(f"{number:048d}")
    assert cache.use(prompt) == 0
    assert PrefixCache(0).use(prompt) == 0
    assert cache.hits == 47


class EngineMachine(RuleBasedStateMachine):
    """Requests come, run and go in any order."""

    def __init__(self) -> None:
        """Start an engine with two slots and three places to wait."""
        super().__init__()
        self.core = EngineCore(PLAIN, slots=2, max_queued=3)
        self.now = 0.0
        self.running: set[int] = set()
        self.queue: list[int] = []
        self.keys = 0

    @rule(prompt=st.integers(0, 500), wait=st.floats(0, 1))
    def submit(self, prompt: int, wait: float) -> None:
        """A request is started, queued or refused as slots and queue have room."""
        self.now += wait
        self.keys += 1
        state = self.core.submit(self.keys, self.now, prompt)
        if len(self.running) < 2:
            assert state == "running"
            self.running.add(self.keys)
        elif len(self.queue) < 3:
            assert state == "waiting"
            self.queue.append(self.keys)
        else:
            assert state == "refused"

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """Who leaves makes room for the one that waits longest."""
        key = data.draw(st.sampled_from(sorted(self.running)))
        started = self.core.leave(key, self.now)
        self.running.discard(key)
        expected = [self.queue.pop(0)] if self.queue else []
        assert started == expected
        self.running.update(started)

    @precondition(lambda self: self.queue)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """Who gives up waiting starts nobody."""
        key = data.draw(st.sampled_from(self.queue))
        assert self.core.leave(key, self.now) == []
        self.queue.remove(key)

    @invariant()
    def counts_agree(self) -> None:
        """Slots and queue are what the requests say; no first token lies before now minus its wait."""
        assert (self.core.running, self.core.waiting) == (len(self.running), len(self.queue))
        for key in self.running:
            assert self.core.first_token_at(key) >= 0.02


EngineMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestEngineMachine = EngineMachine.TestCase
