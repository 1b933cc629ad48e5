# Every target works from a fresh clone: .venv is made on first use, and filled again when a pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two stamps in one environment: `up` needs a tenth of what tests and benchmarks need.
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
# The versions that tests run with; LOCK= takes the newest that are allowed.
LOCK ?= tests/dev.lock
UV := $(shell command -v uv 2>/dev/null)
N ?= 2000
SEED ?= 1
TIMES ?= 10
MINUTES ?= 60
TARGET ?=
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help up test check format docs bench peers peers-suites tradeoff load sim soak kube kube-down kube-test version release

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

# uv is used where it is on PATH. It leaves compiling to the first run unless told to, and `up` starts five processes.
ifdef UV
INSTALL = uv pip install --quiet --compile-bytecode --python $(BIN)/python
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

# With uv a python3 that is too old is no obstacle: uv finds or fetches another one. A PYTHON that was named is kept to.
$(BIN)/python:
	@echo "making $(VENV) with $(if $(UV),uv,$(PYTHON) -m venv) ..."
	@python=$(PYTHON); \
	if ! $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  [ -n "$(UV)" ] && [ "$(origin PYTHON)" = file ] && python='>=3.11' || \
	  { echo "make: $(PYTHON) is missing or older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 2; }; \
	fi; \
	if [ -n "$(UV)" ]; then uv venv --quiet --seed --allow-existing --python "$$python" $(VENV); \
	else $$python -m venv $(VENV); fi

$(RUNS): pyproject.toml | $(BIN)/python
	@echo "installing what running needs into $(VENV) (130 MB, about a minute, once) ..."
	@$(INSTALL) -e .
	@touch $@

$(STAMP): pyproject.toml loadtest/pyproject.toml $(LOCK) | $(BIN)/python
	@echo "installing what tests and benchmarks need into $(VENV) (1.1 GB, some minutes, once) ..."
	@$(INSTALL) $(if $(LOCK),-c $(LOCK)) -e '.[dev]' -e ./loadtest
	@touch $(RUNS) $@

up: $(RUNS)  ## a router and three nodes that serve TARGET (without one, an example); ARGS="--port 9000"
	@exec $(BIN)/framehold up $(ARGS) $(TARGET)

test: $(STAMP)  ## all tests; ARGS="-k name" narrows them
	@sh tests/system_packages.sh
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m tests.phases --workers $(WORKERS)
else
	$(BIN)/python -m pytest $(ARGS)
endif

check: $(STAMP)  ## format, lint, types (of Python and of JavaScript), import rules, and whether every test can be collected
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/structure/test_source_rules.py tests/structure/test_law.py tests/structure/test_javascript_types.py
	@# A test module that can't be imported fails here, in seconds, and not after all the others have run.
	@collected=$$($(BIN)/python -m pytest -qq --collect-only) || { echo "$$collected" | tail -n 40; exit 1; }

format: $(STAMP)  ## rewrite the files as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)  ## the docs as a site, in build/site; a warning or a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)  ## the table of speed beside its targets
	@sh tests/system_packages.sh
	$(BIN)/python -m framehold_loadtest.bench $(ARGS)

peers: $(STAMP)  ## calls of Framehold beside what others offer; ARGS="--quick"
	@sh tests/system_packages.sh
	$(BIN)/python -m framehold_loadtest.peers $(ARGS)

peers-suites: $(STAMP)  ## the tests of mcp's SDK and of FastMCP with Framehold in between; ARGS="--suite sdk --mode attached"
	$(BIN)/python -m tests.suites $(ARGS)

tradeoff: $(STAMP)  ## what each way to keep a call costs, undisturbed and under faults; ARGS="--quick"
	@sh tests/system_packages.sh
	$(BIN)/framehold bench tradeoff $(ARGS)

load: $(STAMP)  ## a fleet under users and faults; ARGS="kill --seconds 30"
	@sh tests/system_packages.sh
	$(BIN)/framehold load $(ARGS)

sim: $(STAMP)  ## N seeded schedules of the simulation, from SEED on
	$(BIN)/python -m tests.sim --runs $(N) --seed $(SEED)

soak: $(STAMP)  ## every real fault TIMES times, then MINUTES of all kinds at random under load
	@sh tests/system_packages.sh
	$(BIN)/python -m tests.fleet.soak --times $(TIMES) --minutes $(MINUTES) --seed $(SEED)

kube: $(STAMP)  ## a real Kubernetes on this machine, for root on Linux; KUBE_BIN=folder takes its binaries from there
	@tests/kube/up.sh

kube-down:  ## the end of that cluster, and of all that it wrote
	@tests/kube/down.sh

kube-test: $(STAMP)  ## drills on that cluster, and their page in docs; ARGS="'pod deleted' --users 50" carries out one
ifeq ($(strip $(ARGS)),)
	@tests/kube/machine.sh near control $(abspath $(BIN))/python -m tests.kube.drills --report
else
	@tests/kube/machine.sh near control $(abspath $(BIN))/python -m tests.kube.drills $(ARGS)
endif

version: $(STAMP)  ## write VERSION into all files that state it, and open its section of CHANGELOG.md
	@$(BIN)/python -m release version "$(VERSION)"

release: $(STAMP)  ## build what is committed, check it, list its parts (SBOM) and tag it; nothing is published
	@$(BIN)/python -m release make
