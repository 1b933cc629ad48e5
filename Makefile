# Every target works from a fresh clone: .venv is made on first use, and again when a pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
N ?= 2000
SEED ?= 1
TIMES ?= 10
MINUTES ?= 60
TARGET ?=
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help up test check format bench peers peers-suites tradeoff load sim soak

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

$(STAMP): pyproject.toml loadtest/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is missing or older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e ./loadtest
	@touch $@

up: $(STAMP)  ## a router and three nodes that serve TARGET (without one, an example); ARGS="--port 9000"
	@exec $(BIN)/framehold up $(ARGS) $(TARGET)

test: $(STAMP)  ## all tests; ARGS="-k name" narrows them
	@sh tests/system_packages.sh
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m tests.phases --workers $(WORKERS)
else
	$(BIN)/python -m pytest $(ARGS)
endif

check: $(STAMP)  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/structure/test_source_rules.py tests/structure/test_law.py

format: $(STAMP)  ## rewrite the files as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

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
