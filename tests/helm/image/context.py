"""What a build is given of a folder: all but what its .dockerignore leaves out, the last line that fits deciding."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path


def copy(folder: Path, to: Path) -> list[str]:
    """Copy it as a build is sent it; the paths, in their order."""
    ignored = folder / ".dockerignore"
    rules = _rules(ignored.read_text()) if ignored.exists() else []
    paths = sorted(_sent(folder, "", rules))
    for path in paths:
        target = to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / path, target)
        target.chmod(0o644)
    return paths


Rule = tuple[bool, re.Pattern[str]]


def _rules(text: str) -> list[Rule]:
    lines = [line.strip() for line in text.splitlines()]
    return [(line.startswith("!"), _pattern(line.lstrip("!"))) for line in lines if line and not line.startswith("#")]


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern fits a path, and whatever lies below it."""
    parts = re.split(r"(\*\*/|\*)", text.strip("/"))
    spelt = {"**/": "(.*/)?", "*": "[^/]*"}
    return re.compile("".join(spelt.get(part, re.escape(part)) for part in parts) + "(/.*)?")


def _sent(folder: Path, under: str, rules: list[Rule]) -> Iterator[str]:
    for entry in (folder / under).iterdir():
        path = f"{under}/{entry.name}".lstrip("/")
        fits = [kept for kept, pattern in rules if pattern.fullmatch(path)]
        if fits and not fits[-1]:
            # What is below may be let in again; ours lets in whole folders of the top only.
            continue
        if entry.is_dir():
            yield from _sent(folder, path, rules)
        else:
            yield path
