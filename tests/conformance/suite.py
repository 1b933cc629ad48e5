"""One run of the conformance suite, read from the files that it writes rather than from what it prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.node_cache import CACHE, NODE, SUITE

REQUIRED = {"2026-07-28": 152, "2025-11-25": 84}
"""Checks of each revision, all of which must pass.

A server that skips a feature has fewer checks rather than failed ones, hence the number. mcp 2.3.0's own example server
scores 151 of 152 under httptools (152 under h11) and 84 of 84, the latter with an event store and 81 of 81 without.
"""

_FOLDER = re.compile(r"^server-(?P<scenario>.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$")


@dataclass(frozen=True, slots=True)
class Check:
    """One check: `status` is SUCCESS, FAILURE, WARNING, SKIPPED or INFO; only the first two count."""

    scenario: str
    identifier: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one protocol revision; `problem` says why the suite itself stopped, if it did."""

    checks: tuple[Check, ...]
    problem: str = ""

    @property
    def passed(self) -> int:
        return sum(check.status == "SUCCESS" for check in self.checks)

    @property
    def counted(self) -> int:
        return sum(check.status in ("SUCCESS", "FAILURE") for check in self.checks)

    @property
    def faults(self) -> list[Check]:
        """What a reader must look at: failures, and warnings and skips, which silently lower the count."""
        return [check for check in self.checks if check.status not in ("SUCCESS", "INFO")]


def run(url: str, version: str, timeout: float, folder: str) -> Report:
    """Run every scenario of `version` against `url`, for at most `timeout` seconds; `folder` is where the suite writes
    what it found."""
    results = CACHE / "results" / folder / version
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    command = [str(NODE), str(SUITE), "server", "--url", url, "--suite", "all", "--spec-version", version]
    command += ["--output-dir", str(results)]
    problem = ""
    with (results / "output.txt").open("wb") as output:
        try:
            subprocess.run(
                command, timeout=timeout, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            )
        except subprocess.TimeoutExpired:
            problem = f"the suite was stopped after {timeout:.0f} s; {results / 'output.txt'} shows where"
    checks = tuple(read(results))
    if not checks and not problem:
        problem = (results / "output.txt").read_text(errors="replace").strip()[-2000:] or "the suite said nothing"
    return Report(checks, problem)


def read(results: Path) -> list[Check]:
    """The checks of every scenario folder below `results`."""
    checks = []
    for file in sorted(results.glob("*/checks.json")):
        named = _FOLDER.match(file.parent.name)
        scenario = named["scenario"] if named else file.parent.name
        for entry in json.loads(file.read_text()):
            message = entry.get("errorMessage") or entry.get("description", "")
            checks.append(Check(scenario, entry["id"], entry["status"], message))
    return checks
