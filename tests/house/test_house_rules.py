"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = re.compile(r"_pb2|_grpc\.py$|models_generated\.py$")


def _tracked(*patterns: str) -> list[Path]:
    """Files git tracks that match the patterns and still exist."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_file_names_this_machine_or_a_registry() -> None:
    """A clone works anywhere, so no tracked file names a path of one machine or the host of a package registry."""
    # Spelled in halves, or this file would find itself.
    forbidden = [
        "/wo" + "rk/",
        "/ro" + "ot/",
        "pypi" + ".org",
        "python" + "hosted",
        "registry." + "npmjs",
        "../sha" + "red",
    ]
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in _tracked()
        for word in forbidden
        if word in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_modules_stay_small() -> None:
    """No hand-written module has more than 500 lines."""
    sizes = {path: len(path.read_text().splitlines()) for path in _tracked("*.py") if not GENERATED.search(path.name)}
    assert {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > 500} == {}


@pytest.mark.parametrize("room", ["conformance/checks", "tests"])
def test_nothing_is_skipped(room: str) -> None:
    """A missing prerequisite fails: neither checks nor tests skip, expect failure or rerun themselves."""
    word = re.compile(r"pytest\.(skip|xfail|importorskip)\b|mark\.(skip|skipif|xfail|flaky)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked(f"{room}/*.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("room", ["conformance/checks", "reference_server", "spec"])
def test_no_implementation_is_named(room: str) -> None:
    """Checks, the contract's data and the reference server name no implementation; that is for target files."""
    word = re.compile(r"\b(litellm|portkey|vllm-router|sglang-router|smg ?@? ?1\.1[23])\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _tracked(f"{room}/*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]
    assert found == []


def test_every_lint_exemption_has_a_reason() -> None:
    """Each `noqa` and `type: ignore` in the tree says why behind it."""
    bare = re.compile(r"#\s*(noqa(:\s*[A-Z0-9, ]+)?|type:\s*ignore(\[[^\]]*\])?)\s*$")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked("*.py")
        if not GENERATED.search(path.name) and path.parts[-2] != "engine_proto"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
