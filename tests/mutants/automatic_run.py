"""Which field cases could notice an automatic mutant, and the subjects made of both."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from conformance.fieldcases import cases
from spec import openapi
from tests.mutants import automatic, models
from tests.mutants.judge import FIELDS
from tests.mutants.trial import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from conformance.fieldcases import Case
    from tests.mutants.automatic import Automatic
    from tests.mutants.judge import Check

MOST_CASES = 6
# What the server checks by hand because the models cannot say it; off where a mutant's document no longer says it. The
# rule about token ids is written for maps: it would refuse a string for its letters, before the worker could see it.
BY_HAND = {
    "top_k": ("reference_server.stages.validate:_beyond_the_model",),
    "logit_bias": (
        "reference_server.stages.parse:_beyond_the_model",
        "reference_server.stages.validate:_RULES[chat][6]",
    ),
}


def telling(mutant: Automatic) -> list[Case]:
    """The cases that a gateway which follows the broken document answers otherwise: the field's own, if there are.

    Worked out from the two documents alone.
    """
    gateway = mutant.validator()
    every = cases(mutant.prefix)
    for some in ([case for case in every if _own(mutant, case)], every):
        found = [case for case in some if gateway.is_valid(case.body) != (case.expect == "accepted")]
        if found:
            return found[:MOST_CASES]
    return []


def _telling_once(mutant: Automatic, folder: Path) -> list[Case]:
    """`telling`, remembered in `folder` for the same mutant, document and cases."""
    known = {case.name: case for case in cases(mutant.prefix)}
    digest = hashlib.sha256(repr((mutant, _fingerprint(mutant.prefix))).encode()).hexdigest()[:24]
    file = folder / f"t{digest}.json"
    if file.exists():
        return [known[name] for name in json.loads(file.read_text("utf-8"))]
    found = telling(mutant)
    temporary = file.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps([case.name for case in found]), encoding="utf-8")
    temporary.replace(file)
    return found


@cache
def _fingerprint(prefix: str) -> str:
    """Changes whenever the document or a case of a request body does."""
    whole = json.dumps(openapi(), sort_keys=True, default=str) + repr(cases(prefix))
    return hashlib.sha256(whole.encode()).hexdigest()


def _own(mutant: Automatic, case: Case) -> bool:
    """Whether a case is about the field that a mutant breaks."""
    return not mutant.field or f".{mutant.field}." in case.name


def subject(mutant: Automatic, file: Path, found: Sequence[Case], checks: Mapping[str, Check]) -> Subject:
    """What the hive is told of a mutant, and the checks of the cases that could tell."""
    what: dict[str, Any] = {
        "models": str(file),
        "schema": automatic.endpoint_schema(mutant.prefix, mutant.document()),
        "by_hand": [] if mutant.stricter else list(BY_HAND.get(mutant.field, ())),
        "strict": mutant.name if mutant.stricter else "",
    }
    return Subject(mutant.name, what, list(_checks(found, checks)), until_failed=True)


def _checks(found: Sequence[Case], checks: Mapping[str, Check]) -> Iterator[Check]:
    """The checks that run these cases."""
    for case in found:
        test = "test_a_field_is_accepted" if case.expect == "accepted" else "test_a_field_is_refused"
        yield next(
            check
            for check in checks.values()
            if check.written == f"{FIELDS}::{test}" and check.parameters.get("case") == case
        )


def prepare(mutant: Automatic, folder: Path) -> tuple[Path | None, list[Case], str]:
    """Models and telling cases of a mutant; no models and a reason where the generator refuses."""
    found = _telling_once(mutant, folder)
    if not found:
        return None, [], "no case answers otherwise by the broken document than by the true one"
    try:
        return models.generate(mutant, folder), found, ""
    except ValueError as problem:
        return None, found, str(problem)


def prepare_all(
    mutants: Sequence[Automatic], folder: Path, processes: int
) -> list[tuple[Path | None, list[Case], str]]:
    """`prepare` for many, in several processes, in the same order."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(prepare, mutants, [folder] * len(mutants), chunksize=8))
