"""The reader of clause rows: what it gives, and how it says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import spec
from spec import SpecError
from spec.features import features
from spec.rows import Clause, clauses

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """
- id: chat.example
  text: Something holds.
  section: Chat Completions
  level: must
  feature: core
  since: earlier
"""


def _directory(tmp_path: Path, **files: str) -> Path:
    """A directory with row files of these texts."""
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_committed_rows_are_good() -> None:
    """All rows fit their schema, ids are unique, and there are as many as the contract has sentences."""
    assert len(spec.clauses()) >= 450


def test_a_row_gets_its_defaults(tmp_path: Path) -> None:
    """What a row leaves out means both transports, the default configuration, and no reason against a check."""
    clause = clauses(_directory(tmp_path, a=GOOD))["chat.example"]
    assert (clause.workers, clause.configuration, clause.checkable) == (("http", "grpc"), "default", True)
    assert clause.source == "a.yaml"


@pytest.mark.parametrize(
    ("revision", "since", "until", "applies"),
    [
        ("earlier", "earlier", None, True),
        ("earlier", "1.12", None, False),
        ("1.13", "1.12", None, True),
        ("1.12", "earlier", "1.12", False),
        ("earlier", "earlier", "1.12", True),
    ],
)
def test_a_row_belongs_to_revisions(revision: str, since: str, until: str | None, applies: bool) -> None:
    """`since` is included, `until` is not."""
    clause = Clause(
        id="a.b", text="T.", section="S", level="must", feature="core", source="x",
        since=since, until=until,  # type: ignore[arg-type]  # parametrised as plain text
    )  # fmt: skip
    assert clause.applies(revision) is applies  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (GOOD.replace("must", "shall"), r"row 'chat.example'.*level.*shall"),
        (GOOD.replace("chat.example", "Chat Example"), r"id.*Chat Example.*Stable name"),
        (GOOD.replace("core", "flying"), r"row 'chat.example': unknown feature 'flying'.*Use one of core"),
        (GOOD + GOOD, r"row 'chat.example': the id is already used in a.yaml.*id of its own"),
        (GOOD.replace("  level: must\n", ""), r"row 'chat.example'.*'level' is a required property"),
        (GOOD + "  extra: 1\n", r"row 'chat.example'.*'extra' was unexpected"),
        (GOOD + "  level: must\n", r"a.yaml, line \d+: is not valid YAML.*'level' twice"),
        ("- id: [", r"a.yaml, line \d+: is not valid YAML"),
        (GOOD + "  untestable: nobody could see it\n  awaits: gRPC\n", r"row 'chat.example'"),
        ("{}", r"a.yaml: .*not of type 'array'"),
    ],
)
def test_a_bad_row_is_told_with_file_row_problem_and_remedy(tmp_path: Path, text: str, wanted: str) -> None:
    """Whatever is wrong with a row file, the message leads to it."""
    with pytest.raises(SpecError, match=f"(?s){wanted}"):
        clauses(_directory(tmp_path, a=text))


def test_the_same_id_in_two_files_is_told(tmp_path: Path) -> None:
    """Ids are unique over all files."""
    with pytest.raises(SpecError, match=r"b\.yaml, row 'chat\.example': the id is already used in a\.yaml"):
        clauses(_directory(tmp_path, a=GOOD, b=GOOD))


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    """No rows at all is an error and not an empty contract."""
    with pytest.raises(SpecError, match="holds no clause rows"):
        clauses(tmp_path)


def test_features_have_core_and_a_line_each(tmp_path: Path) -> None:
    """Every feature says what it is; a file without core is refused."""
    assert all(line.endswith(".") for line in features().values())
    lonely = tmp_path / "features.yaml"
    lonely.write_text("audio: Sounds.\n", encoding="utf-8")
    with pytest.raises(SpecError, match="lacks the feature 'core'"):
        features(lonely)
