# Development commands of deltauq. They need Python and make; `make` lists them.
#
# Each target first installs what it needs into .venv. Empty stamp files in .venv record what is installed: their names
# contain a checksum of everything that decides the installation, and pip runs only when that has changed.

PYTHON ?= python3

VENV := .venv
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip --disable-pip-version-check --no-input
PIN  := $(PIP) install --quiet --constraint constraints.txt
# The build tools are in .venv, so that installing again after an edit of pyproject.toml works without a network:
# ours, and setuptools for packages that are published as source only.
EDIT := $(PIN) --no-build-isolation

# The checksum includes the folder because an editable installation stores its path.
SUM   := $(shell { cat pyproject.toml constraints.txt src/deltauq/_version.py; pwd; } | cksum | cut -d ' ' -f 1)
TOOLS := $(VENV)/.stamp-tools-$(SUM)
DEMO  := $(VENV)/.stamp-demo-$(SUM)
TEST  := $(VENV)/.stamp-test-$(SUM)

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-experiments test-slow check format bench tables pictures docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO) ## Run the demonstration
	$(VENV)/bin/deltauq demo

# One thread per test worker: the workers already fill the machine.
# Coverage is measured where it is required: measuring it everywhere would double the time.
test: $(TEST) ## Test the library; core must be covered completely, branches included
	$(PY) -m pytest -q tests/core --cov=deltauq.core --cov-report=term-missing --cov-fail-under=100
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PY) -m pytest -n auto -m "not slow" tests --ignore=tests/core

coverage: $(TEST) ## Measure which lines of the library the tests cover
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PY) -m pytest -n auto -m "not slow" --cov tests

test-experiments: $(TEST) ## Test the experiments
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PY) -m pytest -n auto -m "not slow" experiments/tests

test-slow: $(TEST) ## Run the slow tests of both
	$(PY) -m pytest -m slow tests experiments/tests

check: $(TEST) ## Lint, formatting, types and imports of the library and the experiments
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) $(VENV)/bin/lint-imports
	$(PY) -m pytest -q tests/test_layout.py

format: $(TEST) ## Format the code and fix what can be fixed
	$(PY) -m ruff check --fix-only --exit-zero
	$(PY) -m ruff format

# Scripts that import experiments/, which is not installed.
bench tables pictures: export PYTHONPATH := .

bench: $(TEST) ## Run every benchmark
	@set -e; for file in benchmarks/bench_*.py; do \
	  echo "== $$file"; $(PY) "$$file"; \
	done

tables: $(TEST) ## Render the result tables of README.md and docs/results.md
	$(PY) docs/render.py

pictures: $(TEST) ## Draw the pictures of the documentation
	$(PY) docs/pictures.py

docs: $(TEST) ## Build the documentation site into build/site
	$(PY) -m mkdocs build --strict

clean: ## Remove .venv, caches and build outputs
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache deltauq-demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation starts over. Each stamp depends on the previous one (tools, demo,
# test), so the test environment also serves the demo, and `make -j` never runs two pips at once.

$(TOOLS):
	@$(PYTHON) -c 'import sys; sys.exit("deltauq needs Python 3.11 or newer, but $(PYTHON) is %d.%d; try: make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@rm -f $(VENV)/.stamp-*
	@echo "Creating $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIN) pip
	@$(PIN) hatchling editables setuptools
	@touch $@

$(DEMO): $(TOOLS)
	@echo "Installing deltauq with the cli and report extras (once, about a minute) ..."
	@$(EDIT) -e '.[cli,report]'
	@touch $@

$(TEST): $(DEMO)
	@echo "Installing the test environment, PyTorch included (once, some minutes) ..."
	@$(EDIT) -e '.[fast,nn,bo,cli,report,peers,images,tables,export,mlflow,ray]' --group test --group lint --group docs
	@touch $@
