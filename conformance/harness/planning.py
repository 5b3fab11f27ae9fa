"""What a run plans.

Every selected check, its clauses, the configuration it needs, and whether it applies to the target at all.
"""

from __future__ import annotations

import fnmatch
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from conformance.harness.configurations import configurations
from conformance.harness.marks import DEFAULT_ENGINE
from spec import clauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from conformance.targets.adapter import Target
    from spec import Clause


@dataclass(frozen=True)
class Planned:
    """One check of the plan. `not_applicable` and `problem` say why it is not run, or cannot be."""

    nodeid: str
    clauses: list[str]
    section: str
    configuration: str
    engine: str
    not_applicable: str = ""
    problem: str = ""

    def to_plain(self) -> dict[str, Any]:
        """JSON-ready values."""
        return asdict(self)


def clause_ids(item: pytest.Item) -> list[str]:
    """Ids of the item's clause marks, those of the case itself first, each once."""
    return list(dict.fromkeys(str(each) for mark in item.iter_markers("clause") for each in mark.args))


def selected(item: pytest.Item, globs: Sequence[str]) -> bool:
    """Whether the check judges a clause that matches one of the globs (no glob selects everything)."""
    return not globs or any(fnmatch.fnmatch(each, glob) for each in clause_ids(item) for glob in globs)


def plan(item: pytest.Item, target: Target, available: Sequence[str] | None, *, keyed: bool = False) -> Planned:
    """Plan one check.

    Args:
        item: the collected test.
        target: whose claims decide what applies.
        available: configurations of a gateway that is already running; None when the suite launches it.
        keyed: whether that gateway asks for a key.
    """
    ids = clause_ids(item)
    rows = [clauses()[each] for each in ids if each in clauses()]
    chosen = item.get_closest_marker("configured")
    wanted = {str(chosen.args[0])} if chosen else {row.configuration for row in rows} or {"default"}
    callspec = getattr(item, "callspec", None)
    engine = str(callspec.params.get("engine", DEFAULT_ENGINE)) if callspec is not None else DEFAULT_ENGINE
    name = min(wanted)
    return Planned(
        nodeid=item.nodeid,
        clauses=ids,
        section=rows[0].section if rows else "(no clause)",
        configuration=name,
        engine=engine,
        not_applicable=_not_applicable(rows, name, target, available) or _locked(rows, keyed=keyed),
        problem=_problem(ids, wanted),
    )


def _problem(ids: list[str], wanted: set[str]) -> str:
    if not ids:
        return "the check names no clause: add @clause(...)"
    if unknown := [each for each in ids if each not in clauses()]:
        return f"no row in spec/clauses/ for {', '.join(unknown)}"
    if len(wanted) > 1:
        names = ", ".join(sorted(wanted))
        return f"its clauses need different configurations ({names}): split the check, or add @configured(...)"
    if unknown := [each for each in wanted if each not in configurations()]:
        return f"no configuration {unknown[0]!r} in conformance/configurations.yaml"
    return ""


def _locked(rows: Sequence[Clause], *, keyed: bool) -> str:
    if keyed and (row := next((row for row in rows if row.keyless), None)):
        return f"{row.id} speaks of a gateway that asks for no key, and --api-key was given"
    return ""


def _not_applicable(rows: Sequence[Clause], configuration: str, target: Target, available: Sequence[str] | None) -> str:
    for row in rows:
        if row.feature not in target.claims.features:
            return f"{target.label} does not claim the feature {row.feature}"
        if not row.applies(target.claims.revision):  # type: ignore[arg-type]  # adapters are validated when they are loaded
            return f"{row.id} is no part of contract revision {target.claims.revision}, which {target.label} follows"
        if not set(row.workers) & set(target.claims.transports):
            return f"{row.id} speaks of {', '.join(row.workers)} workers only"
    if available is not None and configuration not in available:
        return f"no gateway in configuration {configuration!r} was given (--target {configuration}=URL)"
    if configuration in configurations() and (missing := target.lacks(configurations()[configuration].settings)):
        return f"{target.label} cannot be configured for {configuration!r}: no setting for {', '.join(missing)}"
    return ""
