"""One run of a suite in one mode, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suites.outcomes import Outcome, read
from tests.suites.place import Place
from tests.suites.suites import PLAIN, Suite

PLUGINS = Path(__file__).with_name("plugins")
_END = 30.0
"""Seconds in which pytest ends after an interrupt."""
_TAIL = 2000
"""Characters of pytest's output that a problem shows."""


@dataclass(frozen=True, slots=True)
class Run:
    """How each test ended. `placed` counts where Framehold was put in between. `problem` says why there are no
    outcomes."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    placed: dict[str, int] = field(default_factory=dict)
    problem: str = ""


def play(
    suite: Suite, mode: str, place: Place, workers: int, limit: float, only: Sequence[str] = (), label: str = ""
) -> Run:
    """Run the suite, or `only` these of its tests. `label` is a part of the name of the files that the run writes."""
    base = place.results / f"{mode}{label}"
    junit, placed, log = base.with_suffix(".xml"), base.with_suffix(".json"), base.with_suffix(".log")
    for old in (junit, placed, log):
        old.unlink(missing_ok=True)
    command = _command(suite, mode, place, workers, only, junit)
    with log.open("wb") as output:
        code = _pytest(command, place.source, _environment(suite, mode, placed), output.fileno(), limit)
    counts: dict[str, int] = json.loads(placed.read_text()) if placed.exists() else {}
    if code not in (0, 1) or not junit.exists():
        why = f"longer than {limit:g} s" if code is None else f"pytest ended with code {code}"
        return Run(placed=counts, problem=f"{why}; {log} ends:\n{log.read_text(errors='replace')[-_TAIL:]}")
    if mode != PLAIN and not counts and not only:
        return Run(problem=f"Framehold was put nowhere in between; nothing was compared; see {log}")
    return Run(read(junit), counts)


def _command(suite: Suite, mode: str, place: Place, workers: int, only: Sequence[str], junit: Path) -> list[str]:
    plugins = ["ordinary_failures", *([] if mode == PLAIN else ["placed", suite.plugin])]
    command = [str(place.python), "-m", "pytest", "-q", "--tb=native", "-p", "no:cacheprovider"]
    for plugin in plugins:
        command += ["-p", plugin]
    command += ["-n", str(workers), "--timeout", str(suite.timeout), "-o", "junit_family=xunit1"]
    return [*command, f"--junitxml={junit}", *suite.options, *(only or suite.tests)]


def _environment(suite: Suite, mode: str, placed: Path) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("FRAMEHOLD_", "PYTEST_"))}
    path = os.pathsep.join([str(PLUGINS), *suite.path])
    return {**usual, "PYTHONPATH": path, "COLUMNS": "200", "SUITE_MODE": mode, "SUITE_PLACED": str(placed)}


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
        try:
            child.wait(_END)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
