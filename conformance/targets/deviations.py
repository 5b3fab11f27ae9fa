"""Declared deviations of a gateway from the contract: `conformance/targets/deviations/<name>-<version>.yaml`.

A list of entries; each names clauses or checks (globs), why, how it fails, where it was seen, until when it counts:

```yaml
- clause: chat.messages.user.content_not_empty       # or  check: "*::test_name[[]case]"
  reason: An empty user message is accepted.
  fingerprint: "not refused | 200*"                  # one or a list, globs; what the report shows for the failure
  seen: 1.12.0
  expires: 2027-06-30
  evidence: POST /v1/chat/completions with content "" is answered 200 and forwarded.
```

A failure that no fingerprint of its entry matches is a regression (failed). An entry that excuses none of its checks'
failures, because they pass or because another entry excuses them, is stale and fails the run. After `expires` an entry
excuses nothing any more.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from conformance.harness.errors import UserError
from spec import clauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.targets.adapter import Target

FOLDER = Path(__file__).parent / "deviations"
REMEDY = "conformance/targets/deviations.py says what an entry looks like"


class Entry(BaseModel):
    """One declared deviation."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    clause: str | None = None
    check: str | None = None
    reason: str
    fingerprint: list[str]
    seen: str
    expires: dt.date
    evidence: str

    @field_validator("fingerprint", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_subject(self) -> Entry:
        if (self.clause is None) == (self.check is None):
            raise ValueError("give either clause or check")
        if not self.fingerprint:
            raise ValueError("fingerprint must not be empty: copy it from the report of the failure")
        return self

    @property
    def subject(self) -> str:
        """The clause or check it is about."""
        return self.clause or self.check or ""

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return dt.datetime.now(tz=dt.UTC).date() > self.expires

    def about(self, nodeid: str, ids: Sequence[str]) -> bool:
        """Whether the entry speaks of this check."""
        if self.check is not None:
            return fnmatch.fnmatchcase(nodeid, self.check)
        return any(fnmatch.fnmatchcase(each, self.clause or "") for each in ids)

    def excuses(self, fingerprint: str) -> bool:
        """Whether this is how it was declared to fail."""
        return any(fnmatch.fnmatchcase(fingerprint, each) or fingerprint == each for each in self.fingerprint)


@dataclass(frozen=True)
class Deviations:
    """The entries of one file."""

    file: Path | None
    entries: tuple[Entry, ...] = ()

    def about(self, nodeid: str, ids: Sequence[str]) -> list[Entry]:
        """Entries that speak of a check."""
        return [entry for entry in self.entries if entry.about(nodeid, ids)]


def file_for(target: Target) -> Path:
    """Where a target's deviations live."""
    return FOLDER / (f"{target.name}-{target.version}.yaml" if target.version else f"{target.name}.yaml")


def load(file: Path, *, must_exist: bool = False) -> Deviations:
    """Read a deviations file; UserError says file, line and remedy. A missing file declares nothing."""
    if not must_exist and not file.exists():
        return Deviations(None)
    try:
        text = file.read_text("utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        rows = yaml.safe_load(text) or []
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{file}: the deviations cannot be read ({problem}); give a readable UTF-8 file") from problem
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = mark.line + 1 if mark else "?"
        raise UserError(
            f"{file}, line {line}: not YAML ({getattr(problem, 'problem', problem)}); {REMEDY}"
        ) from problem
    if not isinstance(rows, list) or (root is not None and not isinstance(root, yaml.SequenceNode)):
        raise UserError(f"{file}, line 1: expected a list of entries, found {type(rows).__name__}; {REMEDY}")
    nodes: list[Any] = root.value if isinstance(root, yaml.SequenceNode) else []
    return Deviations(file, tuple(_entry(file, node, row) for node, row in zip(nodes, rows, strict=True)))


def _entry(file: Path, node: Any, row: object) -> Entry:
    line = node.start_mark.line + 1
    if not isinstance(row, dict):
        raise UserError(f"{file}, line {line}: an entry is a mapping, found {type(row).__name__}; {REMEDY}")
    try:
        entry = Entry(**row)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{file}, line {line}: {f'{where}: ' if where else ''}{said}; {REMEDY}") from None
    except TypeError as problem:
        raise UserError(f"{file}, line {line}: {problem}; {REMEDY}") from None
    if entry.clause is not None and not any(fnmatch.fnmatchcase(each, entry.clause) for each in clauses()):
        remedy = "`python -m conformance clauses` lists them"
        raise UserError(f"{file}, line {line}: no clause {entry.clause!r} in spec/clauses/; {remedy}")
    return entry
