# Everything a newcomer needs: each target makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Fits of the demo and workers of the tests run side by side, one thread each.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint types check bench clean

demo: $(VENV)/.installed
	$(BIN)/prism demo --out runs/demo

test: lint types check

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

check: $(VENV)/.installed-test
	$(BIN)/pytest -n 2

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[fast]"
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --editable ".[fast,test]"
	touch $@

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
