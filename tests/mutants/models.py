"""Request models from a broken document: generated as `make models` does, in this process, kept in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from spec.models import OPTIONS, request_document

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tests.mutants.automatic import Automatic


def generate(mutant: Automatic, folder: Path) -> Path:
    """The models of a mutant as a Python module in `folder`; one that is there already is used again.

    Raises:
        ValueError: the generator refuses the document.
    """
    document = request_document(mutant.document())
    digest = hashlib.sha256(json.dumps([document, OPTIONS]).encode()).hexdigest()[:24]
    target = folder / f"m{digest}.py"
    if target.exists():
        return target
    from datamodel_code_generator.__main__ import main  # noqa: PLC0415 - a second that most uses need not pay

    with tempfile.TemporaryDirectory(prefix="models-") as directory:
        source = Path(directory) / "requests.yaml"
        made = Path(directory) / "made.py"
        source.write_text(yaml.dump(document, Dumper=_dumper(), sort_keys=False), encoding="utf-8")
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = main(["--input", str(source), "--output", str(made), *OPTIONS])
        if status:
            raise ValueError(f"{mutant.name}: the model generator failed: {said.getvalue()[-300:]}")
        temporary = target.with_suffix(".tmp")
        temporary.write_bytes(made.read_bytes())
        temporary.replace(target)
    return target


def _dumper() -> Any:
    """The fast writer where the C library is there, and never with anchors, which the generator need not know."""
    base = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return type("Plain", (base,), {"ignore_aliases": lambda *_: True})


def load(file: Path, schema: str) -> type[BaseModel]:
    """A model of a generated module."""
    name = f"mutated_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks annotations up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    model: type[BaseModel] = getattr(module, schema)
    model.model_rebuild()
    return model
