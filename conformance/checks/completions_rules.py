"""Completions: rules between fields. Each is shown from both sides: refused when broken, accepted just inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import COMPLETIONS, clause

if TYPE_CHECKING:
    from conformance.harness import Gateway, Worker


async def accepted(gateway: Gateway, worker: Worker, **fields: Any) -> dict[str, Any]:
    """Prove that a completion with these members is served, and return the body the worker received."""
    script = worker.script()
    answer = await gateway.completion(script, **fields)
    body: dict[str, Any] = (await script.only()).json
    assert answer.succeeded, answer.brief()
    return body


@clause("completions.best_of.equal_to_n")
@pytest.mark.parametrize("n", [1, 2, 20])
async def test_best_of_equal_to_n(gateway: Gateway, worker: Worker, n: int) -> None:
    """As many candidates as completions are refused, while one completion fewer is served."""
    valid = {"n": 1, "best_of": 2} if n == 1 else {"n": n - 1, "best_of": n}
    await gateway.refuses(worker, COMPLETIONS, valid, {"n": n, "best_of": n})


@clause("completions.best_of.below_n")
@pytest.mark.parametrize(("n", "best_of"), [(3, 2), (2, 1), (1, 0), (128, 20)])
async def test_best_of_below_n(gateway: Gateway, worker: Worker, n: int, best_of: int) -> None:
    """Fewer candidates than completions are refused."""
    await gateway.refuses(worker, COMPLETIONS, {"n": 2, "best_of": 3}, {"n": n, "best_of": best_of})


@clause("completions.best_of.above_n")
@pytest.mark.parametrize(("n", "best_of"), [(1, 2), (2, 3), (19, 20)])
async def test_best_of_above_n(gateway: Gateway, worker: Worker, n: int, best_of: int) -> None:
    """One candidate more than completions is accepted, and both numbers reach the worker."""
    body = await accepted(gateway, worker, n=n, best_of=best_of)
    assert (body["n"], body["best_of"]) == (n, best_of)


@clause("completions.best_of.without_n")
@pytest.mark.parametrize("best_of", [0, 1, 2, 20])
async def test_best_of_without_n(gateway: Gateway, worker: Worker, best_of: int) -> None:
    """Without n, every best_of of its range is accepted."""
    assert (await accepted(gateway, worker, best_of=best_of))["best_of"] == best_of


@clause("completions.best_of.with_stream")
async def test_best_of_with_stream(gateway: Gateway, worker: Worker) -> None:
    """best_of is refused in a streaming request that is served without it."""
    await gateway.refuses(worker, COMPLETIONS, {"stream": True}, {"stream": True, "best_of": 2})


@clause("completions.best_of.with_stream_false")
async def test_best_of_with_stream_false(gateway: Gateway, worker: Worker) -> None:
    """best_of is served when stream is false."""
    assert (await accepted(gateway, worker, stream=False, best_of=2))["best_of"] == 2


@clause("completions.stream_options.without_stream")
async def test_stream_options_without_stream(gateway: Gateway, worker: Worker) -> None:
    """stream_options is refused in a request that does not say stream."""
    options = {"stream_options": {"include_usage": True}}
    await gateway.refuses(worker, COMPLETIONS, {"stream": True, **options}, options)


@clause("completions.stream_options.with_stream_false")
async def test_stream_options_with_stream_false(gateway: Gateway, worker: Worker) -> None:
    """stream_options is refused in a request that says stream false."""
    options = {"stream_options": {"include_usage": True}}
    await gateway.refuses(worker, COMPLETIONS, {"stream": True, **options}, {"stream": False, **options})


@clause("completions.stream_options.empty_without_stream")
async def test_empty_stream_options_without_stream(gateway: Gateway, worker: Worker) -> None:
    """An empty stream_options is refused without stream."""
    await gateway.refuses(worker, COMPLETIONS, {"stream": True, "stream_options": {}}, {"stream_options": {}})


@clause("completions.stream_options.with_stream")
async def test_stream_options_with_stream(gateway: Gateway, worker: Worker) -> None:
    """stream_options is accepted with stream true and reaches the worker."""
    body = await accepted(gateway, worker, stream=True, stream_options={"include_usage": True})
    assert body["stream_options"] == {"include_usage": True}


@clause("completions.stream_options.unknown_keys")
async def test_unknown_stream_options(gateway: Gateway, worker: Worker) -> None:
    """Stream options that the gateway does not model reach the worker with their values."""
    options = {"include_usage": True, "something_of_tomorrow": {"a": [1, None]}}
    assert (await accepted(gateway, worker, stream=True, stream_options=options))["stream_options"] == options


@clause("completions.extensions.min_tokens_above_max")
async def test_min_tokens_above_max_tokens(gateway: Gateway, worker: Worker) -> None:
    """A minimum of 5 is refused with a maximum of 4, while 4 and 4 are served."""
    await gateway.refuses(worker, COMPLETIONS, {"min_tokens": 4, "max_tokens": 4}, {"min_tokens": 5, "max_tokens": 4})


@clause("completions.extensions.min_tokens_equal_max")
async def test_min_tokens_equal_to_max_tokens(gateway: Gateway, worker: Worker) -> None:
    """A minimum equal to the maximum is accepted, and both reach the worker."""
    body = await accepted(gateway, worker, min_tokens=4, max_tokens=4)
    assert (body["min_tokens"], body["max_tokens"]) == (4, 4)


@clause("completions.extensions.min_tokens_alone")
async def test_min_tokens_alone(gateway: Gateway, worker: Worker) -> None:
    """A minimum without a maximum is accepted, however large."""
    assert (await accepted(gateway, worker, min_tokens=100_000))["min_tokens"] == 100_000


@clause("completions.chat_only.max_completion_tokens")
async def test_max_completion_tokens_is_no_bound_here(gateway: Gateway, worker: Worker) -> None:
    """A minimum above max_completion_tokens is no contradiction on this route."""
    body = await accepted(gateway, worker, min_tokens=5, max_completion_tokens=4)
    assert (body["min_tokens"], body["max_completion_tokens"]) == (5, 4)


CONSTRAINTS = {"regex": "[a-z]+", "ebnf": 'root ::= "a"', "json_schema": '{"type": "object"}'}


@pytest.mark.asyncio
@pytest.mark.parametrize("order", [1, -1], ids=["first-first", "second-first"])
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(("regex", "ebnf"), marks=pytest.mark.clause("completions.extensions.regex_with_ebnf")),
        pytest.param(
            ("regex", "json_schema"), marks=pytest.mark.clause("completions.extensions.regex_with_json_schema")
        ),
        pytest.param(("ebnf", "json_schema"), marks=pytest.mark.clause("completions.extensions.ebnf_with_json_schema")),
    ],
    ids="+".join,
)
async def test_two_constraints(gateway: Gateway, worker: Worker, pair: tuple[str, str], order: int) -> None:
    """Two constraints at once are refused in either order, while the first of them alone is served."""
    both = {name: CONSTRAINTS[name] for name in pair[::order]}
    await gateway.refuses(worker, COMPLETIONS, {pair[0]: CONSTRAINTS[pair[0]]}, both)


@clause("completions.extensions.one_constraint")
@pytest.mark.parametrize("name", CONSTRAINTS)
async def test_one_constraint(gateway: Gateway, worker: Worker, name: str) -> None:
    """One constraint alone is accepted and reaches the worker."""
    body = await accepted(gateway, worker, **{name: CONSTRAINTS[name]})
    assert body[name] == CONSTRAINTS[name]


@clause("completions.extensions.json_schema_text")
async def test_json_schema_is_text(gateway: Gateway, worker: Worker) -> None:
    """The text of a json_schema reaches the worker letter for letter: it is not parsed and printed anew."""
    text = '{ "type":"object",\n "properties": {"é": {"minimum": 1.0}} }'
    assert (await accepted(gateway, worker, json_schema=text))["json_schema"] == text


@clause("completions.extensions.json_schema_object")
async def test_json_schema_as_object(gateway: Gateway, worker: Worker) -> None:
    """A json_schema that is an object instead of its text is refused."""
    await gateway.refuses(
        worker, COMPLETIONS, {"json_schema": '{"type": "object"}'}, {"json_schema": {"type": "object"}}
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "values"),
    [
        pytest.param(name, values, marks=pytest.mark.clause(f"completions.chat_only.{name}"), id=name)
        for name, values in {
            "continue_final_message": [True, "yes"],
            "separate_reasoning": [False, "no"],
            "stream_reasoning": [False, 0],
            "chat_template_kwargs": [{"x": 1}, ["not", "an", "object"]],
        }.items()
    ],
)
async def test_field_of_chat_alone(gateway: Gateway, worker: Worker, name: str, values: list[Any]) -> None:
    """A value that chat would take and one it would refuse both reach the worker: here the field is unmodelled."""
    for value in values:
        assert (await accepted(gateway, worker, **{name: value}))[name] == value
