"""How the reference server's request models are generated from the OpenAPI document.

`make models` runs `python -m spec.models`, which writes `reference_server/models_generated.py`. The generator and its
options are pinned (the version by the lock file, the options here), so that the same document gives the same bytes on
every machine; `tests/spec/test_models_fresh.py` fails when the committed module is not what the document gives.

Only what a request can reach is generated. The document is cut down to those schemas first, because models of answers
would never be used and would cost time at every start.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from spec.document import openapi
from spec.fields import prefixes, request_schema
from spec.loading import SpecError

TARGET = Path("reference_server") / "models_generated.py"
HEADER = '"""Request models generated from spec/openapi.yaml by `make models`. Do not edit: change the document."""'

OPTIONS = (
    "--input-file-type", "openapi",
    "--openapi-scopes", "schemas",
    "--output-model-type", "pydantic_v2.BaseModel",
    "--target-python-version", "3.11",
    "--target-pydantic-version", "2",
    "--strict-types", "str", "bytes", "int", "float", "bool",  # a JSON type is what it is: no "5" for 5, no true for 1
    "--extra-fields", "allow",  # unknown keys are part of the contract
    "--enum-field-as-literal", "all",
    "--field-constraints",
    "--use-annotated",
    "--use-union-operator",
    "--use-standard-collections",
    "--use-typed-nullable-map-values",  # else a map that may be null loses the type of its values
    "--collapse-root-models",
    "--disable-timestamp",
    "--formatters", "builtin",
    "--custom-file-header", HEADER,
)  # fmt: skip
"""Options of datamodel-codegen."""


def command(source: Path, target: Path) -> list[str]:
    """The generator's command line.

    Args:
        source: the file with the (cut down) OpenAPI document.
        target: the Python module to write.
    """
    return [sys.executable, "-m", "datamodel_code_generator", "--input", str(source), "--output", str(target), *OPTIONS]


def request_document(document: dict[str, Any] | None = None) -> dict[str, Any]:
    """The document without paths and without the schemas that no request can reach.

    Args:
        document: another OpenAPI document (mutants); the package's own when left out.
    """
    document = openapi() if document is None else document
    schemas = document["components"]["schemas"]
    queue: list[Any] = [request_schema(prefix, document) for prefix in prefixes(document)]
    names = {name for name, schema in schemas.items() if "x-clause-prefix" in schema}
    while queue:
        node = queue.pop()
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and (name := reference.rsplit("/", 1)[-1]) not in names:
                names.add(name)
                queue.append(schemas[name])
            queue.extend(value for key, value in node.items() if key != "$ref" and not key.startswith("x-"))
        elif isinstance(node, list):
            queue.extend(node)
    wanted = {name: _bare(schema) for name, schema in schemas.items() if name in names}
    return {"openapi": document["openapi"], "info": document["info"], "paths": {}, "components": {"schemas": wanted}}


def _bare(node: Any) -> Any:
    """A schema without what is for readers and checks only: examples and keys of our own."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: _bare(value) for key, value in node.items() if key != "examples" and not key.startswith("x-")}


def generate(document: dict[str, Any] | None = None) -> str:
    """The source of the models module.

    Args:
        document: another OpenAPI document (mutants); the package's own when left out.

    Raises:
        SpecError: the generator is not installed or refuses the document.
    """
    with tempfile.TemporaryDirectory(prefix="models-") as directory:
        source, target = Path(directory) / "requests.yaml", Path(directory) / "models.py"
        source.write_text(yaml.safe_dump(request_document(document), sort_keys=False), encoding="utf-8")
        done = subprocess.run(  # noqa: S603  # our own command, no shell
            command(source, target), capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode or not target.exists():
            tail = (done.stderr or done.stdout).strip().splitlines()[-5:]
            raise SpecError(
                "spec/openapi.yaml",
                f"the model generator failed: {' / '.join(tail) or 'no output'}",
                "Install the development extras (`make setup`), or correct the schema it names",
            )
        return target.read_text(encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Write the models module; with `--check`, only say whether it is stale (exit code 1)."""
    parser = argparse.ArgumentParser(
        prog="python -m spec.models", description="Generate request models from the document."
    )
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 when the module is stale")
    parser.add_argument("--output", type=Path, default=TARGET, help="the module to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        source = generate()
    except SpecError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    current = options.output.read_text(encoding="utf-8") if options.output.exists() else ""
    if options.check:
        if current != source:
            sys.stderr.write(f"{options.output} is stale; run `make models`\n")
        return int(current != source)
    options.output.write_text(source, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
