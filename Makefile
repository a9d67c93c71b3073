# Every target makes .venv first and installs diffgen into it, once for each state of setup.cfg and pyproject.toml.
# PYTHON chooses the interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RELEASE := .venv-release/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
VENV_STAMP := $(VENV)/.stamp-venv
USER_STAMP := $(VENV)/.stamp-user
DEV_STAMP := $(VENV)/.stamp-dev
DOCS_STAMP := $(VENV)/.stamp-docs
SAY_VERSION := import sys; print(sys.version_info[:2])
# More arguments for the program or for pytest: make demo ARGS="--budget 30s", make test ARGS="-x -k filters"
ARGS ?=
# Test processes at once.
JOBS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow check format coverage docs pictures release mlserver clean distclean same-python

help:
	@echo "make demo        install diffgen into .venv and compare two small models, from nothing to a report"
	@echo "make test        make check, then all tests that are not slow"
	@echo "make test-slow   the slow tests alone"
	@echo "make check       ruff, mypy and import-linter"
	@echo "make format      let ruff mend imports and layout"
	@echo "make coverage    the tests that are not slow, with the lines they miss"
	@echo "make docs        build the site, run its notebooks, check its links: docs/_build/html/index.html"
	@echo "make pictures    draw the pictures of README and site anew, from runs on the digits"
	@echo "make release     build wheel and sdist, check them, install the wheel elsewhere and run the demo from it"
	@echo "make mlserver    an environment of its own with MLServer, for the slow tests of remote models"
	@echo "make clean       remove what building, testing and the demo left behind; keeps .venv"
	@echo "make distclean   make clean, and remove .venv, .venv-release and .venv-mlserver"
	@echo "PYTHON=python3.12 chooses the interpreter, ARGS=\"...\" is handed on to diffgen demo or pytest, JOBS=1 tests in one process."

demo: $(USER_STAMP)
	$(BIN)/diffgen demo --force $(ARGS)

test: check
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist loadfile $(ARGS)

test-slow: $(DOCS_STAMP)
	$(BIN)/python -m pytest -m slow $(ARGS)

check: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(DEV_STAMP)
	$(BIN)/python -m pytest -m "not slow" --cov --cov-report=term $(ARGS)

docs: $(DOCS_STAMP)
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python -m docs.tools.links docs/_build/html

pictures: $(DEV_STAMP)
	$(BIN)/python -m docs.tools.badges
	$(BIN)/python -m docs.tools.pictures
	$(BIN)/python -m docs.tools.page_pictures

# Everything happens in an environment of its own and in dist/: the checkout itself can be imported by none of it.
release:
	rm -rf build dist .venv-release
	$(PYTHON) -m venv .venv-release
	$(RELEASE)/python -m pip --disable-pip-version-check --no-input install --quiet build twine
	$(RELEASE)/python -m build --outdir dist .
	$(RELEASE)/python -m twine check --strict dist/*
	$(RELEASE)/python -m pip --disable-pip-version-check --no-input install dist/*.whl
	cd dist && ../$(RELEASE)/diffgen demo --budget 10s --force
	@echo "dist/ holds what was checked, and the demonstration of the wheel: dist/demo-run/report.html"

# Beside torch and onnx it would change their versions. The tests find it there.
mlserver:
	$(PYTHON) -m venv .venv-mlserver
	.venv-mlserver/bin/python -m pip --disable-pip-version-check --no-input install "mlserver==1.7.1" onnxruntime

clean:
	rm -rf build dist *.egg-info demo-run .coverage htmlcov docs/_build docs/results docs/reference/generated docs/changelog.md docs/contributing.md
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find diffgen filters gan_training tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean
	rm -rf $(VENV) .venv-release .venv-mlserver

# One plain install, so that pip resolves torch and torchvision together: docs/decisions/002-torch-from-the-index.md.
$(DEV_STAMP): setup.cfg pyproject.toml $(VENV_STAMP) | same-python
	@echo "Installing diffgen and its tools into $(VENV); torch is large, the first time takes minutes."
	$(PIP) install -e ".[dev]"
	@touch $(USER_STAMP) $@

$(DOCS_STAMP): $(DEV_STAMP)
	$(PIP) install -e ".[dev,docs]"
	@touch $@

$(USER_STAMP): setup.cfg pyproject.toml $(VENV_STAMP) | same-python
	@echo "Installing diffgen into $(VENV); torch is large, the first time takes minutes."
	$(PIP) install -e .
	@touch $@

$(VENV_STAMP): | same-python
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no '$(PYTHON)' here; name a Python of 3.11 or later: make PYTHON=python3.12" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "diffgen needs Python 3.11 or later, and '$(PYTHON)' is $$("$(PYTHON)" -V 2>&1); name another: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# A .venv keeps the Python that it was made with; naming another one is an error.
same-python:
ifneq ($(origin PYTHON),file)
	@test ! -e $(VENV_STAMP) || \
	  test "$$("$(PYTHON)" -c '$(SAY_VERSION)')" = "$$($(BIN)/python -c '$(SAY_VERSION)')" || { \
	  echo "$(VENV) holds $$($(BIN)/python -V 2>&1), not $(PYTHON); run make distclean first." >&2; exit 2; }
endif
