"""What the tests of a file need, read without importing it.

A stage selects tests by their marks, and imports only the files that have such tests. So it takes no time for the
others, and it runs where their tools are missing: a stage installs its tools before it begins, and most stages need
none. Where a run selects tests whose tool is missing, it ends with the command that installs it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

# What pytest itself evaluates `-m` with. It has no public name.
from _pytest.mark.expression import Expression

TOOLS: dict[str, Callable[[], object]] = {
    "browser": lambda: importlib.util.find_spec("playwright"),
    "chart": lambda: importlib.util.find_spec("helm_python"),
    "docs": lambda: importlib.util.find_spec("mkdocs"),
    "load": lambda: importlib.util.find_spec("framehold_loadtest"),
    "npm": lambda: shutil.which("npm"),
    "release": lambda: importlib.util.find_spec("twine"),
}
"""The marks that name a tool, and how it is looked for. A mark is also the name of its set in the Makefile."""
OTHERS = frozenset(("alone", "firefox", "fleet", "nightly", "serial"))
"""The marks by which stages choose tests, beside tools."""
_MARK = re.compile(r"pytest\.mark\.(\w+)")
_OF_FILE = re.compile(r"(?m)^pytestmark = (\[[^\]]*\]|.*)$")


class Marks(NamedTuple):
    """`always`: the marks of each test in a file; `sometimes`: marks that some of its tests have."""

    always: frozenset[str]
    sometimes: frozenset[str]


@cache
def test_files(path: Path) -> list[Path]:
    """The test files in a folder, or the file itself if it is one."""
    if path.is_dir():
        return sorted(path.rglob("test_*.py"))
    return [path] if path.name.startswith("test_") and path.suffix == ".py" else []


@cache
def of_file(path: Path) -> Marks:
    """The marks of a test file's tests, of those by which stages choose."""
    text = path.read_text(encoding="utf-8")
    known = OTHERS.union(TOOLS)
    stated = _OF_FILE.search(text)
    always = known.intersection(_MARK.findall(stated[1]) if stated else ())
    return Marks(always, known.intersection(_MARK.findall(text)) - always)


@cache
def selects(expression: str, marks: Marks) -> bool:
    """Whether `-m expression` may select a test with such marks."""
    if not expression:
        return True
    compiled = Expression.compile(expression)
    some = chain.from_iterable(combinations(marks.sometimes, count) for count in range(len(marks.sometimes) + 1))
    wholes = (marks.always.union(each) for each in some)
    return any(compiled.evaluate(lambda name, /, whole=whole, **_: name in whole) for whole in wholes)


def missing(path: Path) -> list[str]:
    """The tools that each test of a file needs and that are not here."""
    return sorted(mark for mark in of_file(path).always & TOOLS.keys() if not TOOLS[mark]())
