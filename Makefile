# deltauq: every step a developer or CI takes. On a machine with Python and make: `make demo`, `make test`.
#
# Each target brings .venv to what it needs first. What is installed is remembered by empty stamp files in .venv whose
# names hold a checksum of everything that decides the installation; when that has not changed, pip is not run at all.

PYTHON ?= python3

VENV := .venv
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip --disable-pip-version-check --no-input
PIN  := $(PIP) install --quiet --constraint constraints.txt
# The build tools live in .venv, so that installing anew after an edit of pyproject.toml works without a network:
# ours, and setuptools for what others publish as source only.
EDIT := $(PIN) --no-build-isolation

# The folder counts too: an editable installation knows its own path.
SUM   := $(shell { cat pyproject.toml constraints.txt src/deltauq/_version.py; pwd; } | cksum | cut -d ' ' -f 1)
TOOLS := $(VENV)/.stamp-tools-$(SUM)
DEMO  := $(VENV)/.stamp-demo-$(SUM)
TEST  := $(VENV)/.stamp-test-$(SUM)

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format bench tables pictures docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO) ## Run the demonstration
	$(VENV)/bin/deltauq demo

# One thread per test worker: the workers already fill the machine.
test: $(TEST) ## Run the tests; core/ must be covered completely, branches included
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(PY) -m pytest -n auto -m "not slow" --cov --cov-report=
	$(PY) -m coverage report
	$(PY) -m coverage report --include='*/deltauq/core/*' --fail-under=100

test-slow: $(TEST) ## Run the slow tests
	$(PY) -m pytest -m slow || [ $$? -eq 5 ]  # 5: there are none

check: $(TEST) ## Lint, formatting, types, and the one-way arrows between the rooms
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) $(VENV)/bin/lint-imports

format: $(TEST) ## Format the code and fix what can be fixed
	$(PY) -m ruff check --fix-only --exit-zero
	$(PY) -m ruff format

bench: $(TEST) ## Run every benchmark
	@set -e; for file in benchmarks/bench_*.py; do \
	  [ -e "$$file" ] || { echo "no benchmarks yet"; break; }; \
	  echo "== $$file"; $(PY) "$$file"; \
	done

tables: $(TEST) ## Render the tables of the documents from the result lines, and the reference
	$(PY) docs/render.py

pictures: $(TEST) ## Draw the pictures of the documents
	$(PY) docs/pictures.py

docs: $(TEST) ## Build the documentation site into build/site
	$(PY) -m mkdocs build --strict

clean: ## Remove .venv, caches and build outputs
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache deltauq-demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation starts over. The chain tools < demo < test makes the test
# environment one that also serves the demo, and keeps two pips out of .venv under `make -j`.

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
	@$(EDIT) -e '.[fast,nn,bo,cli,report,compare,images,tables,export,mlflow,ray]' --group test --group lint --group docs
	@touch $@
