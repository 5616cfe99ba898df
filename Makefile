# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet

# The slowest machine we promise ten minutes on has two cores; a third worker uses the time that tests wait.
TEST_WORKERS ?= 3
# Extra words for pytest, e.g. make test PYTEST_ARGS="-k reclaim"
PYTEST_ARGS ?=
# A benchmark that runs longer than this is stopped.
BENCH_LIMIT_S ?= 600

.DEFAULT_GOAL := help
.PHONY: help demo test explore soak attack machines browser check lint bench wheel docs clean pins

help: ## say what can be made
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.stamp-demo ## three labs on this machine: a job is moved, killed, recovered
	$(BIN)/gpunion demo

test: $(VENV)/.stamp-dev ## everything: check, then all tests with the coverage gate
	tools/install-services
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m compileall -q src  # hundreds of processes are started, some by guests who may write nothing
	tools/with-services $(BIN)/python -m pytest tests -n $(TEST_WORKERS) --dist loadgroup \
		--cov --cov-context=test --cov-report= --core-coverage 95 $(PYTEST_ARGS)

explore: $(VENV)/.stamp-dev ## the property tests with examples nobody has tried yet
	GPUNION_EXPLORE=1 $(BIN)/python -m pytest -q tests/property tests/unit -n $(TEST_WORKERS) $(PYTEST_ARGS)

soak: $(VENV)/.stamp-dev ## random kills and reclaims on real processes (SEED=1 MINUTES=3)
	$(BIN)/python -m tests.system.soak --seed $(or $(SEED),1) --minutes $(or $(MINUTES),3)

attack: $(VENV)/.stamp-dev ## nodes that lie, hostile peers of real processes (FRAMES=100000)
	$(BIN)/python -m tests.attack.frames --frames $(or $(FRAMES),100000)
	$(BIN)/python -m tests.attack.live
	$(BIN)/python -m pytest -q tests/escape

machines: $(VENV)/.stamp-dev ## machines with systemd of their own, switched off, cut off (root)
	tools/make-machines
	GPUNION_MACHINES=1 $(BIN)/python -m pytest -v tests/machines -o faulthandler_timeout=0 $(PYTEST_ARGS)

browser: $(VENV)/.stamp-dev ## notebooks in a real Chromium while owners come (root; SHOTS=DIR)
	tools/install-services chromium:chromium sshd:openssh-server rsync:rsync
	$(PIP) install --no-deps --require-hashes --only-binary :all: -r requirements/browser.txt
	GPUNION_SHOTS=$(SHOTS) tools/with-services $(BIN)/python -m pytest -v tests/sessions $(PYTEST_ARGS)

check: lint ## style, types, import rules, fresh generated documents, tidiness
	$(BIN)/python -m pytest -q tests/tidy

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_docs.py --check

bench: $(VENV)/.stamp-dev ## run every bench/*/run.py, each within BENCH_LIMIT_S
	@set -e; for script in $(wildcard bench/*/run.py); do \
		echo "bench: $$script"; timeout $(BENCH_LIMIT_S) $(BIN)/python $$script; done

wheel: $(VENV)/.stamp-demo ## one file in dist/ for pip and pipx elsewhere
	rm -rf dist
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

docs: $(VENV)/.stamp-dev ## regenerate the documents that are made from code
	$(BIN)/python tools/generate_docs.py

pins: ## resolve requirements/*.txt again (UPGRADE=1 moves every pin)
	PYTHON=$(PYTHON) tools/pin $(if $(UPGRADE),--upgrade)

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Wheels only: building a package from source would fetch build tools that nobody pinned. The lists are complete; pip,
# asked for dependencies too, would refuse the pin of a package whose extras one asks for as soon as it has a new release.
$(VENV)/.stamp-demo: requirements/demo.txt pyproject.toml
	tools/make-venv $(PYTHON) $(VENV)
	$(PIP) install --no-deps --require-hashes --only-binary :all: -r requirements/demo.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# The development pins contain the demo's, so one installation serves both.
$(VENV)/.stamp-dev: requirements/dev.txt requirements/demo.txt pyproject.toml
	tools/make-venv $(PYTHON) $(VENV)
	$(PIP) install --no-deps --require-hashes --only-binary :all: -r requirements/dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.stamp-demo $@
