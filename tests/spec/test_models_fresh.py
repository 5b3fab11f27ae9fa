"""The generated request models are what the OpenAPI document gives today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from reference_server import models_generated as models
from spec import models as generator

MODULE = Path(models.__file__)


def test_the_committed_models_are_what_the_document_gives() -> None:
    """`make models` would change nothing."""
    assert MODULE.read_text(encoding="utf-8") == generator.generate(), "run `make models` and commit the result"


def test_a_number_in_quotes_is_no_number() -> None:
    """The models convert nothing: a string stays a string."""
    with pytest.raises(ValidationError):
        models.ChatCompletionRequest.model_validate(
            {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": "1"}
        )


def test_unknown_keys_are_kept() -> None:
    """A key that the document does not know survives at every level."""
    request = models.ChatCompletionRequest.model_validate(
        {"model": "m", "messages": [{"role": "user", "content": "x", "mood": 1}], "weather": "fine"}
    )
    assert request.model_extra == {"weather": "fine"}
    assert request.messages[0].model_extra == {"mood": 1}


def test_check_mode_tells_a_stale_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --check the command changes nothing, and says by its exit code whether the module is stale."""
    monkeypatch.setattr(generator, "generate", lambda: "# new\n")
    stale = tmp_path / "models.py"
    stale.write_text("# old\n", encoding="utf-8")
    assert generator.main(["--check", "--output", str(stale)]) == 1
    assert "make models" in capsys.readouterr().err
    assert stale.read_text(encoding="utf-8") == "# old\n"
    assert generator.main(["--output", str(stale)]) == 0
    assert generator.main(["--check", "--output", str(stale)]) == 0


def test_a_generator_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """When the generator cannot run, the command says so with what to do, and exits with 2."""
    monkeypatch.setattr(generator, "command", lambda _source, _target: [sys.executable, "-c", "raise SystemExit('no')"])
    assert generator.main(["--check"]) == 2
    assert "the model generator failed: no. Install the development extras" in capsys.readouterr().err
