"""A negative statement cannot be written without the observation that it rests on."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness.errors import CheckError
from conformance.harness.worker import Proof, Scripted, Worker
from fake_workers.control import Control
from fake_workers.fleet import Fleet
from fake_workers.journal import Entry
from fake_workers.spec import WorkerSpec
from tests.vacuity.runs import worker_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

CHECKS = Path(__file__).parents[2] / "conformance" / "checks"
ENTRY = Entry(1, "w", "igc-0000000000000001", "POST", "/", b"", b"", 0.0, 0.0)
# What tells that a gateway was seen to serve, or that the statement is a positive one as well.
OBSERVING = {
    "proof", "refuses", "only", "received", "never_seen", "completed", "peer_left", "served", "of", "event", "chunk",
}  # fmt: skip


@pytest.fixture
async def script() -> AsyncIterator[Scripted]:
    """A script of a worker that nobody routes to."""
    async with Fleet([WorkerSpec(name="vllm", engine="vllm", model="m")]) as fleet:
        control = Control(fleet.control_url)
        yield Worker(worker_at(fleet), control).script()
        await control.aclose()


@pytest.mark.parametrize("because", [None, True, "I know it", ENTRY, object()])
async def test_never_seen_wants_a_proof(script: Scripted, because: Any) -> None:
    """Anything but a Proof is an error of the check, not a verdict about a gateway."""
    with pytest.raises(CheckError, match="needs a Proof"):
        await script.never_seen(because=because)


@pytest.mark.parametrize("arguments", [("it is so", ENTRY), ("it is so", ENTRY, object()), ("it is so", None)])
def test_a_proof_cannot_be_written_down(arguments: Any) -> None:
    """Not even with an entry at hand does a check make a proof of its own."""
    with pytest.raises(CheckError, match="only observed"):
        Proof(*arguments)


def test_a_proof_is_of_a_marked_request() -> None:
    """A probe of the gateway itself, which carries no marker, proves nothing."""
    from conformance.harness.worker import observed  # noqa: PLC0415 - the one place outside the harness that may

    unmarked = Entry(1, "w", None, "GET", "/health", b"", b"", 0.0, 0.0)
    with pytest.raises(CheckError):
        observed("GET /health", unmarked)
    assert observed("POST /", ENTRY).seen is ENTRY


def functions() -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    """Every check, by module and name."""
    for path in sorted(CHECKS.glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}", node


def _calls(node: ast.AST) -> set[str]:
    """Names of everything that is called inside."""
    called = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called}


def _says_nothing_was_seen(node: ast.AST) -> bool:
    """Whether an assertion inside says that the workers have no entry."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Assert):
            continue
        test = each.test
        empty = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            right = test.comparators[0]
            empty = (isinstance(right, ast.List) and not right.elts) or (
                isinstance(right, ast.Constant) and right.value == 0
            )
        if empty and {"look", "entries", "all_entries"} & (_calls(test) | _attributes(test)):
            return True
    return False


def _attributes(node: ast.AST) -> set[str]:
    return {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def test_no_check_says_unseen_without_an_observation() -> None:
    """A check that asserts an empty journal has seen, in the same check, that this gateway reaches its workers."""
    negative = [(name, node) for name, node in functions() if _says_nothing_was_seen(node)]
    assert [name for name, node in negative if not OBSERVING & _calls(node)] == []


def test_the_scan_finds_what_it_looks_for() -> None:
    """The scan sees an assertion of an empty journal, and is not content with a check that observes nothing."""
    bad = ast.parse("async def test_x(gateway, worker):\n    assert await worker.script().look() == []").body[0]
    good = ast.parse(
        "async def test_x(gateway, worker):\n    await gateway.proof(worker, CHAT, {})\n    assert not script.entries"
    ).body[0]
    assert _says_nothing_was_seen(bad)
    assert _says_nothing_was_seen(good)
    assert not OBSERVING & _calls(bad)
    assert OBSERVING & _calls(good)


def test_no_check_makes_proofs() -> None:
    """Checks neither name the class nor the function that makes one."""
    found = [
        path.name
        for path in sorted(CHECKS.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Proof", "observed"}
    ]
    assert found == []
