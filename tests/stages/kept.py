"""Results of `make nightly`, kept between runs: a stage counts again only if what it reads has changed.

They are one file of JSON lines outside of the checkout, so that a fresh clone merges what others have run. A line names
the commit and a digest of the files that the stage reads, with changes that are not committed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT
from tests.stages.budget import DURATIONS

_BUT = f":(exclude){DURATIONS.relative_to(ROOT)}"
"""The order of files changes no result, and `make nightly` itself writes it."""


@dataclass(frozen=True)
class Result:
    """How a stage ended. `tests`: those that passed; 0 where none are counted. `outcome`: passed, failed, or why it
    could not run."""

    stage: str
    commit: str
    digest: str
    tests: int
    seconds: float
    outcome: str
    again: str
    """The command that plays it, or what failed in it, again."""

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


def path() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "framehold" / "nightly.jsonl"


def commit() -> str:
    changed = "+" if _git("status", "--porcelain", "--untracked-files=no") else ""
    return _git("rev-parse", "--short=10", "HEAD").strip() + changed


def digest(paths: Iterable[str]) -> str:
    """A digest of these files and folders as they are in the checkout."""
    wanted = [*sorted(paths), _BUT]
    text = _git("ls-files", "-s", "--", *wanted) + _git("diff", "HEAD", "--", *wanted)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def keep(result: Result, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as kept:
        kept.write(json.dumps(dataclasses.asdict(result)) + "\n")


def newest(file: Path) -> dict[tuple[str, str], Result]:
    """The newest result for each stage and digest."""
    if not file.exists():
        return {}
    results = (Result(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines())
    return {(result.stage, result.digest): result for result in results}
