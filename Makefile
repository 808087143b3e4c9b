# Every target prepares .venv first; a target that has nothing to do returns at once.
.DEFAULT_GOAL := demo
SHELL := /bin/sh

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
RUN := env -u PYTHONPATH -u PYTHONHOME PATH="$(BIN):$$PATH"
# The newest interpreter found that is new enough; an active virtual environment plays no part.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	q=$$(command -v $$p) && "$$q" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$q" && break; done)
JOBS ?= 2
PYTEST := $(RUN) pytest -p no:cacheprovider
PYTESTS := $(PYTEST) -n $(JOBS) --durations=15
MODELS ?=
SLOW ?=

.PHONY: help setup demo test test-all test-models lint bench docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: $(VENV)/test.stamp  ## create .venv and install tilewright with what its tests need

$(VENV)/base.stamp:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or run make PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/test.stamp: $(VENV)/base.stamp pyproject.toml
	$(RUN) python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/test.stamp
	$(RUN) python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

demo: setup  ## the embedded model on simulated hardware, every value checked
	$(RUN) tilewright demo

test: setup  ## the default tests, JOBS=2 at a time
	$(PYTESTS) -m "not slow and not models"

test-all: setup  ## the default and the slow tests; with MODELS=DIR those over models, too
	$(PYTESTS) -m "not models"
	$(if $(MODELS),$(MAKE) test-models SLOW=1)

test-models: setup  ## tests over a folder of models: make test-models MODELS=DIR [SLOW=1]
	@test -d "$(MODELS)" || { echo "error: MODELS=$(MODELS) is not a folder; give the one that holds manifest.json" >&2; exit 2; }
	TILEWRIGHT_MODELS="$(abspath $(MODELS))" $(PYTESTS) -m "models$(if $(SLOW),, and not slow)"

lint: $(VENV)/dev.stamp  ## format, style, types, import directions, dead code, dependencies
	$(RUN) python tools/link_tree.py
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	cd build/lint && $(RUN) lint-imports --no-cache ../../pyproject.toml
	$(RUN) vulture
	$(RUN) deptry .

bench: setup  ## the measurements of benchmarks/
	$(PYTEST) benchmarks --override-ini python_files='bench_*.py' -s

docs: setup  ## the generated tables of docs/
	$(RUN) python tools/generate_docs.py

clean:  ## remove everything that the other targets made
	rm -rf $(VENV) build *.egg-info
