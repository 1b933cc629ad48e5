"""The pages that promise something name the tests that hold it, and each test that they name is there.

A test is named by its file below `tests/` and its function: `node/engine/test_drain.py::test_new_calls`. In a list, a
name that begins with `::` is a function of the file that the list named last. What is parametrized is named without its
parameters.

`docs/guarantees.md` has one promise a section. Each section ends with a list of its tests. The other pages have tables
with a column for tests.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from .test_law import functions

ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.md"
PAGES = [GUARANTEES, ROOT / "docs" / "threat-model.md", ROOT / "node" / "sdk-seams.md"]
SCREEN = 120
"""Columns of a screen: a line of the guarantees has no more."""
_NAME = re.compile(r"`([\w/.-]+\.py)::(\w+)`")
_FILE = re.compile(r"- `([\w/.-]+\.py)`")
_CONTINUED = re.compile(r"  - `::(\w+)`")
_LISTED = re.compile(rf"- {_NAME.pattern}")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_TESTS = "**Tests:**"
_RULE = re.compile(r":?-+:?")
_HEADINGS = ("test", "tests")


def named(text: str) -> Iterator[tuple[str, str]]:
    """The tests that a page names: file and function."""
    file = ""
    for line in text.splitlines():
        if alone := _FILE.fullmatch(line):
            file = alone[1]
        elif continued := _CONTINUED.fullmatch(line):
            yield file, continued[1]
        else:
            file = ""
            yield from _NAME.findall(line)


def missing(text: str) -> Iterator[str]:
    """The tests that a page names and that are not there."""
    for file, name in named(text):
        if name not in functions(ROOT / "tests" / file):
            yield f"{file}::{name}"


def unproved(text: str) -> Iterator[str]:
    """The rows of tables with a column for tests that name none in it."""
    column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            column = None
        elif column is None:
            column = next((place for place, cell in enumerate(cells) if cell.lower() in _HEADINGS), len(cells))
        elif column < len(cells) and not _RULE.fullmatch(cells[column]) and not _NAME.search(cells[column]):
            yield cells[0]


def sections(text: str) -> Iterator[tuple[int, str, str]]:
    """The sections of a page: depth and text of each heading, and what stands below it up to the next heading."""
    found = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in found[1:]] + [len(text)]
    for heading, end in zip(found, ends, strict=True):
        yield len(heading[1]), heading[2], text[heading.end() : end]


def unheld(text: str) -> Iterator[str]:
    """The promises of a page of sections that break its form: each section of the third level is one promise. Its text
    comes first, then its tests, each on a line of its own. Nothing is promised outside of such a section."""
    for depth, heading, body in sections(text):
        promise, label, tests = body.partition(f"\n{_TESTS}\n")
        if depth != 3:
            if label or "**Not promised:**" in body or re.search(r"(?m)^\|", body):
                yield f"{heading}: a promise outside of a section of its own"
            continue
        lines = [line for line in tests.splitlines() if line.strip()]
        if not promise.strip():
            yield f"{heading}: no promise"
        if not lines:
            yield f"{heading}: no tests"
        yield from (f"{heading}: {line}" for line in _not_tests(lines))


def _not_tests(lines: list[str]) -> Iterator[str]:
    """The lines of a list of tests that name none."""
    for line, after in pairwise([*lines, ""]):
        if _FILE.fullmatch(line):
            if not _CONTINUED.fullmatch(after):
                yield line
        elif not _CONTINUED.fullmatch(line) and not _LISTED.fullmatch(line):
            yield line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_test_that_a_page_names_is_there(page: Path) -> None:
    assert list(missing(page.read_text())) == []
    assert len(list(named(page.read_text()))) > 10, "it names hardly any"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_row_that_promises_something_names_a_test(page: Path) -> None:
    assert list(unproved(page.read_text())) == []


def test_each_section_that_promises_something_names_a_test() -> None:
    text = GUARANTEES.read_text()
    assert list(unheld(text)) == []
    assert sum(depth == 3 for depth, _, _ in sections(text)) > 40, "it promises hardly anything"


def test_a_line_of_the_guarantees_fits_a_screen() -> None:
    assert [line for line in GUARANTEES.read_text().splitlines() if len(line) > SCREEN] == []


HERE = "structure/test_docs_name_real_tests.py"
GONE = "test_that_never_was"
MINE = "test_a_test_that_is_not_there_is_noticed"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (f"`{HERE}::{MINE}` and `{HERE}::{GONE}`", [f"{HERE}::{GONE}"]),
        ("`node/test_never.py::test_x`", ["node/test_never.py::test_x"]),
        (f"- `{HERE}`\n  - `::{MINE}`\n  - `::{GONE}`\n", [f"{HERE}::{GONE}"]),
        (f"- `{HERE}`\n\n  - `::{MINE}`\n", [f"::{MINE}"]),
        ("- `node/test_never.py`\n  - `::test_x`\n", ["node/test_never.py::test_x"]),
    ],
    ids=["in a line", "of no file", "in a list", "after the end of the list", "in a list of no file"],
)
def test_a_test_that_is_not_there_is_noticed(text: str, gone: list[str]) -> None:
    assert list(missing(text)) == gone


def test_a_row_without_a_test_is_noticed() -> None:
    promises = "| What | Test |\n| --- | --- |\n| one | `a.py::test_b` |\n| two | |\n| three | later |\n"
    page = promises + "\n| No | column |\n| - | - |\n| x | |\n"
    assert list(unproved(page)) == ["two", "three"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("### One\n\nIt holds.\n", "One: no tests"),
        ("### One\n\n**Tests:**\n\n- `a.py::test_b`\n", "One: no promise"),
        ("### One\n\nIt holds.\n\n**Tests:**\n\n- later\n", "One: - later"),
        ("### One\n\nIt holds.\n\n**Tests:**\n\n- `a.py`\n", "One: - `a.py`"),
        ("### One\n\nIt holds.\n\n**Tests:**\n\n- `a.py`\n- `b.py::test_b`\n", "One: - `a.py`"),
        ("### One\n\nIt holds.\n\n**Tests:**\n\n- `a.py::test_b`\n\nThat holds too.\n", "One: That holds too."),
        ("## One\n\nIt holds.\n\n**Not promised:** More.\n", "One: a promise outside of a section of its own"),
        ("## One\n\n| What | Promise |\n", "One: a promise outside of a section of its own"),
    ],
)
def test_a_promise_without_a_test_is_noticed(text: str, wrong: str) -> None:
    sound = "### Sound\n\nIt holds.\n\n**Tests:**\n\n- `a.py::test_b`\n- `c.py`\n  - `::test_d`\n  - `::test_e`\n"
    assert list(unheld(sound)) == []
    assert list(unheld(f"{sound}\n{text}\n{sound}")) == [wrong]
