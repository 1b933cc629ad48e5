"""What a run of pytest did, as a file for the process that started it: tests, failures, seconds of each file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Counted:
    """Tests of one or more runs. `seconds`: of each test file, its fixtures included."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counted) -> None:
        """Take in another run."""
        self.passed += other.passed
        self.failed += other.failed
        self.seconds.update(other.seconds)


def of_reports(stats: dict[str, list[Any]]) -> Counted:
    """What the reports of pytest's terminal say."""
    seconds: Counter[str] = Counter()
    for report in (each for reports in stats.values() for each in reports if hasattr(each, "duration")):
        seconds[report.nodeid.partition("::")[0]] += report.duration
    failed = sorted({report.nodeid for report in (*stats.get("failed", ()), *stats.get("error", ()))})
    return Counted(len(stats.get("passed", ())), failed, seconds)


def write(path: Path, counted: Counted) -> None:
    """Keep it for the process that started pytest."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(vars(counted)), encoding="utf-8")


def read(paths: Iterable[Path]) -> Counted:
    """What the runs of one stage did together. A run that was ended early left no file."""
    counted = Counted()
    for path in paths:
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            counted.add(Counted(kept["passed"], kept["failed"], Counter(kept["seconds"])))
    return counted
