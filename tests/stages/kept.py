"""The last result of each stage of `make nightly`: a stage counts again only if what it reads has changed.

They are one file of the repository, since all stages take longer than a day has: whoever runs one commits what came of
it. A result names the commit and a digest of the files that the stage reads, with changes that are not committed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.kit.processes import ROOT
from tests.stages.budget import DURATIONS

FILE = ROOT / "tests" / "nightly.json"
"""The results."""
_PLAYED = [ROOT / "tests" / name / "played.json" for name in ("sim", "seeded")]
_BUT = [f":(exclude){path.relative_to(ROOT)}" for path in (DURATIONS, FILE, *_PLAYED)]
"""What `make nightly` itself writes, which changes no result."""


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
        """Whether it ran and nothing failed."""
        return self.outcome == "passed"


def commit() -> str:
    """The commit of the checkout, with a plus if it has changes."""
    changed = "+" if _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_BUT) else ""
    return _git("rev-parse", "--short=10", "HEAD").strip() + changed


def digest(paths: Iterable[str]) -> str:
    """A digest of these files and folders as they are in the checkout."""
    wanted = [*sorted(paths), *_BUT]
    text = _git("ls-files", "-s", "--", *wanted) + _git("diff", "HEAD", "--", *wanted)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def keep(result: Result, file: Path) -> None:
    """Keep a result in place of the stage's last one."""
    results = {**read(file), result.stage: result}
    text = {name: dataclasses.asdict(found) for name, found in sorted(results.items())}
    file.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> dict[str, Result]:
    """The last result of each stage that was played."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: Result(**fields) for name, fields in found.items()}
