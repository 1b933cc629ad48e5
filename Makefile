# Every target works from a fresh clone: .venv is made on first use, and filled again when a pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One environment, and a stamp for each set of what is in it: `up` needs a tenth of what all tests and benchmarks need.
RUNS := $(VENV)/.runs
# The versions that tests run with; LOCK= takes the newest that are allowed.
LOCK ?= tests/dev.lock
UV := $(shell command -v uv 2>/dev/null)
N ?= 2000
SEED ?= 1
TIMES ?= 10
MINUTES ?= 60
SECONDS ?=
PART ?=
TARGET ?=
STAGE ?=
HOURS ?=
# The sets, and what each puts on the disk, in MB: Python packages and programs of the system.
SETS := test docs chart browser npm load release firefox fuzz day
MB_test := 170
MB_docs := 100
MB_chart := 450
MB_browser := 470
MB_npm := 400
MB_load := 260
MB_release := 90
MB_firefox := 310
MB_fuzz := 70
MB_day := 10
NAMED := $(if $(STAGE),--stage $(STAGE))

.DEFAULT_GOAL := help
.PHONY: help up test nightly tools check format house docs bench peers peers-suites tradeoff load sim runtimes mutants soak fuzz day kube kube-down kube-test version release

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

$(SETS:%=$(VENV)/.%): $(VENV)/.%: pyproject.toml loadtest/pyproject.toml $(LOCK) tests/system_packages.sh | $(BIN)/python
	@echo "installing what $* needs into $(VENV) and on this machine ($(MB_$*) MB, once) ..."
	@sh tests/system_packages.sh $*
	@$(if $(filter npm firefox day,$*),:,$(INSTALL) $(if $(LOCK),-c $(LOCK)) -e $(if $(filter load,$*),. -e './loadtest[peers]','.[$*]'))
	@touch $(RUNS) $@

up: $(RUNS)  ## a router and three nodes that serve TARGET (without one, an example); ARGS="--port 9000"
	@exec $(BIN)/framehold up $(ARGS)$(if $(TARGET), "$(TARGET)")

test: $(VENV)/.test  ## what a commit can break, in 20 minutes; ARGS="-k name" narrows it, STAGE=browser runs one stage
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python -m tests.stages test $(NAMED)
else
	$(BIN)/python -m pytest $(ARGS)
endif

nightly: $(VENV)/.test  ## all tests, in 150 minutes; STAGE=soak HOURS=2 runs one stage, and gives it two hours
	@$(BIN)/python -m tests.stages nightly $(NAMED) $(if $(HOURS),--hours $(HOURS))

tools: $(SETS:%=$(VENV)/.%)  ## what all stages need, 2.3 GB: then `make test ARGS=...` runs any test

check: $(VENV)/.test  ## format, lint, types, import rules, and whether every test can be collected
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@# It looks for packages as Python does, and loadtest/ need not be installed.
	PYTHONPATH=loadtest $(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/structure/test_source_rules.py tests/structure/test_law.py
	@# A test module that can't be imported fails here, in seconds, and not after all the others have run.
	@collected=$$($(BIN)/python -m pytest -qq --collect-only -m "not (browser or chart or docs or load or npm or release)") || { echo "$$collected" | tail -n 40; exit 1; }

format: $(VENV)/.test  ## rewrite the files as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

house: $(VENV)/.test  ## how large all this is, beside its aims; ARGS="--since v0.1.0" compares
	@$(BIN)/python -m tests.house $(ARGS)

docs: $(VENV)/.docs  ## the docs as a site, in build/site; a warning or a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.load  ## the table of speed beside its targets
	$(BIN)/python -m framehold_loadtest.bench $(ARGS)

peers: $(VENV)/.load $(VENV)/.npm  ## calls of Framehold beside what others offer; ARGS="--quick"
	$(BIN)/python -m framehold_loadtest.peers $(ARGS)

peers-suites: $(VENV)/.test  ## the tests of mcp's SDK and of FastMCP with Framehold in between; ARGS="--suite sdk --mode attached"
	$(BIN)/python -m tests.suites $(ARGS)

tradeoff: $(VENV)/.load  ## what each way to keep a call costs, undisturbed and under faults; ARGS="--quick"
	$(BIN)/framehold bench tradeoff $(ARGS)

load: $(VENV)/.load  ## a fleet under users and faults; ARGS="kill --seconds 30"
	$(BIN)/framehold load $(ARGS)

sim: $(VENV)/.test  ## N seeded schedules of the simulation, from SEED on
	$(BIN)/python -m tests.sim --runs $(N) --seed $(SEED)

mutants: $(VENV)/.test  ## what notices when a decision of the code is taken out, one at a time; ARGS="--minutes 30" for a while
	$(BIN)/python -m tests.mutants $(ARGS)

runtimes: $(VENV)/.test  ## N seeded schedules of real runtimes, from SEED on
	$(BIN)/python -m tests.seeded --runs $(N) --seed $(SEED)

soak: $(VENV)/.test  ## every real fault TIMES times, then MINUTES of all kinds at random under load
	$(BIN)/python -m tests.fleet.soak --times $(TIMES) --minutes $(MINUTES) --seed $(SEED)

fuzz: $(VENV)/.test $(VENV)/.fuzz  ## hostile requests, stores and inputs for MINUTES, or for SECONDS each part; PART=front runs one
	@$(BIN)/python -m tests.fuzz $(if $(SECONDS),--seconds $(SECONDS),--minutes $(MINUTES)) --seed $(SEED) $(PART:%=--part %)

day: $(VENV)/.test $(VENV)/.chart $(VENV)/.browser $(VENV)/.day  ## what each voice says of each fault, and its page in docs; ARGS="'a kill'" plays one scene
	@$(BIN)/python -m tests.fleet.day $(ARGS)

kube: $(VENV)/.chart  ## a real Kubernetes on this machine, for root on Linux; KUBE_BIN=folder takes its binaries from there
	@tests/kube/up.sh

kube-down:  ## the end of that cluster, and of all that it wrote
	@tests/kube/down.sh

kube-test: $(VENV)/.test $(VENV)/.chart  ## drills on that cluster, and their report; ARGS="'pod deleted' --users 50" carries out one
ifeq ($(strip $(ARGS)),)
	@tests/kube/machine.sh near control $(abspath $(BIN))/python -m tests.kube.drills --report
else
	@tests/kube/machine.sh near control $(abspath $(BIN))/python -m tests.kube.drills $(ARGS)
endif

version: $(VENV)/.release  ## write VERSION into all files that state it, and open its section of CHANGELOG.md
	@$(BIN)/python -m release version "$(VERSION)"

release: $(VENV)/.test $(VENV)/.release  ## build what is committed, check it, list its parts (SBOM) and tag it; nothing is published
	@$(BIN)/python -m release make
