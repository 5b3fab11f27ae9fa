"""Mutants before their checks: opens each, runs its checks side by side with those of others, and collects verdicts."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.harness import noise
from conformance.harness.configurations import configuration
from conformance.harness.errors import HarnessError
from tests.mutants.gateways import Gateways
from tests.mutants.judge import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.harness.worker import Proof
    from tests.mutants.judge import Check

CHECKS_AT_ONCE = 20
SUBJECTS_AT_ONCE = 6
CHECK_BOUND_S = 40.0


@dataclass
class Subject:
    """A gateway to be tried: what the hive is told, the checks, and what became of each.

    With `until_failed` the checks are run one after the other and no more once one has failed; with `alone` one after
    the other as well.
    """

    name: str
    what: dict[str, Any]
    checks: Sequence[Check]
    until_failed: bool = False
    alone: bool = False
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    problem: str = ""

    @property
    def failed(self) -> list[Check]:
        """The checks that noticed."""
        return [check for check in self.checks if self._outcome(check) == "failed"]

    @property
    def unjudged(self) -> dict[str, str]:
        """The checks that could not judge, and why."""
        return {
            nodeid: verdict.message for nodeid, verdict in self.verdicts.items() if verdict.outcome == "harness error"
        }

    def _outcome(self, check: Check) -> str:
        verdict = self.verdicts.get(check.nodeid)
        return verdict.outcome if verdict else ""

    def killed_clauses(self) -> set[str]:
        """The clauses that a check found broken, those about shapes included."""
        shapes = {clause for verdict in self.verdicts.values() for clause in verdict.shapes}
        return shapes | {clause for check in self.failed for clause in check.clauses}


class Trial:
    """Runs subjects. `jobs` bounds how many checks are under way at once."""

    def __init__(self, gateways: Gateways, *, checks_at_once: int = CHECKS_AT_ONCE, loud: bool = False) -> None:
        self._gateways = gateways
        self._room = asyncio.Semaphore(checks_at_once)
        self._noise = noise.measure()
        self._loud = loud
        self._done = 0
        self._began = time.monotonic()

    async def run(self, subjects: Sequence[Subject], *, at_once: int = SUBJECTS_AT_ONCE) -> None:
        """Try all of them, `at_once` at a time; what became of it is in the subjects."""
        places = asyncio.Semaphore(at_once)

        async def one(subject: Subject) -> None:
            """One of them, when there is a place."""
            async with places:
                await self._try(subject)
                self._done += 1
                if self._loud and self._done % 10 == 0:
                    took = time.monotonic() - self._began
                    sys.stderr.write(f"  {self._done} of {len(subjects)} mutants, {took:.0f} s\n")

        await asyncio.gather(*(one(subject) for subject in subjects))

    async def _try(self, subject: Subject) -> None:
        """Each configuration in turn; where one check at a time has the gateway, each gets a fresh one."""
        for name in dict.fromkeys(check.configuration for check in subject.checks):
            checks = [check for check in subject.checks if check.configuration == name]
            groups = [[check] for check in checks] if configuration(name).exclusive else [checks]
            for group in groups:
                if subject.until_failed and subject.failed:
                    return
                try:
                    await self._in(name, subject, group)
                except HarnessError as problem:
                    subject.problem = str(problem)[:600]

    async def _in(self, name: str, subject: Subject, checks: Iterable[Check]) -> None:
        """The checks of one configuration."""
        proofs: dict[str, Proof] = {}
        async with self._gateways.open(name, subject.what) as (environment, control):

            async def one(check: Check) -> None:
                async with self._room:
                    try:
                        async with asyncio.timeout(CHECK_BOUND_S):
                            verdict = await judge(check, environment, control, proofs, self._noise)
                    except TimeoutError:
                        verdict = Verdict("harness error", f"took over {CHECK_BOUND_S:g} s")
                    subject.verdicts[check.nodeid] = verdict

            if not subject.until_failed and not subject.alone:
                await asyncio.gather(*(one(check) for check in checks))
                return
            for check in checks:
                await one(check)
                if subject.until_failed and subject.verdicts[check.nodeid].outcome == "failed":
                    return


async def run(subjects: Sequence[Subject], *, loud: bool = False, at_once: int = SUBJECTS_AT_ONCE) -> None:
    """Try subjects with a hive of their own."""
    async with Gateways() as gateways:
        await Trial(gateways, loud=loud).run(subjects, at_once=at_once)


async def confirm(subjects: Sequence[Subject], *, loud: bool = False) -> set[str]:
    """Run every check that failed somewhere once more without any mutant; returns those that fail there as well."""
    failed = {check.nodeid: check for subject in subjects for check in subject.failed}
    control = Subject("no vice", {}, list(failed.values()))
    async with Gateways() as gateways:
        await Trial(gateways, checks_at_once=8, loud=loud).run([control])
        suspects = Subject("no vice", {}, control.failed)
        await Trial(gateways, checks_at_once=1).run([suspects])
    return {check.nodeid for check in suspects.failed}
