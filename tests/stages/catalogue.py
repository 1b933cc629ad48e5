"""The stages of `make test` and of `make nightly`, in their order.

`make test` runs what a commit can break. A stage says which tools it needs: they are installed before it begins, so
the stages that need large tools come last. `make nightly` runs the same, and all that `make test` leaves out.

In `make test`, tests that may run beside any other are in parallel workers first. Then come three lanes at the same
time: the first one waits most of the time, and two workers share it. Tests that compare seconds with a promised figure
are alone.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from tests.stages.marks import TOOLS

WORKERS = os.environ.get("WORKERS", "3")
"""Parallel workers of pytest: with two, two cores stood idle for a third of the time, since many tests wait."""
TOOLED = " or ".join(sorted(TOOLS))
ORDINARY = f"not (nightly or {TOOLED})"
"""Tests that need no tool, and that a commit can break."""
SHIPPED = ("core", "store", "fleet", "router", "node", "cli", "pyproject.toml", "tests/dev.lock")
"""What every stage of real processes reads. A stage that runs tests of all rooms reads the whole checkout."""
_DAY = str(int(time.time() // 86_400) * 100_000)
"""The first seed of the simulation: other schedules each day."""

Command = tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """One row of the table.

    `lanes`: commands that run at the same time. `needs`: tools, by their names in the Makefile. `minutes`: the limit,
    or the share of an open-ended stage, whose commands have `{minutes}` in them. `reads`: what changes its result; a
    result of `make nightly` is kept until one of these files changes, but for a stage that asks the world (`asks`).
    """

    name: str
    lanes: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    minutes: float = 10
    reads: tuple[str, ...] = (".",)
    needs_root: bool = False
    asks: bool = False

    @property
    def is_open_ended(self) -> bool:
        """Whether more time finds more."""
        return any("{minutes}" in word for lane in self.lanes for word in lane)

    def commands(self, minutes: float) -> list[Command]:
        """Its commands, for so much time."""
        return [tuple(word.replace("{minutes}", f"{minutes:g}") for word in lane) for lane in self.lanes]


def pytest(*words: str) -> Command:
    """A run of pytest."""
    return (sys.executable, "-m", "pytest", "-q", *words)


def _module(*words: str) -> Command:
    return (sys.executable, "-m", *words)


_NOT_CHART = "nightly or browser"


def _parallel(marks: str) -> tuple[Command, ...]:
    # By itself xdist starts files of few tests last, and whole fleets are started by files of few tests.
    return (pytest("-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder", "-m", marks),)


TEST = (
    Stage("check", (("make", "check"),), minutes=5),
    Stage("parallel", _parallel(f"{ORDINARY} and not (alone or serial or fleet)"), minutes=30),
    Stage(
        "lanes",
        (
            pytest("-n", "2", "--dist", "loadfile", "-m", f"{ORDINARY} and fleet and not alone"),
            pytest("-m", f"{ORDINARY} and serial and not alone"),
            _module("tests.sim", "--runs", "5000", "--seed", _DAY),
        ),
        minutes=15,
    ),
    Stage("alone", (pytest("-m", f"{ORDINARY} and alone"),)),
    Stage("docs", (pytest("-m", "docs and not nightly"),), ("docs",)),
    Stage(
        "chart",
        (
            *_parallel(f"chart and not ({_NOT_CHART} or fleet or alone)"),
            pytest("-m", f"chart and (fleet or alone) and not ({_NOT_CHART})"),
        ),
        ("chart",),
    ),
    Stage("browser", (pytest("-m", "browser and not nightly"),), ("browser",), minutes=15),
    Stage("conformance", (pytest("-m", "npm and not nightly"),), ("npm",)),
)
"""What `.ci/run` runs, too."""


def _other_python(release: str) -> Stage:
    folder = f".venv/{release}"
    making = f'make {folder}/.test VENV={folder} PYTHON="$(sh tests/find_python.sh {release})"'
    running = f"{folder}/bin/python -m tests.stages test --stage parallel --stage lanes --stage alone"
    return Stage(f"python-{release}", (("sh", "-ec", f"{making}; {running}"),), minutes=30)


NIGHTLY = (
    Stage("test", (_module("tests.stages", "test"),), minutes=60),
    Stage("rest", _parallel(f"nightly and not ({TOOLED})"), minutes=20),
    Stage("browsers", (pytest("-m", "browser and nightly"),), ("browser", "firefox", "chart"), minutes=15),
    Stage("charts", _parallel("chart and nightly and not browser"), ("chart",)),
    Stage(
        "load",
        (
            pytest("-m", "load and not fleet"),
            pytest("-m", "load and fleet"),
            _module("mypy", "loadtest/framehold_loadtest"),
        ),
        ("load", "npm"),
        minutes=20,
        reads=(*SHIPPED, "tests/kit", "loadtest", "tests/loadtest", "tests/sim"),
    ),
    Stage("release", (pytest("-m", "release"),), ("release",)),
    Stage("audit", (_module("release.audit"),), reads=("images", "tests", "loadtest", "release"), asks=True),
    _other_python("3.12"),
    _other_python("3.13"),
    Stage(
        "conformance-ways",
        (pytest("-m", "npm and nightly"),),
        ("npm",),
        reads=(*SHIPPED, "tests/kit", "tests/conformance", "tests/fleet", "tests/store"),
    ),
    Stage(
        "suites", (_module("tests.suites"),), minutes=30, reads=(*SHIPPED, "tests/kit", "tests/suites", "tests/store")
    ),
    Stage("soak", (_module("tests.fleet.soak", "--times", "1", "--minutes", "{minutes}"),), minutes=20),
    Stage(
        "memory", (_module("tests.memory"),), minutes=15, reads=(*SHIPPED, "tests/kit", "tests/memory"), needs_root=True
    ),
    Stage(
        "fuzz",
        (_module("tests.fuzz", "--minutes", "{minutes}", "--seed", _DAY),),
        ("fuzz",),
        minutes=15,
        reads=(*SHIPPED, "tests/kit", "examples/haproxy.cfg", "tests/compat", "tests/fuzz"),
    ),
    Stage(
        "simulation",
        (_module("tests.sim", "--minutes", "{minutes}", "--add"),),
        minutes=15,
        reads=("core", "store", "tests/sim"),
    ),
    Stage(
        "runtimes",
        (_module("tests.seeded", "--minutes", "{minutes}", "--add"),),
        minutes=15,
        reads=(*SHIPPED, "tests/kit", "tests/seeded", "tests/sim", "tests/node"),
    ),
    Stage(
        "ordinary",
        (_module("tests.ordinary", "--requests", "20000", "--seed", _DAY),),
        minutes=15,
        reads=(*SHIPPED, "tests/kit", "tests/ordinary", "tests/store"),
    ),
    Stage(
        "long-path",
        (
            (
                "sh",
                "-ec",
                f"FRAMEHOLD_ORDINARY=false {sys.executable} -m tests.stages test --stage parallel --stage lanes",
            ),
        ),
        minutes=45,
    ),
    Stage(
        "mutants",
        (_module("tests.mutants", "--minutes", "{minutes}"),),
        minutes=10,
        reads=(
            *SHIPPED,
            "tests/kit",
            "tests/mutants",
            "tests/seeded",
            "tests/sim",
            "tests/core",
            "tests/node",
            "tests/store",
        ),
    ),
    Stage(
        "day",
        (_module("tests.fleet.day"),),
        ("chart", "browser", "day"),
        minutes=60,
        reads=(*SHIPPED, "tests/kit", "helm", "tests/fleet", "tests/store"),
    ),
    Stage(
        "kube",
        (("sh", "-ec", "make kube-down; trap 'make kube-down' EXIT; make kube; make kube-test"),),
        ("chart",),
        minutes=60,
        reads=(*SHIPPED, "tests/kit", "helm", "images", "tests/kube"),
        needs_root=True,
    ),
)
"""All that `make test` leaves out, behind `make test` itself."""
