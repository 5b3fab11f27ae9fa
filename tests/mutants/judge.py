"""The checks of the suite as functions, and how one is run against one gateway, without pytest's machinery.

pytest collects them once; after that a check is a coroutine function with parameters, and many run side by side in one
event loop. Verdicts follow the suite's own rules (`conformance.harness.verdicts`).
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import ValidationError

from conformance.commands import CHECKS
from conformance.harness import passive
from conformance.harness.errors import HarnessError
from conformance.harness.gateway import Gateway
from conformance.harness.run import PLANNED, RUN
from conformance.harness.verdicts import WRONG_ANSWER
from conformance.harness.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.harness.environment import Environment
    from conformance.harness.noise import Noise
    from conformance.harness.worker import Proof
    from fake_workers.control import Control

Outcome = Literal["passed", "failed", "harness error"]
FIELDS = "conformance/checks/fields.py"


@dataclass(frozen=True)
class Check:
    """One check: where it is, what it judges, and how to call it."""

    nodeid: str
    clauses: tuple[str, ...]
    configuration: str
    engine: str
    function: Callable[..., Any]
    parameters: dict[str, Any]

    @property
    def generated(self) -> bool:
        """Whether it is a field check, made from the document."""
        return self.nodeid.startswith(FIELDS)

    @property
    def written(self) -> str:
        """The function it is a case of."""
        return self.nodeid.partition("[")[0]


@dataclass
class Verdict:
    """What became of a check: the outcome, its message, and the clauses about shapes that an answer broke."""

    outcome: Outcome
    message: str = ""
    shapes: list[str] = field(default_factory=list)


def collect(*options: str) -> dict[str, Check]:
    """Every check that applies to the reference server, by node id.

    Args:
        options: of the run; another target decides what applies.

    Raises:
        HarnessError: a module of checks cannot be imported.
    """
    found: dict[str, Check] = {}
    problems: list[str] = []

    class Collector:
        """Remembers items."""

        def pytest_collection_finish(self, session: pytest.Session) -> None:
            """Keep what a check needs."""
            assert RUN in session.config.stash
            for item in session.items:
                planned = item.stash.get(PLANNED, None)
                if planned is not None and isinstance(item, pytest.Function) and not planned.problem:
                    spec = getattr(item, "callspec", None)
                    given = dict(spec.params) if spec else {}
                    found[item.nodeid] = Check(
                        item.nodeid, tuple(planned.clauses), planned.configuration, planned.engine, item.obj, given
                    )

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            """Remember broken modules."""
            if report.failed:
                problems.append(str(report.nodeid))

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ("conformance.plugin", "pytest_asyncio.plugin", "pytest_timeout", "no:cacheprovider")
    words = ["--collect-only", "-q", "--assert=plain", *(word for each in plugins for word in ("-p", each))]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*words, *options, str(CHECKS.parent)], plugins=[Collector()])
    if problems:
        raise HarnessError(f"modules of checks that cannot be collected: {', '.join(problems)}")
    return found


async def judge(
    check: Check, environment: Environment, control: Control, proofs: dict[str, Proof], noise: Noise
) -> Verdict:
    """Run a check against a gateway."""
    at = next(worker for worker in environment.workers if worker.engine == check.engine)
    worker = Worker(at, control)
    gateway = Gateway(environment, worker, proofs)
    offered = {
        "gateway": gateway,
        "worker": worker,
        "engine": check.engine,
        "noise": noise,
        "noise_s": noise.margin_s,
        **check.parameters,
    }
    wanted = inspect.signature(inspect.unwrap(check.function)).parameters
    verdict = Verdict("passed")
    try:
        try:
            await check.function(**{name: offered[name] for name in wanted})
        finally:
            await worker.settle()
    except ValidationError as problem:
        verdict = Verdict("harness error", f"ValidationError: {problem}"[:300])
    except WRONG_ANSWER as problem:
        verdict = Verdict("failed", f"{type(problem).__name__}: {problem}"[:300])
    except (HarnessError, OSError, RuntimeError, TimeoutError) as problem:
        verdict = Verdict("harness error", f"{type(problem).__name__}: {problem}"[:300])
    verdict.shapes = [clause for clause, problem in passive.look(gateway.exchanges, worker.scripts) if problem]
    return verdict
