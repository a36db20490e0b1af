# Everything a newcomer needs: each target makes .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Fits of the demo and workers of the tests run side by side, one thread each.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint types docs check slow browser bench results fuzz kills golden matrix release-check audit hashes licences clean

demo: $(VENV)/.installed
	$(BIN)/prism demo --out runs/demo

test: lint types docs check

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

docs: $(VENV)/.installed-test
	$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees docs build/docs

# What takes longer than ten seconds and is seldom touched (killed workers) has a target of its own: slow.
check: $(VENV)/.installed-test browser
	$(BIN)/pytest -n 2 -m "not slow" --durations 40

slow: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 -m slow

# The report is tested in a real browser: installed where we may, named where we may not.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  if command -v $$name > /dev/null; then exit 0; fi; done; \
	if [ -n "$$PRISM_BROWSER" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && apt-get install -qq --yes chromium; \
	then exit 0; fi; \
	echo "No browser for the tests of the report; install one with: sudo apt-get install --yes chromium"

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[fast]"
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --editable ".[fast,cluster,data,docs,excel,interop,nwb,robots,sim,test]"
	touch $@

# Pages of simulated data as pictures for the documentation.
screenshots: $(VENV)/.installed-test browser
	$(BIN)/python docs/screenshots.py

# Every core for every library, and threads that do not spin while they wait for the next turn.
bench: CORES = $(shell getconf _NPROCESSORS_ONLN)
bench: $(VENV)/.installed-test
	OMP_WAIT_POLICY=passive OMP_NUM_THREADS=$(CORES) NUMBA_NUM_THREADS=$(CORES) $(BIN)/python benchmarks/run.py

# Does this tree compute what another commit computes, here, to the last digits? make golden BASE=main~5
golden: $(VENV)/.installed-test
	$(BIN)/python tests/golden/compare.py $(BASE)

# Which command wrote the numbers of README and docs, when, where, and how long it took.
results: $(VENV)/.installed
	$(BIN)/python docs/results/results.py

# Ten thousand bad inputs; FUZZ="--seed 3 --cases 2000" for another run.
fuzz: $(VENV)/.installed-test
	$(BIN)/python tests/fuzz/run.py $(FUZZ)

# A hundred and twenty SIGKILLs of every verb that works for a while and writes, which must end as if nothing had
# happened; then interrupts and requests to end.
kills: $(VENV)/.installed-test
	$(BIN)/python tests/fuzz/kills.py
	$(BIN)/python tests/fuzz/kills.py --signal INT --kills 5
	$(BIN)/python tests/fuzz/kills.py --signal TERM --kills 5

# Build, check, install into a clean environment, type the first commands there.
release-check: $(VENV)/.installed-test
	$(PIP) build twine
	$(BIN)/python tests/release.py

# The newest libraries on every Python that is here, and the oldest that pyproject.toml allows; hours, and gigabytes in
# build/matrix. MATRIX="3.13-newest -- tests/data" for one of them, and for some of the tests.
matrix:
	$(PYTHON) tests/matrix.py $(MATRIX)

# Known weaknesses of what is pinned (asks an advisory service on the network), and the licences of all of it. Strict: a
# package that the service does not know, or a service that cannot be reached, is no good news, and fails.
audit: $(VENV)/.installed-test
	$(PIP) pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

# The files that pip takes for constraints.txt, with their SHA-256.
hashes: $(VENV)/.installed-test
	$(BIN)/python tests/hashes.py

licences: $(VENV)/.installed-test
	$(BIN)/python tests/licences.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
