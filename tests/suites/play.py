"""One run of a suite in one mode, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suites.comparison import Outcome, read
from tests.suites.place import Place
from tests.suites.suites import PLAIN, Suite

PLUGINS = Path(__file__).with_name("plugins")
_END = 30.0
"""Seconds in which pytest ends after an interrupt."""
_TAIL = 2000
"""Characters of pytest's output that a problem shows."""


@dataclass(frozen=True, slots=True)
class Options:
    """How runs are made: with so many parallel `workers`, each for `limit` seconds at most. `store` is the URL of the
    Redis of fleets."""

    workers: int = 2
    limit: float = 1800.0
    store: str = ""


@dataclass(frozen=True, slots=True)
class Files:
    """What a run writes: the outcomes, the places where Framehold was put, the output of pytest, the logs of forks."""

    junit: Path
    placed: Path
    log: Path
    logs: Path

    def clear(self) -> None:
        for old in (self.junit, self.placed, self.log):
            old.unlink(missing_ok=True)
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir()


@dataclass(frozen=True, slots=True)
class Run:
    """How each test ended. `placed` counts where Framehold was put in between. `problem` says why there are no
    outcomes."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    placed: dict[str, int] = field(default_factory=dict)
    problem: str = ""


def play(
    suite: Suite,
    mode: str,
    place: Place,
    options: Options,
    only: Sequence[str] = (),
    label: str = "",
) -> Run:
    """Run the suite, or `only` these of its tests. `label` is a part of the name of the files that the run writes."""
    base = place.results / f"{mode}{label}"
    files = Files(*(base.with_suffix(suffix) for suffix in (".xml", ".json", ".log", ".d")))
    files.clear()
    command = _command(suite, mode, place, options.workers, only, files.junit)
    with files.log.open("wb") as output:
        environment = _environment(suite, mode, files, options.store)
        code = _pytest(command, place.source, environment, output.fileno(), options.limit)
    counts: dict[str, int] = json.loads(files.placed.read_text()) if files.placed.exists() else {}
    if code not in (0, 1) or not files.junit.exists():
        why = f"longer than {options.limit:g} s" if code is None else f"pytest ended with code {code}"
        return Run(placed=counts, problem=f"{why}; {files.log} ends:\n{files.log.read_text(errors='replace')[-_TAIL:]}")
    if mode != PLAIN and not counts.get(mode) and not only:
        return Run(problem=f"no server of these tests was put into mode {mode}; nothing was compared; see {files.log}")
    return Run(read(files.junit), counts)


def _command(suite: Suite, mode: str, place: Place, workers: int, only: Sequence[str], junit: Path) -> list[str]:
    command = [str(place.python), "-m", "pytest", "-q", "--tb=native", "--color=no", "-p", "no:cacheprovider"]
    for plugin in suite.plugins(mode):
        command += ["-p", plugin]
    command += ["-n", str(workers), "--timeout", str(suite.timeout), "-o", "junit_family=xunit1"]
    return [*command, f"--junitxml={junit}", *suite.options, *(only or suite.files(mode))]


def _environment(suite: Suite, mode: str, files: Files, store: str) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("FRAMEHOLD_", "PYTEST_"))}
    own = {"SUITE_MODE": mode, "SUITE_STORE": store, "SUITE_PLACED": str(files.placed), "SUITE_LOGS": str(files.logs)}
    return {**usual, **own, "PYTHONPATH": os.pathsep.join([str(PLUGINS), *suite.path]), "COLUMNS": "200"}


def _pytest(command: list[str], folder: Path, environment: dict[str, str], output: int, limit: float) -> int | None:
    """Run pytest; its exit code, or None if it took too long. Whatever happens, it and its children end."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END)
    # What its workers have forked is in its group, and is not ended with a worker that was killed.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
