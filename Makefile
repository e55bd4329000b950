# Everything here needs only Python 3.11 or newer (with pip and venv), make and git.
# `make setup` builds .venv; every other target that needs it calls it first.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Another interpreter for the set-up: make setup PYTHON=/path/to/python
PYTHON ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check docs bench data clean check-page test-label test-oldest bench-label bench-scale

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv and install nodegp into it with pinned packages

# Candidates are run, not just looked up: a version manager's stand-in can be on the
# PATH without its Python, and some systems ship Python without venv.
$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  chosen=; \
	  for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then chosen="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$chosen" ]; then \
	    echo "make setup: no Python 3.11 or newer with venv and pip was found" \
	      "(tried: $(or $(PYTHON),python3.13 python3.12 python3.11 python3))." >&2; \
	    echo "Install one, or name it: make setup PYTHON=/path/to/python" >&2; \
	    exit 1; \
	  fi; \
	  echo "Creating $(VENV) with $$("$$chosen" --version)"; \
	  "$$chosen" -m venv --clear $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint constraints.txt --editable '.[dev,reports,baselines,interop,excel,label,dask,docs]'
	@touch $@

demo: setup ## fit Cora and show what the library does
	$(BIN)/nodegp demo

check: setup ## lint, format, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two test processes with one thread each: more threads than cores slow each other down. Compiled
# modules are kept even where the environment says not to: many tests start Python anew. Each process
# takes half of the tests in their order, so that fixtures are made once, and helps the other at last.
WITH_ONE_THREAD := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := -m pytest -n 2 --dist worksteal --durations=20
test: check ## check, then run the tests
	$(WITH_ONE_THREAD) $(BIN)/python $(PYTEST) tests

# The scripts of the labelling page have their types in comments. Node is needed for this alone.
check-page: ## types of the labelling page's scripts, where npm can bring a compiler
	npm install --silent --no-audit --no-fund --no-package-lock
	npx tsc --project jsconfig.json

test-label: setup ## the labelling page at length: 200 kills of its server
	NODEGP_LABEL_KILLS=200 $(WITH_ONE_THREAD) $(BIN)/python -m pytest -v tests/test_label_*.py

# torch by itself: `make test-oldest TORCH=2.4.0` where that release can be had.
TORCH ?= 2.13.0
TESTS ?= tests
test-oldest: ## the tests with the lowest versions that pyproject.toml allows, in build/oldest
	test -x build/oldest/bin/python || $(or $(PYTHON),python3) -m venv build/oldest
	build/oldest/bin/python scripts/oldest_versions.py --but torch==$(TORCH) > build/oldest/versions.txt
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement build/oldest/versions.txt pytest pytest-xdist hypothesis httpx psutil build hatchling
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --editable .
	$(WITH_ONE_THREAD) build/oldest/bin/python $(PYTEST) $(TESTS)

bench-label: setup ## how long the labelling page takes from key to next question
	$(BIN)/python benchmarks/label.py

# Takes an hour, 60 GB of disk in the folder SCALE, and a machine that does nothing else.
SCALE ?= build/scale
bench-scale: setup ## graphs from disk: against scipy in memory, then 100 million edges
	$(BIN)/python benchmarks/scale.py propagation $(SCALE)
	$(BIN)/python benchmarks/scale.py answers $(SCALE)
	$(BIN)/python benchmarks/scale.py posterior $(SCALE)
	$(BIN)/python benchmarks/scale.py whole $(SCALE)
	$(BIN)/python benchmarks/scale.py whole $(SCALE) --order 10

docs: setup ## build the documentation site into build/docs
	$(BIN)/python scripts/build_command_reference.py
	$(BIN)/python scripts/build_model_figure.py
	$(BIN)/python scripts/build_figures.py
	$(BIN)/python -m mkdocs build --strict

bench: setup ## run the benchmarks
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/predict.py
	$(BIN)/python benchmarks/io.py

data: setup ## build the bundled Cora again from its source files
	$(BIN)/python scripts/build_cora.py

clean: ## remove .venv, builds and caches
	rm -rf $(VENV) node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks scripts examples -name __pycache__ -type d -prune \
	  -exec rm -rf {} + 2>/dev/null || true
