# Two commands do everything on a fresh machine: `make conformance` and `make test`.
# Both share the set-up below, which runs again only when the dependencies change.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
JOBS ?= 4
# Every run starts many Python processes: without compiled files each of them would compile all it imports again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup conformance test lint types imports docstrings units load models lock readings clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements/dev.lock requirements/bootstrap.txt
	@echo "set-up: virtual environment and locked dependencies in $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/bootstrap.txt requirements/dev.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps -e .
	touch $@

conformance: $(STAMP)
	$(BIN)/python -m pytest conformance -n $(JOBS) --report-dir reports/conformance

test: lint types imports docstrings units

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases --namespace-packages tests

imports: $(STAMP)
	$(BIN)/lint-imports

docstrings: $(STAMP)
	$(BIN)/interrogate -q spec reference_server conformance fake_workers loadtests tests

units: $(STAMP)
	$(BIN)/python -m pytest tests -n $(JOBS) -q

# Put the reference gateway under each load scenario (docs/load-testing.md).
load: $(STAMP)
	for scenario in admission preemption keepalive steady disconnect-storm slow-readers; do \
		$(BIN)/python -m loadtests $$scenario --report-dir reports/load/$$scenario || exit $$?; \
	done

# Set deliberately wrong gateways before the suite: score, survivors, checks that kill nothing (docs/mutation.md).
mutation: $(STAMP)
	$(BIN)/python -m tests.mutants run --declared --jobs 2 --json reports/mutation.json

# Write the reference server's request models anew from spec/openapi.yaml (a test fails when they are stale).
models: $(STAMP)
	$(BIN)/python -m spec.models

# Resolve the dependency ranges of pyproject.toml again (needs the network).
lock:
	$(BIN)/uv pip compile --quiet --all-extras --generate-hashes --no-emit-index-url --no-emit-find-links --no-header pyproject.toml -o requirements/dev.lock

# The page of readings, made from the clause rows.
readings: $(STAMP)
	$(BIN)/python -m spec.readings > docs/readings.md

clean:
	rm -rf $(VENV) build reports .targets .mypy_cache .ruff_cache .import_linter_cache
