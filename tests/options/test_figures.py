"""The page on the options shows what its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

import measure

PAGE = Path(__file__).parents[2] / "docs" / "options.md"
STATE, NEAR = "`requestState`", 0.1
"""The column of sizes, and how far apart they may be: times and random values are in them."""


def rows(text: str) -> list[list[str]]:
    """The measured table in a text."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    first = next(index for index, cells in enumerate(found) if cells[0] == "Option")
    return found[first : first + 2 + len(measure.WAYS)]


def test_the_page_shows_what_is_measured() -> None:
    """Counts are the same; sizes are near."""
    shown, seen = rows(PAGE.read_text()), rows(measure.table(measure.measured()))
    column = shown[0].index(STATE)
    sizes = [[row.pop(column) for row in table] for table in (shown, seen)]
    assert shown == seen
    for before, now in zip(*sizes, strict=True):
        if before.endswith(" B"):
            assert int(now.removesuffix(" B")) == pytest.approx(int(before.removesuffix(" B")), rel=NEAR)
        else:
            assert before == now
