"""What an expression names, and whether Prometheus can read it: the one by looking, the other by asking promtool."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.helm.known import TARGET, known

_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_METRIC = re.compile(r"(?<![\w.])([a-zA-Z_:][\w:]*)(\{[^}]*\})?(?!\w)(?!\s*\()")
_WORDS = {"and", "or", "unless", "offset", "bool", "by", "without", "on", "ignoring", "group_left", "group_right"}


class Selector(NamedTuple):
    """One metric in an expression, and what it wants of its labels: (label, operator, value)."""

    name: str
    wants: tuple[tuple[str, str, str], ...]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool, which `make test` sees to."""
    return subprocess.run(["promtool", *arguments], check=False, capture_output=True, text=True, timeout=60)


def selectors(expr: str) -> Iterator[Selector]:
    """The metrics that an expression names."""
    bare = re.sub(r"\[[^\]]*\]|\boffset\s+\w+", "", _GROUPED.sub("", expr))
    for name, braces in _METRIC.findall(bare):
        if name not in _WORDS:
            yield Selector(name, tuple(_MATCHER.findall(braces)))


def grouped(expr: str) -> set[str]:
    """The labels that it groups or joins by."""
    return {label.strip() for group in _GROUPED.findall(expr) for label in group.split(",") if label.strip()}


def wrong(expr: str) -> Iterator[str]:
    """What it names that no process exposes: metrics, labels, and values of labels."""
    every = set(TARGET)
    for selector in selectors(expr):
        series = known().get(selector.name)
        if series is None:
            yield f"no metric {selector.name}"
            continue
        labels = series.labels | TARGET
        every |= labels
        for label, operator, value in selector.wants:
            if label not in labels:
                yield f"{selector.name} has no label {label}"
            values = series.values.get(label, set())
            wanted = value.split("|") if "~" in operator else [value]
            yield from (f"{selector.name} is never {label}={one}" for one in wanted if values and one not in values)
    yield from (f"nothing has a label {label}" for label in grouped(expr) - every)


def unread(expressions: Iterable[str], folder: Path) -> str:
    """What promtool says of those that it can't read; empty where it can read them all."""
    rules = [{"record": f"test:expression:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    assert rules, "there is no expression to read"
    # JSON is YAML.
    file = folder / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "expressions", "rules": rules}]}))
    done = promtool("check", "rules", "--lint=none", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr
