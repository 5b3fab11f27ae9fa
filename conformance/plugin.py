"""The pytest plugin of the suite: options, planning, fixtures, verdicts, reports.

`conformance/conftest.py` loads it; so does `-p conformance.plugin`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conformance import options
from conformance.harness import bounds, pace, verdicts
from conformance.harness.broker import WORKER_INPUT, connect
from conformance.harness.errors import UserError
from conformance.harness.fixtures import _handles, engine, gateway, noise, noise_s, worker
from conformance.harness.run import RUN, Run
from conformance.reports import reporting
from conformance.targets import running

if TYPE_CHECKING:
    from collections.abc import Generator

CHECKS = Path(__file__).parent / "checks"
pytest.register_assert_rewrite("conformance.checks")

__all__ = ["_handles", "engine", "gateway", "noise", "noise_s", "worker"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options, register marks; in an xdist worker, connect to the controlling process."""
    config.addinivalue_line("markers", "clause(*ids): the clauses this check judges")
    config.addinivalue_line("markers", "configured(name): run in this configuration, whatever the clause rows say")
    try:
        chosen = options.read(config)
        pace.set_pace(chosen.pace)
        if not hasattr(config, "workerinput") and not chosen.unproven:
            running.preflight(chosen)
    except UserError as problem:
        raise pytest.UsageError(str(problem)) from None
    # A module that cannot be imported is a harness error of its own, no reason to judge nothing.
    config.option.continue_on_collection_errors = True
    workerinput = getattr(config, "workerinput", None)
    run = config.stash[RUN] = Run(chosen, broker=connect(workerinput[WORKER_INPUT]) if workerinput else None)
    # A clause's checks may live in several modules, so a run of one of them says nothing about what is stale.
    parts = any("::" in arg or CHECKS in Path(arg).absolute().parents for arg in config.args)
    run.whole_clauses = not (parts or config.option.keyword or config.option.markexpr)
    if workerinput is None:
        config.pluginmanager.register(reporting.Reporting(run), "conformance-reporting")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A list needs no xdist workers, which would keep the plan to themselves."""
    if config.option.conformance_list:
        config.option.numprocesses = 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # xdist's WorkerController; xdist ships no types
    """In the controlling process: tell an xdist worker where to ask for environments."""
    config: pytest.Config = node.config
    node.workerinput[WORKER_INPUT] = config.stash[RUN].serve(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect the modules of `conformance/checks/`, whose names carry no `test_`.

    A module named on the command line is collected by pytest itself.
    """
    if file_path.parent == CHECKS and file_path.suffix == ".py" and not parent.session.isinitpath(file_path):
        return pytest.Module.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select by clause, decide what does not apply, keep the rest."""
    config.stash[RUN].select(items)
    for item in items:
        bounds.bound(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Bring up every environment the plan needs, before the first check's clock starts."""
    run = session.config.stash[RUN]
    if run.options.listing:
        session.items[:] = []
    elif not session.config.option.collectonly:
        run.bring_up(session.config, {item.nodeid for item in session.items})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn outcomes into verdicts."""
    report = yield
    return verdicts.judge(item, call, report)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop everything that was started, whatever happened."""
    if run := config.stash.get(RUN, None):
        run.close()
