"""The contract as data: an OpenAPI document, one row per normative sentence, and the small library that reads them.

Everything here is plain reading: nothing in this package starts a process, opens a socket or knows of a gateway.

* `clauses()`: every clause row, by id (`spec/clauses/*.yaml`, described by `clause.schema.json`).
* `openapi()`: the parsed OpenAPI 3.1 document; `spec.schemas` judges values by it, `spec.fields` lists its constraints.
* `features()`: the extensions a gateway may claim, with one line about each (`features.yaml`).
* `spec.errors.table()`: error codes with their status, `Retry-After` and body shape (`errors.yaml`).

The request models of the reference server are generated from the document with `make models`;
`spec.models.command()` holds the options, and a test fails when the generated module is stale.
"""

from __future__ import annotations

from spec import errors, fields, schemas
from spec.document import openapi
from spec.features import features
from spec.loading import SpecError
from spec.rows import Clause, clauses

__all__ = ["Clause", "SpecError", "clauses", "errors", "features", "fields", "openapi", "schemas"]
