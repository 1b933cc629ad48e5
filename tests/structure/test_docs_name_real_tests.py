"""The pages that promise something name the tests that hold it, and each test that they name is there.

A test is named by its file below `tests/` and its function: `node/test_drain.py::test_new_calls`. What is
parametrized is named without its parameters.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("guarantees.md", "threat-model.md")]
_NAME = re.compile(r"`([\w/.-]+\.py)::(\w+)`")
_RULE = re.compile(r":?-+:?")
_HEADINGS = ("test", "tests")


@cache
def functions(path: Path) -> frozenset[str]:
    """The tests of a file: its functions, and the methods of its classes."""
    if not path.is_file():
        return frozenset()
    found = (
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(node.name for node in found if node.name.startswith("test_"))


def missing(text: str) -> Iterator[str]:
    """The tests that a page names and that are not there."""
    for file, name in _NAME.findall(text):
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_test_that_a_page_names_is_there(page: Path) -> None:
    assert list(missing(page.read_text())) == []
    assert len(_NAME.findall(page.read_text())) > 10, "it names hardly any"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_row_that_promises_something_names_a_test(page: Path) -> None:
    assert list(unproved(page.read_text())) == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    here = "structure/test_docs_name_real_tests.py"
    assert list(missing(f"`{here}::test_that_never_was` and `{here}::missing`")) == [
        f"{here}::test_that_never_was",
        f"{here}::missing",
    ]
    assert list(missing("`node/test_never.py::test_x`")) == ["node/test_never.py::test_x"]
    assert list(missing(f"`{here}::test_a_test_that_is_not_there_is_noticed`")) == []


def test_a_row_without_a_test_is_noticed() -> None:
    promises = "| What | Test |\n| --- | --- |\n| one | `a.py::test_b` |\n| two | |\n| three | later |\n"
    page = promises + "\n| No | column |\n| - | - |\n| x | |\n"
    assert list(unproved(page)) == ["two", "three"]
